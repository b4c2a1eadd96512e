"""Ablating a head is the same as setting its columns of o_proj to zero, or adding a constant."""

import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.compute import ablation as compute_ablation
from attnviz.compute import models, queue
from attnviz.config import ModelConfig
from attnviz.experiments import ablation
from attnviz.figures.ablation import effect_map, next_tokens
from attnviz.modules import Transformer
from attnviz.session.settings import Settings
from attnviz.trace import predict
from tests.reading import numbers_in, numbers_where

LATENT = {"attention": "mla", "kv_lora_rank": 13, "qk_nope_head_dim": 7, "qk_rope_head_dim": 4, "v_head_dim": 5}
CONFIGS = {
    "gqa": ModelConfig(3, 30, 6, 3, head_dim=10, d_ff=17, vocab_size=101),
    "mqa, biases": ModelConfig(2, 33, 3, 1, head_dim=14, qkv_bias=True, o_bias=True, vocab_size=97),
    "mla": ModelConfig(2, 30, 5, d_ff=17, vocab_size=101, **LATENT),
}
IDS = [5, 7, 2, 5, 96, 31, 0, 5, 7, 11, 13]


def predict_without(model, ids, off, means=None):
    return predict(ablation.ablated(model, off, means), ids)


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


REFERENCE = [3, 89, 41, 7, 61, 2, 53]


def test_mean_outputs_are_what_a_hook_sees_before_the_output_projection(model):
    seen, H = [], model.config.n_heads
    for block in model.blocks:
        block.attn.o_proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0][0].numpy()))
    predict(model, REFERENCE)
    by_hand = [[layer.reshape(len(REFERENCE), H, -1)[:, h].mean(0) for h in range(H)] for layer in seen]
    np.testing.assert_allclose(ablation.mean_outputs(model, REFERENCE), by_hand, atol=1e-6)


def test_mean_ablation_makes_what_the_head_adds_a_constant(model):
    """o_proj is linear: without the head's columns, plus those columns times the mean over the reference text."""
    layer, head = 1, 1
    means = ablation.mean_outputs(model, REFERENCE)
    other = copy.deepcopy(model)
    weight = other.blocks[layer].attn.o_proj.weight
    width = weight.shape[1] // model.config.n_heads
    columns = slice(head * width, (head + 1) * width)
    constant = weight.detach()[:, columns] @ torch.tensor(means[layer][head])
    with torch.no_grad():
        weight[:, columns] = 0
    other.blocks[layer].attn.register_forward_hook(lambda _, inputs, output: output + constant)
    np.testing.assert_allclose(predict_without(model, IDS, [(layer, head)], means), predict(other, IDS), atol=1e-5)


@pytest.mark.parametrize("kind", ["zero", "mean"])
def test_no_ablation_lets_later_tokens_into_earlier_predictions(model, kind):
    means = ablation.mean_outputs(model, REFERENCE) if kind == "mean" else None
    off = [(0, 1), (1, 2)]
    one, other = (predict_without(model, [*IDS[:5], *rest], off, means) for rest in (IDS[5:], REFERENCE))
    np.testing.assert_allclose(one[:5], other[:5], atol=1e-5)
    assert np.abs(one[5] - other[5]).max() > 1e-3


def test_nothing_off_changes_nothing_and_the_model_stays_as_it_was(model):
    before = predict(model, IDS)
    np.testing.assert_array_equal(predict_without(model, IDS, []), before)
    predict_without(model, IDS, [(0, 0)])
    np.testing.assert_array_equal(predict(model, IDS), before)


@pytest.mark.parametrize("kind", ["zero", "mean"])
def test_the_loss_without_each_head_is_that_of_a_hook_that_replaces_its_output(model, kind, monkeypatch):
    """The fast computation, from the layer on with a fused kernel, against the whole model with replaced columns."""
    means = ablation.mean_outputs(model, REFERENCE) if kind == "mean" else None
    H, target = model.config.n_heads, torch.tensor(IDS[1:])
    for layer, block in enumerate(model.blocks):
        expected = []
        for head in range(H):

            def instead(_, inputs, head=head, layer=layer):
                heads = inputs[0].unflatten(-1, (H, -1)).clone()
                heads[:, :, head] = 0 if means is None else torch.tensor(means[layer][head])
                return heads.flatten(2)

            hook = block.attn.o_proj.register_forward_pre_hook(instead)
            logits = torch.tensor(predict(model, IDS))[:-1].double()
            hook.remove()
            expected.append(float(F.cross_entropy(logits, target)))
        for rows in (1, 2, 7):
            monkeypatch.setattr(ablation, "TOKENS_AT_ONCE", rows * len(IDS))
            calls = []
            found = ablation.losses_without_each(model, IDS, layer, means, calls.append)
            assert found.shape == (H,) and calls == [min(n + rows, H) for n in range(0, H, rows)]
            assert found == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("gqa", {"causal": False}), ("gqa", {"sliding_window": 3}),
        ("mqa, biases", {"sliding_window": 2, "n_sinks": 1}),
        ("mla", {"causal": False}), ("mla", {"sliding_window": 2, "n_sinks": 1}),
    ],
)  # fmt: skip
def test_the_fast_way_keeps_masks(name, run):
    model = Transformer.random(CONFIGS[name], seed=3)
    other = model.with_config(replace(model.config, **run))
    found = ablation.losses_without_each(other, IDS, 1, None)
    for head in range(model.config.n_heads):
        logits = torch.tensor(predict_without(other, IDS, [(1, head)]))[:-1]
        assert found[head] == pytest.approx(float(F.cross_entropy(logits, torch.tensor(IDS[1:]))), abs=2e-6)
    logits = torch.tensor(predict(other, IDS))[:-1]
    assert ablation.mean_loss(other, IDS) == pytest.approx(
        float(F.cross_entropy(logits, torch.tensor(IDS[1:]))), abs=2e-6
    )


