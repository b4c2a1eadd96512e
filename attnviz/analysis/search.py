"""Search in a text's attention maps for the head, query and key that show a given relation most strongly.

L layers, H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnviz.analysis.layers import Arrays
from attnviz.analysis.roles import Share, first_key, keys_of, score
from attnviz.analysis.words import WHOLE, Words


@dataclass(frozen=True)
class Found:
    """One cell of one head, and the share that the head was chosen by: its weight on a role's keys, or on this one."""

    layer: int
    head: int
    query: int
    key: int
    weight: float
    share: Share


def strongest_by_role(
    weights: Arrays, allowed: Arrays, tokens: Sequence[int] | np.ndarray, words: Words, role: str
) -> Found | None:
    """Find the head with the largest score for a role on this text, and its largest weight.

    weights: (H, T, T) of each layer.
    The weight is the largest on one of the role's keys, between whole tokens with letters, digits or pictures where
    there are such, and else between two words: that a byte attends to the byte before it in its own character says
    little. None if the mask leaves too few queries such a key.
    """
    scores = score(weights, allowed, tokens)
    if np.isnan(scores.weight[role]).all():
        return None
    layer, head = (int(i) for i in np.unravel_index(np.nanargmax(scores.weight[role]), scores.weight[role].shape))
    choosing = allowed[layer].sum(-1) > 1  # a query with a single key gives it all its weight in any head
    pairs = keys_of(tokens, allowed[layer])[role] & allowed[layer] & choosing[:, None]
    query, key = _largest(weights[layer][head], _worth_showing(pairs, words))
    share = scores.of(layer, head).shares[role]
    return Found(layer, head, query, key, float(weights[layer][head, query, key]), share)


def strongest_pair(weights: Arrays, allowed: Arrays, pairs: Sequence[tuple[int, int]]) -> Found | None:
    """Find the head, query and key of the largest weight on any of these pairs (query, key), except on the first token.

    The first token is the attention sink of many heads, whatever it says. None if there is no other unmasked pair.
    """
    at = np.zeros(allowed[0].shape, bool)
    for query, key in pairs:
        at[query, key] = True
    at[:, first_key(np.any(allowed, axis=0))] = False
    if not any((at & mask).any() for mask in allowed):
        return None
    best = [np.where(at & mask, here, -1) for mask, here in zip(allowed, weights, strict=True)]  # (H, T, T) each
    layer = int(np.argmax([shown.max() for shown in best]))
    head, query, key = (int(i) for i in np.unravel_index(best[layer].argmax(), best[layer].shape))
    weight, n_keys = float(weights[layer][head, query, key]), int(allowed[layer][query].sum())
    return Found(layer, head, query, key, weight, Share(weight, 1 / n_keys, 1))


def bracket_pairs(labels: Sequence[str]) -> list[tuple[int, int]]:
    """Return each closing bracket's token with that of its opening bracket."""
    pairs, stack = [], []
    for i, label in enumerate(labels):
        if label.endswith("("):
            stack.append(i)
        elif label.endswith(")") and stack:
            pairs.append((i, stack.pop()))
    return pairs


def _worth_showing(pairs: np.ndarray, words: Words) -> np.ndarray:
    """Return the pairs of the first sort that occurs, of bool (T, T) query × key: whole tokens, two words, any."""
    whole = words.kind == WHOLE  # (T,)
    apart = words.ends_character[:, None] & (words.word[:, None] != words.word)  # (T, T)
    sorts = (pairs & whole[:, None] & whole, pairs & apart)
    return next((sort for sort in sorts if sort.any()), pairs)


def _largest(weights: np.ndarray, at: np.ndarray) -> tuple[int, int]:
    query, key = np.unravel_index(int(np.where(at, weights, -1).argmax()), weights.shape)
    return int(query), int(key)
