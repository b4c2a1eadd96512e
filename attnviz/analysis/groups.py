"""What sharing KV heads loses: how alike heads are, which grouping loses least, how far a converted model drifts.

H heads, K KV heads, S key tokens, T tokens, D head_dim, V vocabulary. numpy in, numpy or plain numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

MAX_HEADS = 16  # the exact search over groupings looks at every subset of heads

Groups = tuple[tuple[int, ...], ...]


def kv_heads_read(n_heads: int, n_kv_heads: int, *, tiled: bool = False) -> tuple[int, ...]:
    """The KV head each query head reads: 0 0 1 1 as `repeat_interleave` has it, or the tiled mistake 0 1 0 1."""
    size = n_heads // n_kv_heads
    return tuple(h % n_kv_heads if tiled else h // size for h in range(n_heads))


def neighbours(n_heads: int, n_groups: int) -> Groups:
    """Heads in groups of consecutive ones, as grouped-query attention takes them."""
    size = n_heads // n_groups
    return tuple(tuple(range(j * size, (j + 1) * size)) for j in range(n_groups))


def gram(heads: NDArray) -> NDArray[np.float64]:
    """(H, H) inner products of the heads' keys or values (H, S, D), each head taken as one vector of S · D numbers.

    RoPE turns the keys of all heads at one position by the same angles, so turned and unturned keys give the same.
    """
    flat = heads.reshape(len(heads), -1).astype(np.float64)  # (H, S·D)
    return flat @ flat.T


def cosines(inner: NDArray) -> NDArray[np.float64]:
    """(H, H) cosines out of inner products; a head of length 0 is at right angles to every other."""
    length = np.sqrt(np.diag(inner))
    safe = np.where(length > 0, length, 1.0)
    found = inner / np.outer(safe, safe)
    np.fill_diagonal(found, 1.0)
    return np.clip(found, -1.0, 1.0)


def lost_share(inner: NDArray, groups: Groups) -> float:
    """How much of the heads' squared length goes when each is replaced by its group's average, 0 to 1.

    0: the heads of every group are equal. 1: they cancel.
    """
    total = float(np.trace(inner))
    return sum(_lost(inner, group) for group in groups) / total if total > 0 else 0.0


def _lost(inner: NDArray, group: Sequence[int]) -> float:
    """Σ|x_h − mean|² = Σ|x_h|² − |Σ x_h|² / size, from inner products alone."""
    block = inner[np.ix_(group, group)]
    return max(float(np.trace(block) - block.sum() / len(group)), 0.0)  # rounding must not make it negative


def best_grouping(inner: NDArray, n_groups: int) -> Groups:
    """The grouping into `n_groups` of equal size whose averages lose least; exact, for at most MAX_HEADS heads.

    Each step groups the lowest head that is left with every choice of partners; what remains is solved once.
    """
    n_heads = len(inner)
    if n_heads > MAX_HEADS or n_heads % n_groups:
        raise ValueError(f"{n_heads} heads cannot be searched for {n_groups} groups: at most {MAX_HEADS} heads, evenly")
    size = n_heads // n_groups
    loss_of = cache(lambda group: _lost(inner, group))

    @cache
    def solve(left: tuple[int, ...]) -> tuple[float, Groups]:
        if not left:
            return 0.0, ()
        options = []
        for partners in combinations(left[1:], size - 1):
            group = (left[0], *partners)
            rest, groups = solve(tuple(h for h in left if h not in group))
            options.append((loss_of(group) + rest, (group, *groups)))
        return min(options)

    return solve(tuple(range(n_heads)))[1]


def next_token_losses(logits: NDArray, ids: NDArray) -> NDArray[np.float64]:
    """(T - 1,) nats: minus the log-probability that logits (T, V) at t give to the token that came at t + 1."""
    return -log_softmax(logits[:-1])[np.arange(len(ids) - 1), ids[1:]]


def next_token_divergences(logits: NDArray, other: NDArray) -> NDArray[np.float64]:
    """(T,) nats: KL(p ‖ q) between the next-token distributions of two models at every position, p from `logits`."""
    log_p, log_q = log_softmax(logits), log_softmax(other)
    return np.maximum((np.exp(log_p) * (log_p - log_q)).sum(-1), 0.0)


def moved_weight(weights: NDArray, other: NDArray) -> NDArray[np.float64]:
    """(H,) the share of its attention that the average row (query) of each head spends elsewhere: ½ Σ|a − b|, 0 to 1.

    weights, other: (H, T, S).
    """
    return 0.5 * np.abs(weights.astype(np.float64) - other).sum(-1).mean(-1)


def log_softmax(logits: NDArray) -> NDArray[np.float64]:
    """Over the last axis, in float64, safe for large logits."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
