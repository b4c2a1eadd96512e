"""Statistics of attention maps, and the parts of one score.

L layers, H heads, T tokens, D head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

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


def statistics(weights: np.ndarray, allowed: np.ndarray) -> HeadStatistics:
    """Compute the statistics from weights (L, H, T, T) and allowed (L, T, T)."""
    entropy, distance = normalised_entropy(weights, allowed), mean_distance(weights, allowed)
    return HeadStatistics(entropy, distance, first_token_weight(weights, allowed))


def first_token_weight(weights: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return (L, H) mean weights on the first non-padding token, from weights (L, H, T, T) and allowed (L, T, T)."""
    means = np.full(weights.shape[:2], np.nan)
    for layer, choosing in enumerate(allowed.sum(-1) > 1):
        if choosing.any():
            means[layer] = weights[layer][:, choosing, first_key(allowed[layer])].mean(-1)
    return means


def rotated_pairs(config: ModelConfig) -> list[tuple[int, int]]:
    """Return the pairs of dimensions that RoPE rotates, fastest first; in MLA they follow the content dimensions."""
    first, n_pairs = config.mixer.rotary_start, config.rotary_dim // 2
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
    pairs = rotated_pairs(trace.config)
    rotated = [dimension for pair in pairs for dimension in pair]
    order = rotated + sorted(set(range(trace.config.head_dim)) - set(rotated))
    q = trace.q[layer, head, query, order].astype(np.float64)  # (D,)
    k = trace.k[layer, trace.config.layer.kv_head_of[head], key, order].astype(np.float64)  # (D,)
    score, weight = float(trace.scores_of(layer, head)[query, key]), float(trace.weights[layer, head, query, key])
    return ScoreParts(order, pairs, q, k, q * k, float(q @ k), score, bool(trace.allowed[layer, query, key]), weight)
