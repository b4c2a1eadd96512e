"""Random inputs that force what a check is about: masks that differ in every sequence and head, scores far from 0.

B batch, H heads, T query tokens, S key tokens, D head_dim.
"""

from __future__ import annotations

import torch
from torch import Tensor

FAR = 1000.0  # exp() of it overflows in float64 too, and exp() of its negative is 0
FAR_TOLERANCE = 2e-3  # a score of 1,000 in float32 is off by up to 1e-4, and its weight by as much


def causal(T: int, S: int | None = None, shift: int = 0) -> Tensor:
    """Return the causal mask, bool (T, S), True = may attend; S = T by default. shift: keys seen further on."""
    return torch.ones(T, S or T, dtype=torch.bool).tril(shift)


def drawn(seed: int, *shape: int) -> Tensor:
    """Draw standard normal numbers from the seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def random_mask(seed: int, *shape: int, empty: bool = False) -> Tensor:
    """Draw a mask (…, T, S) that no causal, transposed or shared one equals; T at least 5.

    Each query may attend to about half of the keys, and to at least one. Query 0 sees the last key, the last query does
    not see key 0. Query 1 misses one key, another one in each sequence and head. empty: one query is fully masked,
    another one in each sequence and head.
    """
    mask = drawn(seed, *shape) > 0
    for i, rows in enumerate(mask.reshape(-1, *shape[-2:])):  # views, (T, S) each
        T, S = rows.shape
        rows.logical_or_(torch.eye(T, S, dtype=torch.bool))
        rows[:, -1] |= ~rows.any(-1)  # queries after the last key
        rows[0, -1], rows[-1, 0], rows[1], rows[1, i % S] = True, False, True, False
        rows[-1, -1] = True
        if empty:
            rows[2 + i % (T - 3)] = False
    return mask


def padding_mask(B: int, S: int) -> Tensor:
    """Return a mask of keys, bool (B, S), with another number of padding tokens on the left of each sequence."""
    return torch.arange(S) >= 1 + torch.arange(B)[:, None]


def far_scores(seed: int, heads: tuple[int, ...], T: int, S: int, D: int) -> tuple[Tensor, Tensor]:
    """Draw q (…, T, D) and k (…, S, D) whose scores q · k / √D are near FAR for even queries, and near −FAR for odd."""
    sign = 1.0 - 2.0 * (torch.arange(T) % 2)  # (T,)
    q, k = drawn(seed, *heads, T, D), drawn(seed + 1, *heads, S, D)
    q[..., 0], k[..., 0] = sign * FAR * D**0.5, 1.0
    return q, k
