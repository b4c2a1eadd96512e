"""A mechanism added in six files: attention with linear biases runs, decodes, is costed, shown and, once, refused."""

import numpy as np
import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from attnviz.config import ModelConfig
from attnviz.cost import cache, parameters
from attnviz.modules import Transformer
from attnviz.trace import trace
from tests.pages import opened, shown

CONFIG = ModelConfig(3, 35, 8, 2, 5, 13, vocab_size=23, attention="alibi")
IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
MODEL = Transformer.random(CONFIG, 0)


def test_it_is_torchs_kernel_with_the_biases_of_bloom():
    layer = trace(MODEL, IDS).layers[1]
    biases = build_alibi_tensor(torch.ones(1, len(IDS)), 8, torch.float32)  # (H, 1, T), up to a constant of the row
    q, k, v = (torch.tensor(a.copy()) for a in (layer.q, layer.k.repeat(4, 0), layer.v.repeat(4, 0)))
    mask = torch.ones(len(IDS), len(IDS)).tril().log() + biases
    right = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    np.testing.assert_allclose(layer.weights @ v.numpy(), right.numpy(), atol=1e-6)
    scores = np.where(layer.allowed, layer.scores, -np.inf)
    np.testing.assert_allclose(layer.weights, torch.tensor(scores).softmax(-1).numpy(), atol=1e-6)


def test_decoding_equals_recomputing():
    new, whole = MODEL.new_cache(), MODEL(torch.tensor([IDS]))
    steps = [MODEL(torch.tensor([[i]]), cache=new) for i in IDS]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=1e-4)
    assert cache(CONFIG, len(IDS)).value * 4 == sum(t[..., : len(IDS), :].nbytes for c in new for t in c.buffers)
    assert parameters(CONFIG).value == sum(p.numel() for p in MODEL.parameters())


@pytest.mark.parametrize("page", ["1_heads", "2_query_groups", "3_rope", "4_cost", "5_steps", "6_decode", "7_mistakes"])
def test_every_tab_of_every_page_opens(page):
    from attnviz.session.pages import ALL

    file = f"pages/{page}.py"
    (it,) = (p for p in ALL if p.file == file)
    for tab in it.tabs or ("",):
        app = opened(file, model="own", attention="alibi", n_layers="2", d_model="48", n_heads="6", n_kv_heads="2",
                     preset="selected", tab=tab)  # fmt: skip
        assert not app.exception, (page, tab, [e.value for e in app.exception])
        if tab == "cross":
            assert "which ALiBi's biases need" in shown(app) + " ".join(e.value for e in (*app.error, *app.info))
