"""Statistics of attention maps, and the parts of one score.

L layers, H heads, T tokens, D head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnviz.analysis.layers import Arrays, by_head
from attnviz.analysis.roles import first_key, mean_distance, normalised_entropy
from attnviz.config import ModelConfig

if TYPE_CHECKING:
    from attnviz.trace import Trace


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """Statistics per head; arrays (L, H), means over the queries that may attend to two keys or more.

    NaN if the mask leaves no such query.
    """

    entropy: np.ndarray  # normalised: 0 if one key has all the weight, 1 for uniform weights on the allowed keys
    distance: np.ndarray  # from query to key in tokens, weighted
    first_token: np.ndarray  # weight on the first token that is not padding


def statistics(weights: Arrays, allowed: Arrays, *, two_texts: bool = False) -> HeadStatistics:
    """Compute the statistics from each layer's weights (H, T, T) and allowed (T, T).

    two_texts: the keys, (H, T, S), are another text's, to which there is no distance: NaN.
    """
    entropy = normalised_entropy(weights, allowed)
    distance = np.full_like(entropy, np.nan) if two_texts else mean_distance(weights, allowed)
    return HeadStatistics(entropy, distance, first_token_weight(weights, allowed))


def first_token_weight(weights: Arrays, allowed: Arrays) -> np.ndarray:
    """Return (L, H) mean weights on the first non-padding token, from each layer's (H, T, T) and allowed (T, T)."""
    means = [np.full(len(here), np.nan) for here in weights]
    for layer, (here, mask) in enumerate(zip(weights, allowed, strict=True)):
        choosing = mask.sum(-1) > 1
        if choosing.any():
            means[layer] = here[:, choosing, first_key(mask)].mean(-1)
    return by_head(means)


def rotated_pairs(config: ModelConfig, layer: int) -> list[tuple[int, int]]:
    """Return the pairs of dimensions that RoPE rotates, fastest first; in MLA they follow the content dimensions."""
    first, n_pairs = config.layers[layer].mixer.rotary_start, config.layers[layer].rotary_dim // 2
    if config.rope_layout == "half":
        return [(first + i, first + i + n_pairs) for i in range(n_pairs)]
    return [(first + 2 * i, first + 2 * i + 1) for i in range(n_pairs)]


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """The parts of one score, in float64. Dimensions in `order`: pair by pair, then those that RoPE does not rotate."""

    order: list[int]  # D dimensions of the head
    pairs: list[tuple[int, int]]  # the first 2 · len(pairs) of `order`, two by two
    q: np.ndarray  # (D,)
    k: np.ndarray  # (D,)
    products: np.ndarray  # (D,)
    dot: float  # sum of the products
    score: float  # from the trace: dot · the trace's scale, by default 1 / sqrt(D)
    allowed: bool
    weight: float  # from the trace, 0 if masked


def score_parts(trace: Trace, layer: int, head: int, query: int, key: int) -> ScoreParts:
    """Compute the parts of one score from its query and key vector, with the trace's score and weight."""
    pairs, one = rotated_pairs(trace.config, layer), trace.layers[layer]
    rotated = [dimension for pair in pairs for dimension in pair]
    order = rotated + sorted(set(range(one.mixer.head_dim)) - set(rotated))
    q, k = one.q[head, query, order].astype(np.float64), one.keys_of(head)[key, order].astype(np.float64)  # (D,) each
    score, weight = float(one.scores_of(head)[query, key]), float(one.weights[head, query, key])
    return ScoreParts(order, pairs, q, k, q * k, float(q @ k), score, bool(one.allowed[query, key]), weight)
