"""Roles of attention heads: a head's weight on the keys of each role, compared with uniform weights.

The same scores are computed on a text and on probes: random tokens, repeated once. Only the probes distinguish a head
that attends to the token after an earlier occurrence from one that attends to recent tokens (Olsson et al.,
arXiv 2209.11895).

A score is the mean weight on the role's keys, over the queries that may attend to one of them and to another key too.
Chance is the score of uniform weights over the allowed keys. A role is named if the score is ABOVE_CHANCE above chance,
"broad" if the normalised entropy is at least UNIFORM; any other head has no clear role. A role of SPECIFIC is named
before the others: an induction head has its weight on the first or current token wherever it finds nothing to copy, and
on the probes that is half of the queries.

L layers, H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnviz.analysis.layers import Arrays, by_head

LOCAL = 5  # nearest tokens that count as local, including the query itself
SPECIFIC = ("previous token", "induction", "duplicate token")  # keys that depend on the query and its token
NAMED = (*SPECIFIC, "current token", "first token")  # roles with specific keys
KEYED = (*NAMED, "local")  # scored by the weight on certain keys
BROAD, NO_ROLE = "broad", "no clear role"
COLUMN = "one key"  # a key of one text, not a role
ABOVE_CHANCE = 0.3  # share of the weight
UNIFORM = 0.95  # normalised entropy; it is lower with 23% of the weight on one of 16 keys, or 15% on one of 64
ENOUGH = 0.25  # share of the queries that must have such a key for the role to be scored


@dataclass(frozen=True)
class Share:
    """The mean weight on certain keys, over the queries that may attend to one of them and to another key."""

    weight: float
    chance: float  # with uniform weights over the allowed keys
    n_queries: int

    @property
    def needed(self) -> float:
        return self.chance + ABOVE_CHANCE

    @property
    def stands_out(self) -> bool:
        return self.weight >= self.needed


@dataclass(frozen=True)
class HeadScores:
    """One head's scores, without the roles for which too few queries have keys."""

    shares: dict[str, Share]
    entropy: float  # normalised: 1 for uniform weights over the allowed keys; NaN if no query has two
    distance: float  # from query to key in tokens, weighted; NaN likewise
    n_queries: int  # that may attend to two keys or more


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of all heads on one run; NaN if a role is not scored."""

    weight: dict[str, np.ndarray]  # (L, H)
    chance: dict[str, np.ndarray]  # (L,)
    n_queries: dict[str, np.ndarray]  # (L,)
    entropy: np.ndarray  # (L, H)
    distance: np.ndarray  # (L, H)
    n_choosing: np.ndarray  # (L,) queries that may attend to two keys or more

    def of(self, layer: int, head: int) -> HeadScores:
        """Return the scores of one head."""
        shares = {
            name: Share(float(weight[layer, head]), float(self.chance[name][layer]), int(self.n_queries[name][layer]))
            for name, weight in self.weight.items()
            if not np.isnan(weight[layer, head])
        }
        entropy, distance = float(self.entropy[layer, head]), float(self.distance[layer, head])
        return HeadScores(shares, entropy, distance, int(self.n_choosing[layer]))


@dataclass(frozen=True)
class Role:
    """One head's role on the probes, and its score; None for no clear role."""

    name: str
    score: float | None = None


def keys_of(tokens: Sequence[int] | np.ndarray, allowed: np.ndarray) -> dict[str, np.ndarray]:
    """Return bool (T, T) for each of KEYED: the role's keys, masked or not."""
    ids, T = np.asarray(tokens), len(tokens)
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    earlier = (ids[:, None] == ids[None, :]) & (j < i)
    first = np.zeros((T, T), bool)
    first[:, first_key(allowed)] = True
    return {
        "previous token": j == i - 1,
        "induction": np.pad(earlier, ((0, 0), (1, 0)))[:, :T],  # the key after
        "duplicate token": earlier,
        "current token": j == i,
        "first token": first & (j < i),
        "local": (j <= i) & (j > i - LOCAL),
    }


def first_key(allowed: np.ndarray) -> int:
    """Return the first key that any query may attend to; keys before it are padding."""
    return int(allowed.any(0).argmax())


def score(weights: Arrays, allowed: Arrays, tokens: Sequence[int] | np.ndarray | None) -> Scores:
    """Score all heads on one text, from each layer's weights (H, T, T) and allowed (T, T).

    tokens: None where the keys, (H, T, S), are another text's: roles and distances then mean nothing, and are left out.
    """
    named = KEYED if tokens is not None else ()
    layers = [
        _layer_scores(w, a, {} if tokens is None else keys_of(tokens, a)) for w, a in zip(weights, allowed, strict=True)
    ]
    weight = {name: by_head([of_heads[name] for of_heads, _, _ in layers]) for name in named}
    chance, n_queries = ({name: np.array([s[k][name] for s in layers]) for name in named} for k in (1, 2))
    entropy = normalised_entropy(weights, allowed)
    distance = np.full_like(entropy, np.nan) if tokens is None else mean_distance(weights, allowed)
    return Scores(weight, chance, n_queries, entropy, distance, np.array([(a.sum(-1) > 1).sum() for a in allowed]))


def _layer_scores(weights: np.ndarray, allowed: np.ndarray, keys: dict[str, np.ndarray]) -> tuple[dict, dict, dict]:
    """Return weight (H,), chance and number of queries for each role, from weights (H, T, T)."""
    n_allowed = allowed.sum(-1)  # (T,)
    weight, chance, n_queries = {}, {}, {}
    for name, of_role in keys.items():
        at = of_role & allowed
        n_keys = at.sum(-1)  # (T,)
        counted = (n_keys > 0) & (n_keys < n_allowed)  # queries with a key of the role and another one
        n = n_queries[name] = int(counted.sum())
        scored = n and n >= ENOUGH * (n_allowed > 1).sum()
        on_keys = np.tensordot(weights, (at & counted[:, None]).astype(weights.dtype), 2)  # (H,)
        weight[name] = on_keys / n if scored else np.full(len(weights), np.nan)
        chance[name] = float((n_keys[counted] / n_allowed[counted]).mean()) if scored else np.nan
    return weight, chance, n_queries


