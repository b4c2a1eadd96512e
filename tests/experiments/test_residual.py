"""The parts of the residual stream add up to the model's output, and their attributions to the logit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnviz.checkpoints import list_checkpoints, load_checkpoint
from attnviz.config import ModelConfig
from attnviz.experiments.residual import attribution, lens, lens_odds, logit_before_cap, part_names, residual
from attnviz.modules import Transformer

IDS = (5, 17, 5, 17, 101, 3, 5)
OWN = ModelConfig(3, 6 * 14, 6, 2, d_ff=37, vocab_size=113, tie_embeddings=False)


GPT = replace(OWN, norm="layernorm", norm_bias=True, position="learned", learned_position_rows=9, ffn="gelu")
GEMMA = replace(OWN, norms_per_layer=4, logit_softcap=2.0, embedding_scale=5.0)


def models() -> list[Transformer]:
    own = [Transformer.random(config, 3) for config in (OWN, GPT, GEMMA)]
    for parameter in own[1].parameters():
        parameter.data.normal_(std=0.3)
    return [*(load_checkpoint(name)[0] for name in list_checkpoints()), *own]


@pytest.mark.parametrize("model", models())
def test_parts_add_up(model):
    written = residual(model, IDS)
    with torch.no_grad():
        logits = model(torch.tensor([IDS]))[0].numpy()
    read, last = lens(model, written), model.config.n_layers
    assert read.best.shape == read.odds.shape == (1 + last, len(IDS))
    expected = torch.tensor(logits).softmax(-1).numpy()
    np.testing.assert_array_equal(read.best[-1], expected.argmax(-1))
    np.testing.assert_allclose(read.odds[-1], expected.max(-1), atol=1e-6)
    np.testing.assert_allclose(lens_odds(model, written, last, 4), expected[4], atol=1e-6)
    assert lens_odds(model, written, 1, 2).max() == pytest.approx(read.odds[1, 2], rel=1e-4)
    cap = model.config.logit_softcap
    for position, token in ((0, 11), (6, 3), (4, int(logits[4].argmax()))):
        added = attribution(model, written, position, token)
        assert len(added) == len(part_names(model.config.n_layers)) + model.config.norm_bias
        before = logit_before_cap(model, written, position, token)
        assert added.sum() == pytest.approx(before, abs=2e-4)
        assert logits[position, token] == pytest.approx(cap * np.tanh(before / cap) if cap else before, abs=1e-5)


def test_attribution_of_a_model_whose_parts_are_known():
    """With the last matrices of attention and feed-forward zero, the embedding accounts for the whole logit."""
    model = Transformer.random(OWN, 5)
    for block in model.blocks:
        block.attn.o_proj.weight.data.zero_()
        block.ffn.down_proj.weight.data.zero_()
    added = attribution(model, residual(model, IDS), 2, 29)
    x = model.embed.weight[IDS[2]]
    expected = model.lm_head.weight[29] @ (x / (x.square().mean() + model.norm.eps).sqrt())
    assert added[0] == pytest.approx(expected.item(), rel=1e-5)
    assert np.abs(added[1:]).max() == 0
