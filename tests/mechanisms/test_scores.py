"""What a mechanism does to its scores is said and refused by the mechanism."""

import re

import numpy as np
import pytest

from attnviz.mechanisms import Grouped, Latent
from attnviz.mechanisms.grouped import CAPPED

CAP = Grouped(6, n_kv_heads=2, head_dim=5, softcap=1.75)
PLAIN = Grouped(6, n_kv_heads=2, head_dim=5)
LATENT = Latent(3, kv_lora_rank=7, qk_nope_head_dim=5, qk_rope_head_dim=2, v_head_dim=11)


@pytest.mark.parametrize("what", CAPPED)
def test_what_capped_scores_cannot_is_said_with_the_cap(what):
    assert "1.75 · tanh(score / 1.75)" in CAP.cannot(what) and CAP.cannot(what).endswith(".")
    assert PLAIN.cannot(what) == LATENT.cannot(what) == ""


def test_the_written_score_is_the_capped_one():
    written = CAP.scored("2.5").replace("·", "*").replace("tanh", "np.tanh")
    assert eval(written, {"np": np, "c": 1.75}) == pytest.approx(1.75 * np.tanh(2.5 / 1.75))
    assert CAP.score_letters() == "c = 1.75: soft cap"
    assert re.sub(r"\s", "", CAP.scored("x", tex=True)) == r"c\tanh\left(\tfrac{1}{c}x\right)"
    for mixer in (PLAIN, LATENT):
        assert (mixer.scored("x"), mixer.scored("x", tex=True), mixer.score_letters(), mixer.score_note) == (
            "x", "x", "", "",
        )  # fmt: skip
