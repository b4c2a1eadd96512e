"""Softmax in tiles equals softmax for any tiles, mask and scores."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.experiments.tiles import kernel_seconds, tiled_attention, tiled_row, tiles


def tensors(T: int, S: int, D: int, V: int, seed: int, spread: float) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(n, d, generator=g) for n, d in ((T, D), (S, D), (S, V)))
    return [q * spread, k, v, torch.rand(T, S, generator=g) < 0.7]


@settings(max_examples=40)
@given(st.integers(1, 13), st.integers(1, 17), st.integers(1, 19), st.integers(0, 99), st.sampled_from([0.01, 1, 60]))
def test_the_output_is_that_of_torchs_kernel(T, S, block, seed, spread):
    q, k, v, allowed = tensors(T, S, 5, 7, seed, spread)
    allowed[:, 0] = True
    expected = F.scaled_dot_product_attention(q[None], k[None], v[None], allowed[None], scale=0.3)[0]
    np.testing.assert_allclose(tiled_attention(q, k, v, allowed, block, 0.3), expected, atol=2e-5)


def test_a_query_that_may_attend_to_nothing_gives_zeros():
    q, k, v, allowed = tensors(3, 11, 5, 7, 0, 1)
    allowed[1] = False
    out = tiled_attention(q, k, v, allowed, 4, 1.0)
    assert out[1].abs().max() == 0 and out[0].abs().max() > 0 and not out.isnan().any()


def test_what_is_carried_along_by_hand():
    """Scores 0, 1, 3 and values 1, 10, 100 in tiles of one."""
    q, k, v = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([[1.0], [10.0], [100.0]])
    steps = list(tiles(q, k, v, torch.ones(1, 3, dtype=torch.bool), 1, 1.0))
    assert [float(s.largest) for s in steps] == [0, 1, 3]
    assert [float(s.factor) for s in steps] == pytest.approx([0, math.exp(-1), math.exp(-2)])
    assert float(steps[-1].total) == pytest.approx(1 + math.exp(-2) + math.exp(-3))
    whole = (math.exp(-3) * 1 + math.exp(-2) * 10 + 100) / (1 + math.exp(-2) + math.exp(-3))
    assert float(steps[-1].output / steps[-1].total) == pytest.approx(whole)


def test_the_table_and_the_difference():
    q, k, v, allowed = tensors(5, 23, 7, 3, 1, 1)
    allowed[:, 0] = True
    table, difference = tiled_row(*(each.numpy() for each in (q, k, v, allowed)), 6, 0.4, 2)
    assert table["from key"] == [0, 6, 12, 18] and table["up to key"] == [5, 11, 17, 22]
    assert difference < 1e-5
    assert table["maximum"] == sorted(table["maximum"])


def test_the_kernel_is_timed_in_turns_and_the_first_run_is_left_out():
    full, tiled = kernel_seconds(7, 16, 3)
    assert len(full) == len(tiled) == 3 and min(*full, *tiled) > 0
