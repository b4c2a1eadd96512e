"""The parts of a weight add up to the model's weight, for every type of attention."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnviz.analysis.heads import rotated_pairs, score_parts
from attnviz.config import ModelConfig
from attnviz.figures.head_detail import score_equation, weight_by_steps
from attnviz.modules import Transformer
from attnviz.modules.rope import rope_angles, rope_frequencies
from attnviz.trace import trace
from tests.arithmetic import results
from tests.reading import numbers_where

LATENT = {"attention": "mla", "kv_lora_rank": 13, "qk_nope_head_dim": 7, "qk_rope_head_dim": 4, "v_head_dim": 5}
CONFIGS = {
    "gqa": ModelConfig(2, 30, 6, 3, head_dim=10, d_ff=17, vocab_size=101),
    "interleaved, partial": ModelConfig(
        2, 22, 2, 1, head_dim=14, rotary_fraction=0.5, rope_layout="interleaved", vocab_size=97
    ),
    "no rope, window": ModelConfig(2, 35, 5, 5, position="none", sliding_window=3, vocab_size=97),
    "mla": ModelConfig(2, 30, 5, d_ff=17, vocab_size=101, **LATENT),
}
IDS = [5, 7, 2, 5, 96, 31, 0, 5, 7, 11, 13]
LABELS = [f"·t{i}" for i in IDS]


@pytest.fixture(params=CONFIGS)
def model(request):
    return Transformer.random(CONFIGS[request.param], seed=3)


@pytest.mark.parametrize(("layer", "head", "query", "key"), [(0, 0, 9, 8), (1, 4, 10, 9), (1, 1, 5, 5), (0, 1, 0, 0)])
def test_the_products_add_up_to_what_torchs_own_kernel_makes_of_them(model, layer, head, query, key):
    """With the identity as values, the kernel's output is the weights."""
    head = min(head, model.config.n_heads - 1)
    t = trace(model, IDS)
    parts = score_parts(t, layer, head, query, key)
    q, k = torch.tensor(t.q[layer, head]), torch.tensor(t.k[layer, model.config.mixer.kv_head_of[head]])
    kernel = F.scaled_dot_product_attention(
        q[None], k[None], torch.eye(len(IDS))[None], attn_mask=torch.tensor(t.allowed[layer])
    )[0]
    assert parts.weight == pytest.approx(float(kernel[query, key]), abs=1e-6)
    assert parts.weight == pytest.approx(float(t.weights[layer, head, query, key]), abs=1e-6)
    assert parts.score == pytest.approx(float(t.scores[layer, head, query, key]), abs=1e-5)
    assert sum(parts.products) == pytest.approx(parts.score * model.config.head_dim**0.5, abs=1e-5)
    assert sorted(parts.order) == list(range(model.config.head_dim))


def test_the_weights_of_a_row_sum_to_one(model):
    t = trace(model, IDS)
    row = [score_parts(t, 1, 1, 7, key) for key in range(len(IDS))]
    assert sum(p.weight for p in row) == pytest.approx(1, abs=1e-6)
    assert [p.allowed for p in row] == t.allowed[1, 7].tolist()


def test_the_pairs_are_those_that_rope_turns_with_one_another(model):
    """Rotation preserves each pair's length and each unrotated dimension; with wrong pairs it would not."""
    t, pairs = trace(model, IDS), rotated_pairs(model.config, 1)
    before, after = t.q_pre_rope[1, 0], t.q[1, 0]
    for a, b in pairs:
        np.testing.assert_allclose(np.hypot(before[:, a], before[:, b]), np.hypot(after[:, a], after[:, b]), atol=1e-5)
        assert np.abs(before[1:, a] - after[1:, a]).max() > 1e-4 or a > b
    alone = sorted(set(range(model.config.head_dim)) - {d for pair in pairs for d in pair})
    np.testing.assert_array_equal(before[:, alone], after[:, alone])
    assert 2 * len(pairs) == model.config.rotary_dim