def test_effects_are_measured_layer_by_layer_and_once():
    settings = Settings(model="own", n_layers=2, n_heads=3, n_kv_heads=3, d_model=42, seed=11)
    ids, calls = tuple(IDS), []
    effects = compute_ablation.effects_of(settings, ids, lambda found, done: calls.append((found.n_measured, done)))
    assert effects.complete and effects.losses.shape == (2, 3) and effects.seconds > 0
    assert [n for n, _ in calls] == sorted(n for n, _ in calls) and {n for n, _ in calls} == {0, 3}
    assert [done for _, done in calls] == sorted(done for _, done in calls) and calls[-1][1] == pytest.approx(1)
    assert next(done for n, done in calls if n) == pytest.approx(2 / 3)  # layer 0 is followed by two layers, 1 by one
    model, target = models.model_of(settings), torch.tensor(IDS[1:])
    loss = float(F.cross_entropy(torch.tensor(predict(model, ids))[:-1], target))
    assert effects.before == pytest.approx(loss, abs=1e-5)
    for layer, head in np.ndindex(2, 3):
        logits = torch.tensor(predict_without(model, ids, [(layer, head)]))
        assert effects.losses[layer, head] == pytest.approx(float(F.cross_entropy(logits[:-1], target)), abs=1e-5)
    n_calls = len(calls)
    again = compute_ablation.effects_of(settings, ids, lambda found, done: calls.append((found.n_measured, done)))
    assert np.array_equal(again.losses, effects.losses) and len(calls) == n_calls


def test_what_was_measured_stays_when_the_session_asks_for_something_else(monkeypatch):
    settings = Settings(model="own", n_layers=3, n_heads=5, n_kv_heads=5, d_model=70, seed=12)
    calls = []
    monkeypatch.setattr(queue, "rerun_requested", lambda: 5 in calls)
    known = compute_ablation.effects_of(settings, tuple(IDS), lambda found, done: calls.append(found.n_measured))
    assert known.n_measured == 5 and not known.complete and np.isfinite(known.losses[0]).all()
    assert compute_ablation.effects_of(settings, tuple(IDS), None).n_measured == 5
    assert np.isnan(compute_ablation.effects_of(replace(settings, seed=13), tuple(IDS), None).losses).all()
    monkeypatch.setattr(queue, "rerun_requested", lambda: False)
    rest = compute_ablation.effects_of(settings, tuple(IDS), lambda found, done: None)
    assert rest.complete and np.array_equal(rest.losses[0], known.losses[0])


def test_a_map_of_some_of_the_heads_says_so():
    losses = np.full((3, 5), np.nan)
    losses[0] = [2.0, 2.0, 2.25, 1.5, 2.0]
    drawing = effect_map(losses, 2.0, "zero", 0, 0)
    assert numbers_where("# of # heads", drawing.note) == [1, 5]
    assert numbers_where("# to #", drawing.alt) == [-0.5, 0.25] and drawing.figure.data[0].zmax == 0.5


def test_the_map_draws_every_change_and_names_the_head_that_matters_most():
    losses = np.full((3, 5), 2.0)
    losses[1, 4], losses[2, 0] = 2.75, 1.5
    drawing = effect_map(losses, 2.0, "zero", 0, 0)
    np.testing.assert_allclose(drawing.figure.data[0].z, losses - 2)
    assert (drawing.figure.data[0].zmin, drawing.figure.data[0].zmax) == (-0.75, 0.75)
    assert numbers_where("# of # heads", drawing.note) == [1, 15]
    assert numbers_where("# to #", drawing.alt) == [-0.5, 0.75]
    assert "L1 H4" in drawing.title and drawing.table["change"][9] == 0.75


def test_the_next_tokens_before_and_after():
    before, after = np.full(40, 0.5 / 39), np.full(40, 0.2 / 39)
    before[3], after[17] = 0.5, 0.8
    names = [f"·t{i}" for i in range(40)]
    drawing = next_tokens(before, after, names, "·here", 6, next_id=39)
    first, second = drawing.figure.data
    assert {"·t3", "·t17", "·t39"} <= set(drawing.table["token"])
    shown = [int(name[2:]) for name in drawing.table["token"]]
    np.testing.assert_allclose(first.x, before[shown])
    np.testing.assert_allclose(second.x, after[shown])
    assert re.findall("“(.*?)”", drawing.title.replace("\\", ""))[-2:] == ["·t17", "·t3"]
    assert [text.endswith("← next in the text") for text in drawing.figure.layout.yaxis.ticktext] == [
        i == 39 for i in shown
    ]
    kept = next_tokens(before, before * 0.9, names, "·here", 6, next_id=None)
    assert numbers_in(kept.title)[-2:] == [0.5, 0.45] and "stays" in kept.title
