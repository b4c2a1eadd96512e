"""Where to look in a text's attention maps: the head, query and key that show a given relation most.

L layers, H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnviz.analysis.roles import Share, keys_of, score


@dataclass(frozen=True)
class Found:
    """One cell of one head, and the head's share of weight on a role's keys where it was chosen by that."""

    layer: int
    head: int
    query: int
    key: int
    weight: float
    share: Share | None = None


def strongest_by_role(
    weights: np.ndarray, allowed: np.ndarray, tokens: Sequence[int] | np.ndarray, role: str
) -> Found | None:
    """The head (of weights (L, H, T, T)) with the largest score for a role on this text, and its largest such weight.

    None where the mask leaves too few queries such a key.
    """
    scores = score(weights, allowed, tokens)
    if np.isnan(scores.weight[role]).all():
        return None
    layer, head = (int(i) for i in np.unravel_index(np.nanargmax(scores.weight[role]), weights.shape[:2]))
    asked = allowed[layer].sum(-1) > 1  # a query with one key gives it everything, whatever the head
    pairs = keys_of(tokens, allowed[layer])[role] & allowed[layer] & asked[:, None]
    query, key = _largest(weights[layer, head], pairs)
    share = scores.of(layer, head).shares[role]
    return Found(layer, head, query, key, float(weights[layer, head, query, key]), share)


def strongest_pair(weights: np.ndarray, allowed: np.ndarray, pairs: Sequence[tuple[int, int]]) -> Found | None:
    """The head, query and key of the largest weight on any of these pairs (query, key); None where all are masked."""
    at = np.zeros(weights.shape[2:], bool)
    for query, key in pairs:
        at[query, key] = True
    open_ = at & allowed  # (L, T, T)
    if not open_.any():
        return None
    best = [np.where(here, layer, -1) for here, layer in zip(open_[:, None], weights, strict=True)]
    layer = int(np.argmax([shown.max() for shown in best]))
    head, query, key = (int(i) for i in np.unravel_index(best[layer].argmax(), weights.shape[1:]))
    return Found(layer, head, query, key, float(weights[layer, head, query, key]))


def bracket_pairs(labels: Sequence[str], opening: str = "(", closing: str = ")") -> list[tuple[int, int]]:
    """Each closing bracket's token with that of the opening bracket it belongs to."""
    pairs, open_ = [], []
    for i, label in enumerate(labels):
        if label.endswith(opening):
            open_.append(i)
        elif label.endswith(closing) and open_:
            pairs.append((i, open_.pop()))
    return pairs


def _largest(weights: np.ndarray, at: np.ndarray) -> tuple[int, int]:
    query, key = np.unravel_index(int(np.where(at, weights, -1).argmax()), weights.shape)
    return int(query), int(key)
