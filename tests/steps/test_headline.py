"""The sentence on the run holds for the absorbed and the expanded form of MLA."""

import pytest

from attnviz.compute.view import View
from attnviz.session.settings import Settings
from attnviz.ui.headline import sharing


@pytest.mark.parametrize("absorbed", [False, True])
def test_mla_is_said_with_what_it_caches_and_not_how_it_is_computed(absorbed):
    view = View(Settings(model="own", attention="mla", n_heads=5, d_model=70, absorbed=absorbed))
    said = sharing(view)
    widths = f"one {view.config.kv_lora_rank}-wide latent and one {view.config.qk_rope_head_dim}-wide RoPE key"
    assert said == f"MLA: 5 heads, {widths} cached per token"
    assert "one 64-wide latent and one 16-wide RoPE key" in sharing(View(Settings(model="mla", absorbed=absorbed)))
