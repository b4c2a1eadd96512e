"""Statistics of attention maps, and how one weight in them comes about.

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
    """One number per head for each question; arrays (L, H), means over the queries that may attend to two keys or more.

    NaN where the mask leaves no query such a choice.
    """

    entropy: np.ndarray  # normalised: 0 where one key has all the weight, 1 for uniform weights on the allowed keys
    distance: np.ndarray  # from query to key in tokens, weighted
    first_token: np.ndarray  # weight on the first token that is not padding


def statistics(weights: np.ndarray, allowed: np.ndarray) -> HeadStatistics:
    """From weights (L, H, T, T) and allowed (L, T, T)."""
    entropy, distance = normalised_entropy(weights, allowed), mean_distance(weights, allowed)
    return HeadStatistics(entropy, distance, first_token_weight(weights, allowed))


def first_token_weight(weights: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """(L, H), from weights (L, H, T, T) and allowed (L, T, T): on the first token that is not padding."""
    found = np.full(weights.shape[:2], np.nan)
    for layer, choosing in enumerate(allowed.sum(-1) > 1):
        if choosing.any():
            found[layer] = weights[layer][:, choosing, first_key(allowed[layer])].mean(-1)
    return found


def rotated_pairs(config: ModelConfig) -> list[tuple[int, int]]:
    """The dimensions of a head that RoPE turns with one another, fastest pair first; MLA's lie behind its content."""
    first, n_pairs = (config.head_dim - config.rotary_dim if config.attention == "mla" else 0), config.rotary_dim // 2
    if config.rope_layout == "half":
        return [(first + i, first + i + n_pairs) for i in range(n_pairs)]
    return [(first + 2 * i, first + 2 * i + 1) for i in range(n_pairs)]


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """How one weight comes about, in float64. Dimensions in `order`: pair by pair, then those RoPE does not rotate."""

    order: list[int]  # D dimensions of the head
    pairs: list[tuple[int, int]]  # the first 2 · len(pairs) of `order`, two by two
    q: np.ndarray  # (D,)
    k: np.ndarray  # (D,)
    products: np.ndarray  # (D,)
    dot: float  # their sum
    score: float  # the trace's own, dot · the trace's scale: 1 / sqrt(D) where nothing else is said
    allowed: bool
    weight: float  # the trace's own, 0 where masked


def score_parts(trace: Trace, layer: int, head: int, query: int, key: int) -> ScoreParts:
    """One score from its query and key vector, and what the model made of it."""
    pairs = rotated_pairs(trace.config)
    rotated = [dimension for pair in pairs for dimension in pair]
    order = rotated + sorted(set(range(trace.config.head_dim)) - set(rotated))
    q = trace.q[layer, head, query, order].astype(np.float64)  # (D,)
    k = trace.k[layer, trace.config.layer.kv_head_of[head], key, order].astype(np.float64)  # (D,)
    score, weight = float(trace.scores_of(layer, head)[query, key]), float(trace.weights[layer, head, query, key])
    return ScoreParts(order, pairs, q, k, q * k, float(q @ k), score, bool(trace.allowed[layer, query, key]), weight)