def test_pair_i_turns_by_frequency_i():
    c = CONFIGS["gqa"]
    t = trace(Transformer.random(c, seed=3), IDS)
    angles = rope_angles(torch.arange(len(IDS)), rope_frequencies(c.head_dim)).numpy()
    for i, (a, b) in enumerate(rotated_pairs(c, 0)):
        turned = (t.q_pre_rope[0, 2, :, a] + 1j * t.q_pre_rope[0, 2, :, b]) * np.exp(1j * angles[:, i])
        np.testing.assert_allclose(t.q[0, 2, :, a] + 1j * t.q[0, 2, :, b], turned, atol=1e-5)


def test_the_drawing_says_and_draws_the_same_numbers(model):
    t = trace(model, IDS)
    query, key = 9, 8
    drawing, parts = weight_by_steps(t, LABELS, 1, 1, query, key), score_parts(t, 1, 1, query, key)
    vectors, products, bars, line = drawing.figure.data
    np.testing.assert_allclose(vectors.z, np.stack((parts.q, parts.k)), atol=1e-6)
    np.testing.assert_allclose(products.z[0], parts.products, atol=1e-6)
    assert sum(bars.y) == pytest.approx(parts.dot) == line.y[-1]
    assert drawing.table["running sum"][-1] == pytest.approx(parts.dot, abs=1e-5)
    row = t.layers[1].scores_of(1)[query, t.allowed[1, query]].astype(float)
    total = np.exp(row - row.max()).sum()
    for said in (parts.dot, parts.score, row.max(), total, parts.weight):
        assert f"{said:.4f}" in drawing.formula
    said = numbers_where("score #, weight #", drawing.title)
    assert said == pytest.approx([parts.score, parts.weight], abs=5.1e-5)


def test_a_score_by_hand():
    """q·k is 2·3 + 4·1 = 10 and √4 = 2; the other key's score is 0, so that the weight is 1 / (1 + e^-5)."""
    t = trace(Transformer.random(ModelConfig(1, 8, 2, 1, position="none", vocab_size=11), seed=0), [1, 2])
    values = {"q": t.q[0] * 0, "k": t.k[0] * 0, "weights": t.weights[0].copy()}
    values["q"][1, 1] = [2, 4, 0, 0]
    values["k"][0, 0] = [3, 1, 7, 7]
    values["weights"][1, 1] = np.exp([5, 0]) / np.exp([5, 0]).sum()
    t = replace(t, layers=[replace(t.layers[0], **values)])
    parts = score_parts(t, 0, 1, 1, 0)
    assert (parts.dot, parts.score) == (10, 5)
    equation = score_equation(parts, 1, 0)
    assert results(equation.text()) == [pytest.approx(5, abs=5.1e-5)] and "10.0000 / √4" in equation.text()
    assert rf"= {1 / (1 + np.exp(-5)):.4f}" in weight_by_steps(t, ["a", "b"], 0, 1, 1, 0).formula


def test_the_colours_of_the_strips_are_named_with_their_ends(model):
    t = trace(model, IDS)
    drawing, parts = weight_by_steps(t, LABELS, 1, 1, 9, 8), score_parts(t, 1, 1, 9, 8)
    ends = [np.abs([parts.q, parts.k]).max(), np.abs(parts.products).max()]
    assert (
        [strip.zmax for strip in drawing.figure.data[:2]] == ends == [-strip.zmin for strip in drawing.figure.data[:2]]
    )
    assert numbers_where("at ±# for q and k, ±# for q × k", drawing.more) == pytest.approx(ends, rel=5e-3)


def test_what_the_mask_forbids_has_a_score_and_no_weight(model):
    t = trace(model, IDS)
    drawing = weight_by_steps(t, LABELS, 0, 0, 2, 9)
    assert score_parts(t, 0, 0, 2, 9).weight == 0
    assert "masked" in drawing.title
    assert "s_{2,9}" in drawing.formula and "a_{" not in drawing.formula