def normalised_entropy(weights: Arrays, allowed: Arrays) -> np.ndarray:
    """Return (L, H): entropy relative to uniform weights on the allowed keys, mean over queries with two or more.

    Where a learned sink takes a share, it is that of the keys' weights over their sum; so is the distance.
    """
    found = [np.full(len(here), np.nan) for here in weights]
    for layer, (here, mask) in enumerate(zip(weights, allowed, strict=True)):
        n_allowed = mask.sum(-1)
        choosing = n_allowed > 1
        if choosing.any():
            logs = np.maximum(here, np.finfo(here.dtype).tiny)  # 0 · log2(0) is 0 here
            entropy = -np.einsum("hij,hij->hi", here, np.log2(logs, out=logs))
            total = row_sums(here)
            entropy = entropy / total + np.log2(total)  # of the weights over their sum
            found[layer] = (entropy[:, choosing] / np.log2(n_allowed[choosing])).mean(-1)
    return by_head(found)


def row_sums(weights: np.ndarray) -> np.ndarray:
    """Return what each query's weights (H, T, S) sum to, (H, T): less than 1 with a learned sink; 1 where all are 0."""
    sums = weights.sum(-1)
    return np.where(sums > 0, sums, 1)


def mean_distance(weights: Arrays, allowed: Arrays) -> np.ndarray:
    """Return (L, H): weighted distance from query to key in tokens, mean over queries with two allowed keys or more."""
    positions = np.arange(len(allowed[0]), dtype=np.float32)
    apart = np.abs(positions[:, None] - positions)  # (T, T)
    found = [np.full(len(here), np.nan) for here in weights]
    for layer, (here, mask) in enumerate(zip(weights, allowed, strict=True)):
        choosing = mask.sum(-1) > 1
        if choosing.any():
            distance = np.einsum("hij,ij->hi", here, apart.astype(here.dtype)) / row_sums(here)  # (H, T)
            found[layer] = distance[:, choosing].mean(-1)
    return by_head(found)


def score_probes(weights: Arrays, allowed: Arrays, probes: Sequence[Sequence[int]]) -> Scores:
    """Return the mean scores over N probes of the same shape, from each layer's weights (N, H, T, T)."""
    each = [score([layer[n] for layer in weights], allowed, tokens) for n, tokens in enumerate(probes)]
    weight = {name: np.mean([s.weight[name] for s in each], axis=0) for name in KEYED}
    entropy, distance = (np.mean([getattr(s, name) for s in each], axis=0) for name in ("entropy", "distance"))
    return replace(each[0], weight=weight, entropy=entropy, distance=distance)


def role_of(scores: HeadScores) -> Role:
    """Return the role of SPECIFIC furthest above chance, else that of NAMED, else local, broad or no clear role."""
    reached = {name: share for name, share in scores.shares.items() if share.stands_out}
    named = [name for name in SPECIFIC if name in reached] or [name for name in NAMED if name in reached]
    if named:
        best = max(named, key=lambda name: reached[name].weight - reached[name].chance)
        return Role(best, reached[best].weight)
    if "local" in reached:
        return Role("local", reached["local"].weight)
    return Role(BROAD, scores.entropy) if scores.entropy >= UNIFORM else Role(NO_ROLE)


def stand_out(scores: HeadScores, column: Column | None = None) -> list[tuple[str, Share]]:
    """Return the shares above their thresholds, roles of NAMED and COLUMN, largest first; else local, if it is."""
    shares = scores.shares | ({COLUMN: column.share} if column else {})
    named = [(name, shares[name]) for name in (*NAMED, COLUMN) if name in shares and shares[name].stands_out]
    if not named and "local" in shares and shares["local"].stands_out:
        return [("local", shares["local"])]
    return sorted(named, key=lambda found: -found[1].weight * found[1].n_queries)


@dataclass(frozen=True)
class Column:
    """The key, other than the first, that gets most of one head's weight, over the queries that may attend to it."""

    key: int
    share: Share


def largest_columns(weights: np.ndarray, allowed: np.ndarray) -> list[Column | None]:
    """Find each head's column in a layer's weights (H, T, T).

    None if no key except the first is allowed for enough queries.
    """
    n_allowed = allowed.sum(-1)
    choosing = n_allowed > 1
    at = allowed & choosing[:, None]  # (T, T)
    n_queries = at.sum(0)
    eligible = (n_queries > 0) & (n_queries >= ENOUGH * choosing.sum())
    eligible[first_key(allowed)] = False
    if not eligible.any():
        return [None] * len(weights)
    sums = np.einsum("hij,ij->hj", weights, at.astype(weights.dtype))  # (H, T)
    chance = (at / n_allowed[:, None].clip(1)).sum(0) / n_queries.clip(1)  # (T,)
    keys = np.where(eligible, sums, -1).argmax(-1)
    return [
        Column(int(key), Share(float(on[key] / n_queries[key]), float(chance[key]), int(n_queries[key])))
        for key, on in zip(keys, sums, strict=True)
    ]


def probes(vocab_size: int, period: int, n: int, seed: int = 0) -> list[list[int]]:
    """Return n sequences of `period` distinct random tokens, each repeated once."""
    rng = np.random.default_rng(seed)
    halves = [rng.choice(vocab_size, period, replace=False).tolist() for _ in range(n)]
    return [half + half for half in halves]
