"""Computations of the Linear and sparse page on softmax layers: what an indexer keeps, and learned sinks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnviz.analysis import sparse as analysis
from attnviz.compute import models
from attnviz.compute.linear import RESULTS, Head, heads
from attnviz.compute.view import View
from attnviz.mechanisms import Layer
from attnviz.trace import allowed_of

FIRST = 4  # tokens that stay visible as sinks, as in arXiv 2309.17453


@dataclass(frozen=True, eq=False)
class Indexed:
    """One head of a layer with an indexer: the dense weights of its own q and k, and how the indexer ranks the keys."""

    dense: np.ndarray  # (T, T), over all keys that the mask allows
    index_scores: np.ndarray  # (T, T)
    rank: np.ndarray  # (T, T), best 0
    allowed: np.ndarray  # (T, T)
    errors: dict[str, np.ndarray]  # how the keys are chosen -> output error for k = 1 … T, (T,)

    @property
    def nbytes(self) -> int:
        arrays = (self.dense, self.index_scores, self.rank, self.allowed, *self.errors.values())
        return sum(a.nbytes for a in arrays)


def has_indexer(layer: Layer) -> bool:
    """Check whether an indexer of the layer's own chooses its keys."""
    return layer.mixer.attends and layer.mixer.top_k is not None


def has_sinks(layer: Layer) -> bool:
    """Check whether the layer's heads have learned sink logits."""
    return layer.mixer.attends and layer.mixer.sink_logits


def indexed_of(view: View, head: Head) -> Indexed:
    """Return what a head's indexer does on the text, for any number of keys."""
    return models.computed_once(("indexed", view.run, view.ids, head), lambda: _indexed(view, head), RESULTS)


def _indexed(view: View, head: Head) -> Indexed:
    (layer, h), one = head, view.trace.layers[head[0]]
    allowed = allowed_of(view.model, len(view.ids))[layer]
    dense, scores, v = analysis.softmax(one.scores_of(h), allowed), one.own["index_scores"], one.values_of(h)
    recent = np.broadcast_to(np.arange(len(dense)), dense.shape)
    chosen = {"index scores": scores, "largest dense weights": dense, "last keys": recent}
    ranked = {name: analysis.ranks(by, allowed) for name, by in chosen.items()}
    errors = {name: analysis.errors_by_k(dense, rank, v) for name, rank in ranked.items()}
    return Indexed(dense, scores, ranked["index scores"], allowed, errors)


def keep(view: View, head: Head) -> int:
    """Return how many keys are kept: as chosen, or as the layer does; of a text that it keeps whole, a quarter."""
    n, own = len(view.ids), view.config.layers[head[0]].mixer.top_k or 1
    return min(view.settings.keep or analysis.usual_k(own, n), n)


@dataclass(frozen=True, eq=False)
class Sunk:
    """One head's weights with its learned sink logit, with the first tokens visible instead, and with neither."""

    with_logit: np.ndarray  # (T, T)
    share: np.ndarray  # (T,), that goes to no token
    first_tokens: np.ndarray  # (T, T)
    without: np.ndarray  # (T, T)
    allowed: np.ndarray  # (T, T)
    allowed_first: np.ndarray  # (T, T), with the first tokens


def sunk_of(view: View, head: Head) -> Sunk:
    """Return the weights of a head's own scores with each kind of sink."""
    (_, h), one = head, view.trace.layers[head[0]]
    scores, T = one.scores_of(h), len(view.ids)
    first = one.allowed | ((np.arange(T) < FIRST)[None] & np.tri(T, dtype=bool))
    return Sunk(
        one.weights_of(h), one.own["sink"][h], analysis.softmax(scores, first), analysis.softmax(scores, one.allowed),
        one.allowed, first,
    )  # fmt: skip


def sink_shares_of(view: View) -> np.ndarray:
    """Return the mean share of each head's weight that goes to no token, (L, H); NaN in layers without sink logits."""
    nothing = np.full(max(layer.mixer.n_heads for layer in view.config.layers), np.nan)
    layers = zip(view.config.layers, view.trace.layers, strict=True)
    return np.stack([one.own["sink"].mean(-1) if has_sinks(layer) else nothing for layer, one in layers])


def sinking_head(view: View) -> Head:
    """Return the head whose sink is drawn: the chosen one, else that which gives most of its weight to no token."""
    if view.settings.softmax_head in heads(view, has_sinks):
        return view.heads[view.settings.softmax_head]
    shares = sink_shares_of(view)
    layer, head = map(int, np.unravel_index(int(np.nanargmax(shares)), shares.shape))
    return layer, head
