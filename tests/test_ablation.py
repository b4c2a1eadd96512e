"""pytest tests/test_ablation.py: a head switched off is a head whose columns of o_proj are zero; the pictures of it."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.config import ModelConfig
from attnviz.experiments import ablation
from attnviz.experiments.ablation import predict_without
from attnviz.figures.ablation import effect_map, next_tokens
from attnviz.modules import Transformer
from attnviz.trace import predict
from attnviz.ui import heads_runs, runs
from attnviz.ui.settings import Settings

LATENT = {"attention": "mla", "kv_lora_rank": 13, "qk_nope_head_dim": 7, "qk_rope_head_dim": 4, "v_head_dim": 5}
CONFIGS = {
    "gqa": ModelConfig(3, 30, 6, 3, head_dim=10, d_ff=17, vocab_size=101),
    "mqa, biases": ModelConfig(2, 33, 3, 1, head_dim=14, qkv_bias=True, o_bias=True, vocab_size=97),
    "mla": ModelConfig(2, 30, 5, d_ff=17, vocab_size=101, **LATENT),
}
IDS = [5, 7, 2, 5, 96, 31, 0, 5, 7, 11, 13]


@pytest.fixture(params=CONFIGS)
def model(request):
    return Transformer.random(CONFIGS[request.param], seed=3)


@pytest.mark.parametrize("off", [[(0, 1)], [(1, 2)], [(0, 0), (1, 2), (1, 1)]])
def test_zero_equals_a_model_whose_output_projection_has_zeros_for_the_head(model, off):
    other = copy.deepcopy(model)
    for layer, head in off:
        weight = other.blocks[layer].attn.o_proj.weight
        width = weight.shape[1] // model.config.n_heads
        with torch.no_grad():
            weight[:, head * width : (head + 1) * width] = 0
    found = predict_without(model, IDS, off)
    np.testing.assert_allclose(found, predict(other, IDS), atol=1e-5)
    assert np.abs(found - predict(model, IDS)).max() > 1e-3


def test_mean_moves_what_the_head_adds_into_a_constant(model):
    """o_proj is linear: without the head's columns, plus those columns times the mean of what the head hands on."""
    layer, head, handed = 1, 1, []
    attn = model.blocks[layer].attn
    hook = attn.o_proj.register_forward_pre_hook(lambda _, inputs: handed.append(inputs[0]))
    predict(model, IDS)
    hook.remove()
    width = attn.o_proj.weight.shape[1] // model.config.n_heads
    columns = slice(head * width, (head + 1) * width)
    constant = attn.o_proj.weight.detach()[:, columns] @ handed[0][0, :, columns].mean(0)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.blocks[layer].attn.o_proj.weight[:, columns] = 0
    other.blocks[layer].attn.register_forward_hook(lambda _, inputs, output: output + constant)
    np.testing.assert_allclose(predict_without(model, IDS, [(layer, head)], "mean"), predict(other, IDS), atol=1e-5)


def test_nothing_off_changes_nothing_and_the_model_stays_as_it_was(model):
    before = predict(model, IDS)
    np.testing.assert_array_equal(predict_without(model, IDS, []), before)
    predict_without(model, IDS, [(0, 0)])
    np.testing.assert_array_equal(predict(model, IDS), before)
    with pytest.raises(ValueError, match="zero, mean"):
        predict_without(model, IDS, [], "noise")
    with pytest.raises(ValueError, match="zero, mean"):
        ablation.losses_without_each(model, IDS, "noise", lambda share: None)


def test_losses_without_each_head_are_measured_once_and_laid_out_layer_by_head(monkeypatch):
    settings = Settings(model="own", n_layers=2, n_heads=3, n_kv_heads=3, d_model=42, seed=11)
    ids, told = tuple(IDS), []
    monkeypatch.setattr(ablation, "TOKENS_AT_ONCE", 2 * len(IDS) + 1)
    before, losses = heads_runs.effects_of(settings, ids, told.append)
    assert told == [0, 2 / 6, 3 / 6, 5 / 6]
    model, target = runs.model_of(settings), torch.tensor(IDS[1:])
    assert before == pytest.approx(float(F.cross_entropy(torch.tensor(predict(model, ids))[:-1], target)), abs=1e-5)
    for layer, head in np.ndindex(2, 3):
        logits = torch.tensor(predict_without(model, ids, [(layer, head)]))
        assert losses[layer, head] == pytest.approx(float(F.cross_entropy(logits[:-1], target)), abs=1e-5)
    again, _ = heads_runs.effects_of(settings, ids, told.append)
    assert again == before and len(told) == 4


def test_the_map_draws_every_change_and_names_the_head_that_matters_most():
    losses = np.full((3, 5), 2.0)
    losses[1, 4], losses[2, 0] = 2.75, 1.5
    drawing = effect_map(losses, 2.0, "zero", 0, 0)
    np.testing.assert_allclose(drawing.figure.data[0].z, losses - 2)
    assert (drawing.figure.data[0].zmin, drawing.figure.data[0].zmax) == (-0.75, 0.75)
    assert drawing.title == "Missed most on this text: without layer 1, head 4 the loss goes from 2.000 to 2.750"
    assert "(1 head of 15)" in drawing.note and "fall is -0.500" in drawing.alt
    assert drawing.table["change"][9] == 0.75
    assert effect_map(losses, 3.0, "mean", 0, 0).title.startswith("No head is missed on this text; the nearest to it")


def test_the_next_tokens_before_and_after():
    before, after = np.full(40, 0.5 / 39), np.full(40, 0.2 / 39)
    before[3], after[17] = 0.5, 0.8
    names = [f"·t{i}" for i in range(40)]
    drawing = next_tokens(before, after, names, "·here", 6, came=39)
    first, second = drawing.figure.data
    assert {"·t3", "·t17", "·t39"} <= set(drawing.table["token"])
    shown = [int(name[2:]) for name in drawing.table["token"]]
    np.testing.assert_allclose(first.x, before[shown])
    np.testing.assert_allclose(second.x, after[shown])
    assert drawing.title.replace("\\", "").endswith("“·t17” takes the place of “·t3”")
    assert [text.endswith("← came") for text in drawing.figure.layout.yaxis.ticktext] == [i == 39 for i in shown]
    kept = next_tokens(before, before * 0.9, names, "·here", 6, came=None)
    assert "stays first, 0.500 → 0.450" in kept.title
