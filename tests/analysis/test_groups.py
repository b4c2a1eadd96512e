"""The loss from sharing KV heads, against hand-solved cases, torch and all possible groupings.

.venv/bin/python -m pytest tests/analysis/test_groups.py
"""

from itertools import permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.analysis.groups import (
    best_grouping,
    cosines,
    divergences_of,
    gram,
    kv_heads_read,
    log_softmax,
    lost_share,
    moved_weight,
    neighbours,
    next_token_losses,
)
from attnviz.config import AttentionConfig
from attnviz.modules.rope import apply_rope, rope_frequencies


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(6, 6), (6, 3), (6, 2), (6, 1), (15, 5)])
def test_the_index_rows_are_torchs_repeat_interleave_and_repeat(n_heads, n_kv_heads):
    heads, size = torch.arange(n_kv_heads), n_heads // n_kv_heads
    assert list(kv_heads_read(n_heads, n_kv_heads)) == heads.repeat_interleave(size).tolist()
    assert list(kv_heads_read(n_heads, n_kv_heads, tiled=True)) == heads.repeat(size).tolist()
    assert kv_heads_read(n_heads, n_kv_heads) == AttentionConfig(30, n_heads, n_kv_heads, 7).kv_head_of


def test_neighbours_are_the_heads_that_read_one_kv_head():
    assert neighbours(6, 2) == ((0, 1, 2), (3, 4, 5))
    assert neighbours(6, 6) == ((0,), (1,), (2,), (3,), (4,), (5,))


def test_cosines_of_heads_solved_by_hand():
    heads = np.array([[[3, 0], [0, 4]], [[3, 0], [0, -4]], [[6, 0], [0, 8]], [[0, 0], [0, 0]]], dtype=np.float32)
    expected = [[1, (9 - 16) / 25, 1, 0], [-7 / 25, 1, -7 / 25, 0], [1, -7 / 25, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(cosines(gram(heads)), expected, atol=1e-12)


def test_cosines_are_torchs():
    heads = random(5, 7, 3)
    flat = torch.from_numpy(heads).flatten(1)
    expected = F.cosine_similarity(flat[:, None], flat[None], dim=-1)
    np.testing.assert_allclose(cosines(gram(heads)), expected, atol=1e-6)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_turning_the_keys_changes_no_cosine(layout):
    keys = torch.from_numpy(random(5, 11, 6))
    turned = apply_rope(keys, torch.arange(11), rope_frequencies(6), layout)
    assert (turned - keys).abs().max() > 1
    np.testing.assert_allclose(gram(turned.numpy()), gram(keys.numpy()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_groups", [1, 2, 3, 6])
def test_the_lost_share_is_the_distance_to_the_averages(n_groups):
    heads = random(6, 7, 5)
    grouped = heads.reshape(n_groups, -1, 7, 5)
    residue = grouped - grouped.mean(1, keepdims=True)
    expected = (residue**2).sum() / (heads**2).sum()
    assert lost_share(gram(heads), neighbours(6, n_groups)) == pytest.approx(expected, abs=1e-6)


def test_equal_heads_lose_nothing_and_opposite_heads_everything():
    one = random(7, 5)
    assert lost_share(gram(np.stack([one, one])), ((0, 1),)) == pytest.approx(0, abs=1e-9)
    assert lost_share(gram(np.stack([one, -one])), ((0, 1),)) == pytest.approx(1)
    assert lost_share(gram(np.zeros((2, 7, 5))), ((0, 1),)) == 0


@pytest.mark.parametrize("n_groups", [1, 2, 3, 6])
def test_the_best_grouping_is_the_best_of_all_orders(n_groups):
    inner = gram(random(6, 7, 5, seed=n_groups))
    size = 6 // n_groups
    least = min(
        lost_share(inner, tuple(order[j * size : (j + 1) * size] for j in range(n_groups)))
        for order in permutations(range(6))
    )
    best = best_grouping(inner, n_groups)
    assert sorted(h for group in best for h in group) == list(range(6))
    assert {len(group) for group in best} == {size}
    assert lost_share(inner, best) == pytest.approx(least)


def test_the_best_grouping_finds_the_twins():
    a, b, c, d = random(4, 7, 5)
    heads = np.stack([a, b, c, d, d, a, b, c])
    assert best_grouping(gram(heads), 4) == ((0, 5), (1, 6), (2, 7), (3, 4))


def test_sixteen_heads_are_searched_exactly_and_more_are_refused():
    twins = random(8, 3, 5)
    order = np.random.default_rng(1).permutation(16)
    heads = np.concatenate([twins, twins])[order]
    best = best_grouping(gram(heads), 8)
    assert all(order[a] % 8 == order[b] % 8 for a, b in best)
    with pytest.raises(ValueError, match="17 heads"):
        best_grouping(np.eye(17), 1)
    with pytest.raises(ValueError, match="6 heads cannot be searched for 4 groups"):
        best_grouping(np.eye(6), 4)


def test_losses_are_torchs_cross_entropy():
    logits, ids = random(11, 19) * 5, np.random.default_rng(2).integers(0, 19, 11)
    expected = F.cross_entropy(torch.from_numpy(logits[:-1]), torch.from_numpy(ids[1:]), reduction="none")
    np.testing.assert_allclose(next_token_losses(logits, ids), expected, rtol=1e-5, atol=1e-6)


def test_one_token_has_no_next_token_and_large_logits_no_overflow():
    assert next_token_losses(random(1, 19), np.array([3])).shape == (0,)
    logits = np.array([[1e4, 0.0], [0.0, 0.0]], dtype=np.float32)
    np.testing.assert_allclose(next_token_losses(logits, np.array([0, 1])), [1e4])


def test_divergences_are_torchs_and_zero_for_the_same_model():
    a, b = random(11, 19), random(11, 19, seed=1)
    expected = F.kl_div(
        torch.from_numpy(b).log_softmax(-1), torch.from_numpy(a).log_softmax(-1), log_target=True, reduction="none"
    ).sum(-1)
    log_p, log_q, shifted = log_softmax(a), log_softmax(b), log_softmax(a + 3)
    np.testing.assert_allclose(divergences_of(log_p, log_q), expected, rtol=1e-4)
    assert divergences_of(log_p, log_p).max() == 0
    assert divergences_of(log_p, shifted).max() < 1e-6  # a shift of all logits leaves the distribution unchanged


def test_moved_weight_solved_by_hand():
    before = np.array([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]])
    after = np.array([[[0.0, 1.0], [0.5, 0.5]], [[1.0, 0.0], [0.25, 0.75]]])
    np.testing.assert_allclose(moved_weight(before, after), [0.5, 0.125])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(4, 2), (6, 3), (6, 2), (8, 4)]))
def test_no_grouping_ever_beats_the_best_nor_leaves_the_range(seed, shape):
    n_heads, n_groups = shape
    inner = gram(random(n_heads, 3, 2, seed=seed))
    best, plain = (lost_share(inner, g) for g in (best_grouping(inner, n_groups), neighbours(n_heads, n_groups)))
    assert 0 <= best <= plain + 1e-12 <= 1 + 1e-9
