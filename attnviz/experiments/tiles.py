"""Softmax in tiles, as in FlashAttention (Dao et al., arXiv 2205.14135), which never stores a full row of scores.

Keys and values are read in blocks. For each query three running values are updated: the maximum score, the sum of
exponentials, and the output. When the maximum rises, sum and output are rescaled by the same factor.

T queries, S keys, D head_dim, V width of a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnviz.modules.attention import attend


class Tile(NamedTuple):
    """The running values of each query after one block of keys."""

    first: int  # first key of the block
    last: int  # first key after the block
    largest: Tensor  # (T,), running maximum, −∞ until a key is allowed
    factor: Tensor  # (T,), by which the previous sum and output were multiplied
    total: Tensor  # (T,), sum of exponentials
    output: Tensor  # (T, V), not yet divided by the sum


def tiles(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, block: int, scale: float) -> Iterator[Tile]:
    """Iterate over the keys in blocks. q (T, D), k (S, D), v (S, V), allowed bool (T, S), True = may attend."""
    largest = q.new_full(q.shape[:1], -math.inf)  # (T,)
    total, output = torch.zeros_like(largest), q.new_zeros(len(q), v.shape[1])  # (T,), (T, V)
    for first in range(0, len(k), block):
        part = slice(first, min(first + block, len(k)))
        scores = (q @ k[part].mT).mul_(scale).masked_fill_(~allowed[:, part], -math.inf)  # (T, block)
        before, largest = largest, torch.maximum(largest, scores.amax(-1))  # (T,)
        shift = largest.masked_fill(largest.isneginf(), 0.0)  # avoids −∞ − (−∞) = NaN
        factor, weights = (before - shift).exp(), scores.sub_(shift[:, None]).exp_()  # (T,), (T, block)
        total = total * factor + weights.sum(-1)
        output = output * factor[:, None] + weights @ v[part]
        yield Tile(part.start, part.stop, largest, factor, total, output)


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, block: int, scale: float) -> Tensor:
    """Compute softmax(q · kᵀ · scale) · v (T, V) by tiles; 0 for a fully masked query."""
    *_, last = tiles(q, k, v, allowed, block, scale)
    return last.output / last.total.masked_fill(last.total == 0, 1.0)[:, None]


@torch.inference_mode()
def tiled_row(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray, block: int, scale: float, query: int
) -> tuple[dict[str, list], float]:
    """Return one query's running values, a row per tile, and the largest difference from PyTorch's kernel.

    The difference is over the outputs of all queries. Shapes as in `tiles`.
    """
    Q, K, V, mask = (torch.from_numpy(np.array(each)) for each in (q, k, v, allowed))
    steps = list(tiles(Q, K, V, mask, block, scale))
    table: dict[str, list] = {
        "from key": [tile.first for tile in steps],
        "up to key": [tile.last - 1 for tile in steps],
        "maximum": [float(tile.largest[query]) for tile in steps],
        "factor": [float(tile.factor[query]) for tile in steps],
        "sum": [float(tile.total[query]) for tile in steps],
        "output norm": [float(tile.output[query].norm()) for tile in steps],
    }
    kernel = F.scaled_dot_product_attention(Q[None], K[None], V[None], mask[None], scale=scale)[0]  # (T, V)
    has_keys = mask.any(-1)  # the kernel's output is undefined for a fully masked query
    difference = (tiled_attention(Q, K, V, mask, block, scale) - kernel)[has_keys].abs()
    return table, float(difference.max()) if len(difference) else 0.0


@torch.inference_mode()
def kernel_seconds(n_tokens: int, head_dim: int, n_runs: int) -> tuple[list[float], list[float]]:
    """Time one head with the full score matrix, and by PyTorch's tiled kernel: interleaved runs without a mask."""
    q, k, v = torch.randn(3, 1, 1, n_tokens, head_dim, generator=torch.Generator().manual_seed(0))
    ways = (lambda: attend(q, k, v)), (lambda: F.scaled_dot_product_attention(q, k, v))
    seconds: tuple[list[float], list[float]] = [], []
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for run in range(n_runs + 1):  # the first is not counted
            for way, taken in zip(ways, seconds, strict=True):
                began = perf_counter()
                way()
                if run:
                    taken.append(perf_counter() - began)
    return seconds
