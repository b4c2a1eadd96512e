"""The claims of the RoPE page, against the closed form, the modules run by hand, and mistakes they must detect."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.analysis import rope as analysis
from attnviz.config import ModelConfig
from attnviz.experiments.rope_equalities import (
    compare_layouts,
    in_other_layout,
    loss_by_position,
    moved_to_other_layout,
    scaled_frequencies,
    shifted_outputs,
    shifted_scores,
    standard_scalings,
    with_scaling,
)
from attnviz.modules import Recording, Transformer
from attnviz.modules.rope import apply_rope, rope_frequencies

GQA = ModelConfig(
    n_layers=2, d_model=30, n_heads=6, n_kv_heads=3, head_dim=22, vocab_size=53, qkv_bias=True, rotary_fraction=0.6
)
MLA = ModelConfig(
    n_layers=2, d_model=30, n_heads=3, vocab_size=53, attention="mla",
    kv_lora_rank=11, qk_nope_head_dim=7, qk_rope_head_dim=10, v_head_dim=5,
)  # fmt: skip


def vectors(n: int, head_dim: int, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, head_dim)).astype(dtype)


def score(q, k, m, n, frequencies, layout) -> float:
    """Compute one score in float64 with the real functions, not divided by sqrt(D)."""
    query = apply_rope(torch.tensor(q).double()[None], torch.tensor([m]), frequencies, layout)
    key = apply_rope(torch.tensor(k).double()[None], torch.tensor([n]), frequencies, layout)
    return float(query @ key.mT)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_parts_of_a_score_add_up_to_the_turned_score(layout):
    (q, k), frequencies, distances = vectors(2, 22), rope_frequencies(14), np.array([0, 1, 5, 400])
    parts = analysis.score_parts(q, k, frequencies.numpy(), distances, layout)
    assert parts.shape == (8, 4)
    expected = [score(q, k, d + 3, 3, frequencies, layout) for d in distances]
    np.testing.assert_allclose(parts.sum(0), expected, atol=1e-9)
    np.testing.assert_allclose(parts[-1], q[14:].astype(float) @ k[14:].astype(float))


@settings(max_examples=40, deadline=None)
@given(
    n_pairs=st.integers(1, 67), unrotated=st.integers(0, 31), theta=st.floats(1.01, 1e12), seed=st.integers(0, 2**32),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 300.0]), alike=st.booleans(),
    layout=st.sampled_from(["half", "interleaved"]), sign=st.sampled_from([1, -1]),
)  # fmt: skip
def test_no_score_is_above_its_decay_bound(n_pairs, unrotated, theta, seed, scale, alike, layout, sign):
    q, k = scale * np.random.default_rng(seed).standard_normal((2, 2 * n_pairs + unrotated))
    k = q if alike else k  # the highest scores that a query can have
    frequencies, distances = rope_frequencies(2 * n_pairs, theta), sign * np.arange(0, 600, 7)
    bound = analysis.decay_bound(q, k, frequencies.numpy(), distances, layout).values
    for distance, limit in zip(distances.tolist()[::17], bound[::17], strict=True):
        assert abs(score(q, k, distance + 600, 600, frequencies, layout)) <= limit * (1 + 1e-9)
    scores = np.abs(analysis.score_parts(q, k, frequencies.numpy(), distances, layout).sum(0))
    assert (scores <= bound * (1 + 1e-9)).all()


def test_the_decay_bound_is_the_papers():
    # one pair: the bound is |h| itself, and the score reaches it where the angle is 0
    q = k = np.array([3.0, 4.0])
    one = np.array([0.5])
    assert analysis.decay_bound(q, k, one, np.array([0, 9])).values == pytest.approx([25.0, 25.0])
    assert analysis.score_parts(q, k, one, np.array([0])).sum() == pytest.approx(25.0)


def test_the_shared_part_of_the_bound_by_hand_and_falling():
    # two pairs at angles 0 and 180 degrees: |S_1| = 1, |S_2| = 0
    assert analysis.partial_sums(np.array([0.0, np.pi]), np.array([1])) == pytest.approx([1.0])
    paper = analysis.partial_sums(rope_frequencies(128).numpy(), np.arange(256)) / 64
    assert paper[0] == pytest.approx(32.5)  # (1 + 2 + … + 64) / 64
    assert paper[:16].min() > paper[-100:].max()


def test_wavelengths_and_turns_by_hand():
    frequencies = np.array([2 * np.pi / 5, 2 * np.pi / 24, 2 * np.pi / 25])
    np.testing.assert_allclose(analysis.wavelengths(frequencies), [5, 24, 25])
    np.testing.assert_allclose(analysis.turns(frequencies, 1), 0)
    np.testing.assert_allclose(analysis.turns(frequencies, 13), [12 / 5, 0.5, 12 / 25])


def test_scores_by_distance_by_hand():
    scores = np.array([[1.0, 9, 9], [2, 3, 9], [4, 5, 6]])
    distances, mean, low, high = analysis.by_distance(scores, np.tri(3, dtype=bool))
    assert distances.tolist() == [0, 1, 2]
    np.testing.assert_allclose(mean, [10 / 3, 3.5, 4])
    np.testing.assert_allclose([low, high], [[1, 2, 4], [6, 5, 4]])
    distances, mean, _, _ = analysis.by_distance(scores, np.eye(3, dtype=bool))
    assert (distances.tolist(), mean.tolist()) == ([0], [10 / 3])
    distances, mean, low, high = analysis.by_distance(scores, np.ones((3, 3), dtype=bool))  # bidirectional: 9 pairs
    assert distances.tolist() == [-2, -1, 0, 1, 2]
    np.testing.assert_allclose([mean, low, high], [[9, 9, 10 / 3, 3.5, 4], [9, 9, 1, 2, 4], [9, 9, 6, 5, 4]])


def test_bins_by_hand():
    middles, means = analysis.binned(np.array([1.0, 2, 6, 10, 20]), 3)
    np.testing.assert_allclose([middles, means], [[1, 3.5], [3, 15]])


# Shifts


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_shifted_scores_are_the_real_scores(layout):
    (q, k), frequencies = vectors(2, 26), rope_frequencies(26)
    shifted = shifted_scores(q, k, 11, 3, frequencies, layout)
    assert shifted.shifts[0] == 0 and shifted.shifts[-1] == 100_000
    for i, shift in enumerate(shifted.shifts):
        expected = score(q, k, 11 + shift, 3 + shift, frequencies, layout) / 26**0.5
        assert shifted.float64[i] == pytest.approx(expected, abs=1e-12)
        assert shifted.float32[i] == pytest.approx(expected, abs=1e-5)


def test_a_shift_changes_nothing_but_rounding_and_float32_angles_round_most():
    (q, k), frequencies = vectors(2, 26), rope_frequencies(26)
    shifted = shifted_scores(q, k, 11, 3, frequencies)
    exact, single, naive = (shifted.largest_difference(a) for a in ("float64", "float32", "float32_angles"))
    assert exact < 1e-9 < single < 1e-5 < naive < 0.1
    farther = shifted_scores(q, k, 12, 3, frequencies)
    assert abs(farther.float64[0] - shifted.float64[0]) > 1e-3


def test_values_stay_unturned_or_the_output_would_follow_the_position():
    q, k, v = vectors(7, 26), vectors(5, 26)[[0, 1, 2, 3, 4, 0, 1]], vectors(9, 31)[:7]
    frequencies, allowed = rope_frequencies(26), np.tri(7, dtype=bool)
    moved = shifted_outputs(q, k, v, allowed, frequencies.numpy(), m=5)
    assert moved.q_and_k[0] == moved.values_too[0] == 0
    assert moved.q_and_k.max() < 1e-5 < 0.1 < moved.values_too.max()
    scores = np.array([score(q[5], k[n], 5, n, frequencies, "half") for n in range(6)]) / 26**0.5
    weights = np.exp(scores) / np.exp(scores).sum()
    assert moved.largest == pytest.approx(np.abs(weights @ v[:6]).max(), rel=1e-4)
    shift = moved.shifts.index(1000)

    def turned_output(start: int) -> np.ndarray:
        at = torch.arange(start, start + 6)
        return weights @ apply_rope(torch.tensor(v[:6]).double(), at, frequencies).numpy()

    expected = np.abs(turned_output(1000) - turned_output(0)).max()
    assert moved.values_too[shift] == pytest.approx(expected, rel=1e-3)


# Layouts


@pytest.mark.parametrize("rotary_dim", [22, 14])
def test_layouts_agree_after_reordering_and_only_then(rotary_dim):
    q, k = vectors(7, 22), vectors(5, 22)
    compared = compare_layouts(q, k, rope_frequencies(rotary_dim))
    assert compared.half.shape == (7, 5) and sorted(compared.order) == list(range(22))
    assert compared.difference > 0.1 and compared.difference_reordered < 1e-5
    for m, n in ((0, 0), (6, 4), (3, 4)):
        expected = score(q[m], k[n], m, n, rope_frequencies(rotary_dim), "interleaved") / 22**0.5
        assert compared.interleaved[m, n] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("config", [GQA, MLA, replace(MLA, q_lora_rank=13)], ids=["gqa", "mla", "mla, compressed q"])
def test_weights_moved_to_the_other_layout_run_alike_and_unmoved_do_not(config, layout):
    model = Transformer.random(replace(config, rope_layout=layout), seed=3)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                p.normal_()
    ids = torch.arange(17)[None]
    moved, wrong = moved_to_other_layout(model), in_other_layout(model)
    assert moved.config.rope_layout == wrong.config.rope_layout != layout
    torch.testing.assert_close(moved(ids), model(ids), rtol=1e-4, atol=1e-5)
    assert (wrong(ids) - model(ids)).abs().max() > 1e-3
    assert wrong.embed.weight.data_ptr() == model.embed.weight.data_ptr()  # nothing is copied


# Scaling


def test_losses_by_position_are_those_of_the_model_run_by_hand():
    config = replace(GQA, max_context=16)
    model, ids = Transformer.random(config, seed=0), np.arange(41) % 53
    scalings = standard_scalings(4.0, 16)
    losses = {name: loss_by_position(with_scaling(model, scaling), ids) for name, scaling in scalings.items()}
    assert list(losses) == ["none", "linear", "NTK-aware", "dynamic NTK", "YaRN", "Llama 3"]
    given = {
        "none": None,
        "linear": {"type": "linear", "factor": 4.0},
        "NTK-aware": {"type": "ntk", "factor": 4.0},
        "dynamic NTK": {"type": "dynamic", "factor": 4.0},
        "YaRN": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        "Llama 3": {"type": "llama3", "factor": 4.0, "original_max_position_embeddings": 16,
                    "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    }  # fmt: skip
    for name, scaling in given.items():
        pairs = None if scaling is None else tuple(scaling.items())
        logits = model.with_config(replace(config, rope_scaling=pairs))(torch.tensor(ids[None, :-1]))[0]
        expected = -F.log_softmax(logits, -1)[torch.arange(40), torch.tensor(ids[1:])]
        np.testing.assert_allclose(losses[name], expected.detach(), rtol=1e-5)
    assert len({losses[name].sum() for name in losses}) == 6  # no two methods are the same run


def test_frequencies_of_every_method_side_by_side():
    by_name = scaled_frequencies(24, 10000.0, standard_scalings(4.0, 256), length=1024)
    np.testing.assert_allclose(by_name["none"], rope_frequencies(24))
    np.testing.assert_allclose(by_name["linear"], rope_frequencies(24) / 4)
    assert all((f <= by_name["none"] * (1 + 1e-12)).all() for f in by_name.values())


# MLA's decoupled key


def test_content_and_position_make_the_weights_of_an_mla_head():
    model, record = Transformer.random(MLA, seed=0), Recording()
    model(torch.arange(13)[None], record=record)
    r = record[0]
    content, position = analysis.split_scores(r.q[0, 2].detach().numpy(), r.k[0, 2].detach().numpy(), 10, r.scale)
    scores = torch.tensor(content + position).masked_fill(~r.allowed, float("-inf"))
    np.testing.assert_allclose(scores.softmax(-1), r.weights[0, 2].detach(), atol=1e-5)
    pre_rope = (x[0, 2].detach().numpy() for x in (r.q_pre_rope, r.k_pre_rope))
    pre_rope = analysis.split_scores(*pre_rope, 10, r.scale)
    np.testing.assert_allclose(content, pre_rope[0], atol=1e-6)
    assert np.abs(position - pre_rope[1]).max() > 0.01
