"""The residual stream's parts add up to what the model computes, and so do their shares of a logit."""

import numpy as np
import pytest
import torch

from attnviz.checkpoints import list_checkpoints, load_checkpoint
from attnviz.config import ModelConfig
from attnviz.experiments.residual import attribution, lens, part_names, residual
from attnviz.modules import Transformer

IDS = (5, 17, 5, 17, 101, 3, 5)
OWN = ModelConfig(3, 6 * 14, 6, 2, d_ff=37, vocab_size=113, tie_embeddings=False)


def models() -> list[Transformer]:
    return [*(load_checkpoint(name)[0] for name in list_checkpoints()), Transformer.random(OWN, 3)]


@pytest.mark.parametrize("model", models(), ids=[*list_checkpoints(), "own"])
def test_parts_add_up(model):
    written = residual(model, IDS)
    with torch.no_grad():
        logits = model(torch.tensor([IDS]))[0].numpy()
    odds = lens(model, written)
    assert odds.shape == (1 + model.config.n_layers, len(IDS), model.config.vocab_size)
    np.testing.assert_allclose(odds[-1], torch.tensor(logits).softmax(-1).numpy(), atol=1e-6)
    for position, token in ((0, 11), (6, 3), (4, int(logits[4].argmax()))):
        added = attribution(model, written, position, token)
        assert len(added) == len(part_names(model.config.n_layers))
        assert added.sum() == pytest.approx(logits[position, token], abs=2e-4)


def test_attribution_of_a_model_whose_parts_are_known():
    """With the attention's and the feed-forward's last matrices zero, the embedding makes the whole logit."""
    model = Transformer.random(OWN, 5)
    for block in model.blocks:
        block.attn.o_proj.weight.data.zero_()
        block.ffn.down_proj.weight.data.zero_()
    added = attribution(model, residual(model, IDS), 2, 29)
    x = model.embed.weight[IDS[2]]
    expected = model.lm_head.weight[29] @ (x / (x.square().mean() + model.norm.eps).sqrt())
    assert added[0] == pytest.approx(float(expected), rel=1e-5)
    assert np.abs(added[1:]).max() == 0
