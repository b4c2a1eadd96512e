"""The loss from sharing KV heads: similarity of heads, the grouping that loses least, losses compared per token.

H heads, K KV heads, S key tokens, T tokens, D head_dim, V vocabulary. numpy in, numpy or plain numbers out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb, nan, sqrt

import numpy as np
from numpy.typing import NDArray

MAX_HEADS = 16  # the exact search over groupings looks at all subsets of heads

Groups = tuple[tuple[int, ...], ...]


def kv_heads_read(n_heads: int, n_kv_heads: int, *, tiled: bool = False) -> tuple[int, ...]:
    """Return the KV head that each query head reads: 0 0 1 1 by `repeat_interleave`, or 0 1 0 1 if tiled, a mistake."""
    size = n_heads // n_kv_heads
    return tuple(h % n_kv_heads if tiled else h // size for h in range(n_heads))


def neighbours(n_heads: int, n_groups: int) -> Groups:
    """Return groups of consecutive heads, as in grouped-query attention."""
    size = n_heads // n_groups
    return tuple(tuple(range(j * size, (j + 1) * size)) for j in range(n_groups))


def gram(heads: NDArray) -> NDArray[np.float64]:
    """Return (H, H) inner products of the heads' keys or values (H, S, D), each head as one vector of S · D numbers.

    RoPE rotates the keys of all heads at one position by the same angles, so rotated and pre-RoPE keys give the same.
    """
    flat = heads.reshape(len(heads), -1).astype(np.float64)  # (H, S·D)
    return flat @ flat.T


def cosines(inner: NDArray) -> NDArray[np.float64]:
    """Return (H, H) cosines from inner products; a head of length 0 has cosine 0 with every other."""
    length = np.sqrt(np.diag(inner))
    safe = np.where(length > 0, length, 1.0)
    cosine = inner / np.outer(safe, safe)
    np.fill_diagonal(cosine, 1.0)
    return np.clip(cosine, -1.0, 1.0)


def lost_share(inner: NDArray, groups: Groups) -> float:
    """Return the share of the heads' squared length lost when each is replaced by its group's average, 0 to 1.

    0: the heads of every group are equal. 1: they cancel.
    """
    total = float(np.trace(inner))
    return sum(_lost(inner, group) for group in groups) / total if total > 0 else 0.0


def _lost(inner: NDArray, group: Sequence[int]) -> float:
    """Return Σ|x_h − mean|² = Σ|x_h|² − |Σ x_h|² / size, from inner products alone."""
    block = inner[np.ix_(group, group)]
    return max(float(np.trace(block) - block.sum() / len(group)), 0.0)  # rounding must not make it negative


def best_grouping(inner: NDArray, n_groups: int) -> Groups:
    """Find the grouping into `n_groups` of equal size whose averages lose least; exact, for at most MAX_HEADS heads.

    Dynamic programming: each step groups the lowest remaining head with every choice of partners, and each remaining
    set is solved once. A set of heads is a bit mask, so that all sets of a step are solved together.
    """
    n_heads = len(inner)
    if n_heads > MAX_HEADS or n_heads % n_groups:
        raise ValueError(f"{n_heads} heads cannot be searched for {n_groups} groups: at most {MAX_HEADS} heads, evenly")
    size = n_heads // n_groups
    lost, steps, left = _losses(inner, size), [], np.arange(n_heads)[None]
    while left.shape[1]:
        groups, rests, left = _every_group(left, size)
        steps.append((groups, rests))
    least, best = np.zeros(1), []  # loss of the empty set that remains after the last step
    for groups, rests in reversed(steps):
        total = lost[groups] + least[rests]  # (sets, choices)
        best.append(total.argmin(1))
        least = total.min(1)
    chosen, at = [], 0
    for (groups, rests), choice in zip(steps, reversed(best), strict=True):
        chosen.append(groups[at, choice[at]])
        at = rests[at, choice[at]]
    return tuple(tuple(h for h in range(n_heads) if group >> h & 1) for group in chosen)


def _losses(inner: NDArray, size: int) -> NDArray[np.float64]:
    """Return (2^H,): the loss of averaging the heads whose bits are set, for sets of `size` heads; else 0.

    Computed as in `_lost`, for all sets at once.
    """
    n_heads = len(inner)
    sets = _combinations(range(n_heads), size)  # (sets, size)
    member = np.zeros((len(sets), n_heads))
    np.put_along_axis(member, sets, 1.0, axis=1)
    lost = np.zeros(2**n_heads)
    lost[(1 << sets).sum(1)] = member @ np.diag(inner) - ((member @ inner) * member).sum(1) / size
    return np.maximum(lost, 0.0)


def _every_group(left: NDArray, size: int) -> tuple[NDArray, NDArray, NDArray]:
    """Return every way to take a group from each set: the groups as bits, the index of each remaining set, these sets.

    left (sets, m), heads in ascending order -> (sets, choices), (sets, choices), (new sets, m - size).
    """
    m = left.shape[1]
    partners = _combinations(range(1, m), size - 1)
    choices = np.insert(partners, 0, 0, axis=1)  # (choices, size)
    others = np.ones((len(choices), m), dtype=bool)
    np.put_along_axis(others, choices, False, axis=1)
    others = others.nonzero()[1].reshape(len(choices), m - size)
    bits = 1 << left
    groups = bits[:, choices].sum(-1)
    _, first, rests = np.unique(bits.sum(1, keepdims=True) - groups, return_index=True, return_inverse=True)
    at, choice = np.divmod(first, len(choices))
    return groups, rests.reshape(groups.shape), left[at[:, None], others[choice]]


def _combinations(of: Sequence[int], size: int) -> NDArray[np.int64]:
    """Return (choices, size): all combinations, in ascending order."""
    flat = chain.from_iterable(combinations(of, size))
    return np.fromiter(flat, np.int64).reshape(comb(len(of), size), size)


def next_token_losses(logits: NDArray, ids: NDArray) -> NDArray[np.float64]:
    """Return (T - 1,) nats: minus the log-probability from logits (T, V) at t of the token at t + 1."""
    return -log_softmax(logits[:-1])[np.arange(len(ids) - 1), ids[1:]]


@dataclass(frozen=True)
class Difference:
    """One model's loss minus another's on the same tokens."""

    mean: float  # nats per token
    error: float  # standard error of the paired differences over the tokens; NaN for a single token
    n: int  # predicted tokens


def paired_difference(losses: NDArray, reference: NDArray) -> Difference:
    """Return losses (N,) minus those of a reference on the same N tokens, N at least 1."""
    d = losses - reference
    return Difference(float(d.mean()), float(d.std(ddof=1)) / sqrt(len(d)) if len(d) > 1 else nan, len(d))


def divergences_of(log_p: NDArray, log_q: NDArray) -> NDArray[np.float64]:
    """Return (T,) nats: KL(p ‖ q) between two models' next-token distributions at every position, log_p (T, V)."""
    return np.maximum((np.exp(log_p) * (log_p - log_q)).sum(-1), 0.0)


def moved_weight(weights: NDArray, other: NDArray) -> NDArray[np.float64]:
    """Return (H,) total variation distance ½ Σ|a − b| between each head's rows, averaged over the queries, 0 to 1.

    weights, other: (H, T, S).
    """
    return 0.5 * np.abs(weights.astype(np.float64) - other).sum(-1).mean(-1)


def log_softmax(logits: NDArray) -> NDArray[np.float64]:
    """Compute the log-softmax over the last axis in float64, stable for large logits."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
