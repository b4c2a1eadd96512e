"""What attention maps say about a head: how spread its weight is, how far it looks, what it looks for, and how one
number in them comes about.

L layers, H heads, T tokens, D head_dim. Roles are scored on probe sequences, not on the user's text: random tokens said
twice tell apart a head that looks up what followed last time from one that merely looks back (Olsson et al., arXiv
2209.11895).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnviz.config import ModelConfig

if TYPE_CHECKING:
    from attnviz.trace import Trace

LOCAL = 5  # tokens, the query itself counted, that count as nearby
ROLES = ("previous token", "induction", "duplicate token", "same token", "first token", "local", "broad")
NAMED = ROLES[:5]  # those that name the key a head looks at
NEEDED = dict.fromkeys(NAMED, 0.3) | {"local": 0.6}  # of the weight; by chance a named key has a few hundredths
MEANING = {
    "previous token": "looks at the token before",
    "induction": "looks at what followed the last time this token was read",
    "duplicate token": "looks at earlier occurrences of the same token",
    "same token": "looks at the query's own token",
    "first token": "rests on the first token, a sink: normal, it is where a head looks when it has nothing to add",
    "local": f"spreads its weight over the last {LOCAL} tokens",
    "broad": "spreads its weight widely",
}


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """One number a head for each question; arrays (L, H)."""

    entropy: np.ndarray  # bits, mean over the queries; 0 where one key has all the weight
    distance: np.ndarray  # tokens between query and key, weighted mean
    first_token: np.ndarray  # mean weight on token 0, over the queries after it


def statistics(weights: np.ndarray) -> HeadStatistics:
    """From weights (L, H, T, T) whose rows sum to 1. Every query counts the same; token 0 sees itself alone."""
    T = weights.shape[-1]
    logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    distance = np.abs(np.arange(T)[:, None] - np.arange(T)[None, :])  # (T, T)
    return HeadStatistics(
        entropy=-(weights * logs).sum(-1).mean(-1),
        distance=(weights * distance).sum(-1).mean(-1),
        first_token=weights[..., 1:, 0].mean(-1) if T > 1 else weights[..., 0, 0],
    )


def role_scores(weights: np.ndarray, period: int) -> dict[str, np.ndarray]:
    """Scores (L, H) between 0 and 1, from weights (L, H, 2·period, 2·period) on `period` distinct tokens said twice.

    Each is the mean weight on the keys that the role names, over the queries for which there is such a key; "broad"
    is the entropy as a share of what a uniform head would have.
    """
    T = weights.shape[-1]
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    keys = {  # bool (T, T): where a head with this role would look
        "previous token": j == i - 1,
        "induction": (j == i - period + 1) & (i >= period),
        "duplicate token": (j == i - period) & (i >= period),
        "same token": j == i,
        "first token": (j == 0) & (i > 0),
        "local": (j <= i) & (j > i - LOCAL) & (i >= LOCAL),
    }
    scores = {role: _mass(weights, at) for role, at in keys.items()}
    return scores | {"broad": _relative_entropy(weights)}


def _mass(weights: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Mean over the queries with such a key of the weight on them, (L, H)."""
    n_asked = at.any(-1).sum()
    return np.tensordot(weights, at.astype(weights.dtype), 2) / n_asked


def _relative_entropy(weights: np.ndarray) -> np.ndarray:
    """Entropy over the entropy of a uniform head, (L, H); from the fifth query on, where there is a choice."""
    rows = weights[..., 4:, :]
    logs = np.log2(rows, out=np.zeros_like(rows), where=rows > 0)
    visible = np.maximum((rows > 0).sum(-1), 2)
    return (-(rows * logs).sum(-1) / np.log2(visible)).mean(-1)


@dataclass(frozen=True)
class Role:
    """What one head does, and the score this rests on."""

    name: str
    score: float


def roles(scores: dict[str, np.ndarray]) -> list[list[Role]]:
    """One role a head, [layer][head]: the most telling one whose score is high enough, else local or broad."""
    L, H = scores["broad"].shape
    return [[_role({name: float(s[layer, h]) for name, s in scores.items()}) for h in range(H)] for layer in range(L)]


def _role(scores: dict[str, float]) -> Role:
    named = max(NAMED, key=scores.__getitem__)
    if scores[named] >= NEEDED[named]:
        return Role(named, scores[named])
    name = "local" if scores["local"] >= NEEDED["local"] else "broad"
    return Role(name, scores[name])


def probes(vocab_size: int, period: int, n: int, seed: int = 0) -> list[Sequence[int]]:
    """n sequences of `period` distinct random tokens said twice."""
    rng = np.random.default_rng(seed)
    halves = [rng.choice(vocab_size, period, replace=False).tolist() for _ in range(n)]
    return [half + half for half in halves]


def turned_pairs(config: ModelConfig) -> list[tuple[int, int]]:
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
    score: float  # the trace's own, dot / sqrt(D)
    allowed: bool
    weight: float  # the trace's own, 0 where masked


def score_parts(trace: Trace, layer: int, head: int, query: int, key: int) -> ScoreParts:
    """One score from its query and key vector, and what the model made of it."""
    pairs = turned_pairs(trace.config)
    turned = [dimension for pair in pairs for dimension in pair]
    order = turned + sorted(set(range(trace.config.head_dim)) - set(turned))
    q = trace.q[layer, head, query, order].astype(np.float64)  # (D,)
    k = trace.k[layer, trace.config.layer.kv_head_of[head], key, order].astype(np.float64)  # (D,)
    score, weight = float(trace.scores_of(layer, head)[query, key]), float(trace.weights[layer, head, query, key])
    return ScoreParts(order, pairs, q, k, q * k, float(q @ k), score, bool(trace.allowed[layer, query, key]), weight)
