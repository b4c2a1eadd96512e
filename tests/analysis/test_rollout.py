"""Rollout against loops over paths, and its figures against rollout."""

from itertools import product

import numpy as np
import pytest

from attnviz.analysis.rollout import reachable, rollout
from attnviz.figures.rollout import rollout_map, rollout_of_query
from tests.reading import numbers_where

L, H, T = 3, 5, 7
LABELS = [f"·w{i}" for i in range(T)]


def causal(seed: int = 0) -> np.ndarray:
    weights = np.random.default_rng(seed).random((L, H, T, T)) * np.tri(T)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def test_a_share_is_the_sum_over_all_paths():
    """A path has a token before each layer; a step is half the heads' mean weight and half the residual stream."""
    weights, found = causal(), rollout(causal())
    for i, j in product(range(T), repeat=2):
        total = 0.0
        for middle in product(range(T), repeat=L - 1):
            path, share = (j, *middle, i), 1.0
            for layer in range(L):
                before, after = path[layer], path[layer + 1]
                mean = sum(float(weights[layer, head, after, before]) for head in range(H)) / H
                share *= 0.5 * mean + 0.5 * (before == after)
            total += share
        assert found[-1, i, j] == pytest.approx(total, abs=1e-6)


def test_every_row_of_every_layer_sums_to_one_also_where_nothing_may_be_seen():
    weights = causal()
    weights[:, :, :3] = 0  # padding that attends to nothing
    found = rollout(weights)
    np.testing.assert_allclose(found.sum(-1), 1)
    np.testing.assert_array_equal(found[:, :3], np.broadcast_to(np.eye(T)[:3], (L, 3, T)))


def test_heads_that_look_at_themselves_roll_to_the_identity_and_at_the_token_before_to_binomials():
    itself = np.broadcast_to(np.eye(T, dtype=np.float32), (L, H, T, T))
    np.testing.assert_array_equal(rollout(itself)[-1], np.eye(T))
    before = np.broadcast_to(np.eye(T, k=-1, dtype=np.float32), (L, H, T, T)).copy()
    before[..., 0, 0] = 1
    np.testing.assert_allclose(rollout(before)[-1, 5, 2:6], np.array([1, 3, 3, 1]) / 8)


def test_what_can_be_reached_is_what_has_a_share_when_every_weight_is_positive():
    back = np.arange(T)[:, None] - np.arange(T)
    allowed = np.broadcast_to((back >= 0) & (back < 2), (L, T, T))
    weights = np.repeat((allowed / allowed.sum(-1, keepdims=True))[:, None], H, axis=1)
    np.testing.assert_array_equal(reachable(allowed), rollout(weights) > 0)
    assert not reachable(allowed)[0, 6, 4] and reachable(allowed)[1, 6, 4]


def test_the_map_draws_one_layer_and_greys_what_no_path_reaches():
    rolled, reach = rollout(causal()), np.broadcast_to(np.tri(T, dtype=bool), (L, T, T))
    drawing = rollout_map(rolled, reach, LABELS, 1, 4)
    masked, cells = (t for t in drawing.figure.data if t.type == "heatmap" and t.xaxis == "x2")
    np.testing.assert_allclose(np.array(cells.z)[reach[1]], rolled[1][reach[1]], atol=1e-7)
    np.testing.assert_array_equal(masked.z, ~reach[1])
    assert numbers_where("#%", drawing.title) == [round(100 * np.diagonal(rolled[1]).mean())]
    assert drawing.table["2 ·w2"] == pytest.approx(rolled[1][:, 2], abs=1e-6)


def test_one_query_through_the_layers():
    rolled = rollout(causal())
    drawing = rollout_of_query(rolled, LABELS, 5)
    np.testing.assert_allclose(drawing.figure.data[0].z, rolled[:, 5], atol=1e-7)
    most = int(rolled[-1, 5, :5].argmax())
    assert numbers_where("#% of query #", drawing.title) == [round(100 * rolled[-1, 5, 5]), 5]
    assert numbers_where("#% from # “", drawing.title) == [round(100 * rolled[-1, 5, most]), most]
    assert f"“·w{most}”" in drawing.title.replace("\\", "")
    alone = rollout_of_query(rolled[:, :1, :1], LABELS[:1], 0).title
    assert numbers_where("# layers.* #% of query #", alone) == [3, 100, 0] and "from 0" not in alone
