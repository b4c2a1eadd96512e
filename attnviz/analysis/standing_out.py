"""The cell of a text's attention maps that stands out: a large weight that position alone does not explain.

Looked at is each query's strongest key. Left out are the first token (the usual attention sink), the query's own word
and the words next to it. The weight expected of a cell is the largest of three: uniform weights over the query's keys;
the mean weight that other queries give this key in this head; and, fewer than LOCAL tokens away, this head's mean
weight at that distance. A cell stands out if its weight is ABOVE_CHANCE above the expected one, as for roles. Of these,
the one with the largest w · log(w / expected) is chosen, which counts EXPLAINED times where the key is an earlier
occurrence of the query's token, or follows one; tokens with letters, digits or pictures come first, then
pieces of such characters, then punctuation and spaces. A piece of a punctuation mark is left out too.

H heads, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from attnviz.analysis.roles import ABOVE_CHANCE, LOCAL, Share, first_key
from attnviz.analysis.search import Found
from attnviz.analysis.words import MARK_PIECE, Words

EXPLAINED = 4 / 3
INDUCTION, DUPLICATE = "induction", "duplicate token"  # as in roles


def strongest_of_layer(layer: int, weights: np.ndarray, allowed: np.ndarray, words: Words) -> Found | None:
    """Return the cell of a layer's maps (H, T, T) that stands out most, or comes closest to it.

    None if each query's strongest key is one that is left out.
    """
    keys = weights.argmax(-1)  # (H, T)
    n_allowed, first = allowed.sum(-1), first_key(allowed)
    i = np.arange(len(n_allowed))
    says = words.kind != MARK_PIECE  # (T,)
    asks = (n_allowed > 1) & (i >= first) & words.ends_character & says
    heads, queries = np.nonzero(asks & says[keys] & (keys != first) & (abs(words.word - words.word[keys]) > 1))
    if not len(heads):
        return None
    keys = keys[heads, queries]  # (N,), as all below: one entry per cell
    w = weights[heads, queries, keys].astype(np.float64)
    by_key = _of_key(weights, allowed, heads, keys, w)
    by_distance = _of_distance(weights, allowed, heads, queries - keys, w)
    expected = np.maximum.reduce([1 / n_allowed[queries], by_key, by_distance])
    n = _best(w, expected, np.maximum(words.kind[queries], words.kind[keys]), _repeats(queries, keys, words.same))
    cell = int(heads[n]), int(queries[n]), int(keys[n])
    return Found(layer, *cell, float(weights[cell]), Share(float(w[n]), float(expected[n]), 1))


def _best(w: np.ndarray, expected: np.ndarray, kinds: np.ndarray, repeats: np.ndarray) -> int:
    """Return which of the cells is best by `_rank`, the first of equal ones; all arrays (N,)."""
    out = w >= expected + ABOVE_CHANCE
    if not out.any():
        return int((w - expected).argmax())
    scores = w * np.log(w / expected) * np.where(repeats, EXPLAINED, 1)
    return int(np.where(out & (kinds == kinds[out].min()), scores, -np.inf).argmax())


def _repeats(queries: np.ndarray, keys: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return for each cell whether its key is an earlier occurrence of the query's token, or follows one: bool (N,)."""
    after = (keys > 0) & (same[keys - 1] == same[queries])
    return (keys <= queries) & (after | (same[keys] == same[queries]))


def strongest(cells: Iterable[Found | None], words: Words) -> Found | None:
    """Return the cell that stands out most, or comes closest to it; the first of equal ones."""
    return max((cell for cell in cells if cell), key=lambda cell: _rank(cell, words), default=None)


def relation(found: Found, words: Words) -> str:
    """Return DUPLICATE if the key is an earlier occurrence of the query's token, INDUCTION if it follows one, or ""."""
    same, query, key = words.same, found.query, found.key
    if key > query:
        return ""
    if same[key] == same[query]:
        return DUPLICATE
    return INDUCTION if key and same[key - 1] == same[query] else ""


def _rank(cell: Found, words: Words) -> tuple[bool, int, float]:
    weight, expected = cell.share.weight, cell.share.chance
    if not cell.share.stands_out:
        return False, 0, weight - expected
    kind = int(max(words.kind[cell.query], words.kind[cell.key]))
    return True, -kind, weight * math.log(weight / expected) * (EXPLAINED if relation(cell, words) else 1)


def _of_key(weights: np.ndarray, allowed: np.ndarray, heads: np.ndarray, keys: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the mean weight that each cell's key gets from other queries than the cell's and itself: (N,)."""
    others = allowed & ~np.eye(len(allowed), dtype=bool)
    sums = np.einsum("hij,ij->hj", weights, others.astype(weights.dtype))  # (H, T)
    return (sums[heads, keys] - w).clip(0) / (others.sum(0)[keys] - 1).clip(1)


def _of_distance(
    weights: np.ndarray, allowed: np.ndarray, heads: np.ndarray, back: np.ndarray, w: np.ndarray
) -> np.ndarray:
    """Return the mean weight of each cell's head at the same distance, without the cell; 0 from LOCAL tokens on: (N,).

    back: query minus key.
    """
    means = np.zeros(len(w))
    for distance in range(1 - LOCAL, LOCAL):
        at = back == distance
        if at.any():
            n = np.diagonal(allowed, -distance).sum()
            sums = np.diagonal(weights, -distance, axis1=1, axis2=2).sum(-1)  # (H,)
            means[at] = (sums[heads[at]] - w[at]).clip(0) / max(n - 1, 1)
    return means
