"""Parts of the Linear and sparse page, from the top."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import streamlit as st

from attnviz.compute import linear as compute_linear
from attnviz.compute import sparse as compute_sparse
from attnviz.compute.linear import is_linear, is_softmax
from attnviz.compute.sparse import has_indexer, has_sinks
from attnviz.compute.view import View, countable, drawable, head_name
from attnviz.config import SHIPPED
from attnviz.figures import caches
from attnviz.figures import linear as figures
from attnviz.figures import sparse as sparse_figures
from attnviz.figures.drawing import Caption, escaped
from attnviz.figures.theme import kv_colour
from attnviz.mechanisms import Layer
from attnviz.ui import charts, controls, state
from attnviz.ui.components.linked_maps import LinkedMap, linked_maps
from attnviz.ui.components.state_player import state_player
from attnviz.ui.offer_checkpoint import offer

HYBRID = "hybrid"


def show() -> None:
    """Draw the page."""
    top()
    implied()
    tabs()


@state.part("top", countable)
def top(view: View) -> None:
    """One sentence on what the model's layers keep."""
    st.markdown(f"**{escaped(view.settings.model_name)}**: {figures.layers_sentence(view.config)}")


@state.part("implied")
def implied(view: View) -> None:
    """The map that a linear layer implies, beside a softmax head of the same text."""
    linear = compute_linear.shown_with(view, is_linear, HYBRID)
    if linear is None:
        offer(HYBRID, why=_lacks(view, "a linear layer, whose state implies a map"), place="offer-implied")
        return
    if linear is not view:
        _offered(view, "linear layer", HYBRID)
    maps = []
    with st.container(horizontal=True, vertical_alignment="center"):
        if compute_linear.has(view, is_softmax):
            beside = compute_linear.head_of(view, is_softmax, view.settings.softmax_head)
            _choose_head(view, "Softmax head", "softmax_head", is_softmax, beside)
            maps.append(_softmax(view, beside, linear))
        head = compute_linear.linear_head_of(linear)
        implied_map, checked = _implied(linear, head, view)
        _choose_head(linear, "Linear head", "linear_head", is_linear, head, checked)
        maps.append(implied_map)
    linked_maps(maps, view.labels, "implied-maps", (view.query, view.key))


def _choose_head(
    view: View, label: str, field: str, kind: Callable[[Layer], bool], shown: tuple[int, int], more: str = ""
) -> None:
    """Draw the choice of a head of this kind of layer."""
    controls.control(
        st.selectbox, label, field, shown=f"{shown[0]}.{shown[1]}", options=compute_linear.heads(view, kind),
        format_func=head_name, width=150, reruns=("implied", "tabs"), help=more or None,
    )  # fmt: skip


def _softmax(view: View, head: tuple[int, int], linear: View) -> LinkedMap:
    one, h = view.trace.layers[head[0]], head[1]
    caption = figures.softmax_caption(one.weights_of(h), _name(view, head, linear))
    return _linked(caption, one.weights_of(h), one.allowed, "weight", **_keys_of(view, head), top=1.0)


def _implied(view: View, head: tuple[int, int], beside: View) -> tuple[LinkedMap, str]:
    """Return a linear head's map, and how it was checked."""
    one, found = view.trace.layers[head[0]], compute_linear.implied_of(view, head)
    taps = getattr(one.mixer, "taps", 1)
    caption = figures.implied_caption(found.weights, found.difference, taps, _name(view, head, beside))
    return _linked(caption, found.weights, one.allowed, "effective weight", **_keys_of(view, head)), caption.more


def _linked(
    caption: Caption,
    values: np.ndarray,
    allowed: np.ndarray,
    number: str,
    **more: Any,
) -> LinkedMap:
    return LinkedMap(values, allowed, caption.title, caption.note, caption.alt, number, **more)


def _name(view: View, head: tuple[int, int], other: View) -> str:
    """Name a head, with its model's name if another model's head is beside it."""
    model = "" if view.settings.model == other.settings.model else f"{view.settings.model_name} "
    return f"{model}L{head[0]} H{head[1]}"


def _lacks(view: View, what: str) -> str:
    return f"{view.settings.model_name} does not have {what}."


def _offered(view: View, what: str, checkpoint: str) -> None:
    """Say that a checkpoint's layer is drawn, which the selected model does not have."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            f"{escaped(view.settings.model_name)} has no {what}: that of the {SHIPPED[checkpoint]} checkpoint is "
            "drawn, on the same text."
        )
        offer(checkpoint, place="offer-implied")


# ---- tabs


@state.part("tabs", countable)
def tabs(view: View) -> None:
    """The open tab; the others are not computed."""
    tab = controls.tabs(view, "Look closer")
    if tab in COSTS or drawable(view):
        TABS[tab](view)


def _with(view: View, kind: Callable[[Layer], bool], what: str, checkpoint: str) -> View | None:
    """Return the view to draw: the model's own if it has such a layer; otherwise say so and offer the checkpoint."""
    if compute_linear.has(view, kind):
        return view
    offer(checkpoint, why=f"{view.settings.model_name} has no layer with {what}.")
    return None


def _linear(view: View) -> View | None:
    """Return the view whose linear head is drawn, as above the tabs; say so if there is none."""
    linear = compute_linear.shown_with(view, is_linear, HYBRID)
    return linear or _with(view, is_linear, "a state", HYBRID)


def _state(view: View) -> None:
    if not (linear := _linear(view)):
        return
    head = compute_linear.linear_head_of(linear)
    written, hue = compute_linear.written_of(linear, head), _hue(linear, head)
    legend = [[kv_colour(*hue), linear.config.layers[head[0]].mixer.keys_read(hue[0])]]
    kept = figures.kept_text(linear.config, head[0])
    caption = figures.state_caption(written, view.labels, _name(linear, head, view), kept)
    state_player(written, view.labels, compute_linear.after(view), hue, caption, "state-player", legend)
    with charts.beside("state-player"):
        charts.on_demand("Numbers and downloads", {"state-numbers": lambda: caption})


def _keys_of(view: View, head: tuple[int, int]) -> dict[str, Any]:
    """Return the hue of the keys that a head reads, and their name."""
    hue = _hue(view, head)
    return {"hue": hue, "read": view.config.layers[head[0]].mixer.keys_read(hue[0])}


def _hue(view: View, head: tuple[int, int]) -> tuple[int, int]:
    """Return the KV head that a head reads, and the number of them in its layer."""
    mixer = view.config.layers[head[0]].mixer
    return mixer.kv_head_of[head[1]], mixer.n_kv_heads


def _remembers(view: View) -> None:
    if not (linear := _linear(view)):
        return
    head, n = compute_linear.linear_head_of(linear), len(view.labels)
    written, colour = compute_linear.written_of(linear, head), kv_colour(*_hue(linear, head))
    name, after = _name(linear, head, view), compute_linear.after(view)
    if n > 1:
        controls.control(
            st.slider, "Read the state after token", "after", shown=after, min_value=0, max_value=n - 1, width=420
        )
    charts.show(figures.recall(written, view.labels, after, name, colour), "recall")
    if drawing := figures.repeated(written, view.labels, name, colour):
        charts.show(drawing, "repeated")
    else:
        st.info("A single token has no second key to repeat. Type a longer text.")


def _indexer(view: View) -> None:
    if not _with(view, has_indexer, "an indexer", "sparse"):
        return
    layer, head = compute_linear.head_of(view, has_indexer, view.settings.softmax_head)
    found, n = compute_sparse.indexed_of(view, (layer, head)), len(view.ids)
    k, mixer = compute_sparse.keep(view, (layer, head)), view.config.layers[layer].mixer
    if n > 1:
        controls.control(
            st.slider, f"Keys kept per query, k (the layer keeps {mixer.top_k})", "keep", shown=k, min_value=1,
            max_value=n, width=420,
        )  # fmt: skip
    name, keys = _name(view, (layer, head), view), _keys_of(view, (layer, head))
    kept = found.rank < k
    captions = (
        sparse_figures.index_caption(layer, mixer.n_heads),
        sparse_figures.dense_caption(np.where(kept, found.dense, 0).sum(-1), k, name),
    )
    maps = [
        _linked(captions[0], found.index_scores, found.allowed, "index score"),
        _linked(captions[1], found.dense, found.allowed, "dense weight", **keys, kept=kept, top=1.0),
    ]
    linked_maps(maps, view.labels, "indexer-maps", (view.query, view.key))
    charts.show(sparse_figures.kept_by_k(found.errors, k, name, mixer.top_k or n), "kept-by-k")


def _sinks(view: View) -> None:
    if not _with(view, has_sinks, "learned sink logits", "sinks"):
        return
    layer, head = compute_sparse.sinking_head(view)
    found, mixer = compute_sparse.sunk_of(view, (layer, head)), view.config.layers[layer].mixer
    keys = _keys_of(view, (layer, head))
    captions = sparse_figures.sink_captions(
        found.share, found.first_tokens, compute_sparse.FIRST, _name(view, (layer, head), view), mixer.window
    )
    drawn = (found.with_logit, found.allowed), (found.first_tokens, found.allowed_first), (found.without, found.allowed)
    maps = [
        _linked(caption, weights, allowed, "weight", **keys, top=1.0)
        for caption, (weights, allowed) in zip(captions, drawn, strict=True)
    ]
    linked_maps(maps, view.labels, "sink-maps", (view.query, view.key))
    charts.show(sparse_figures.sink_shares(compute_sparse.sink_shares_of(view)), "sink-shares")


def _shared(view: View) -> None:
    name = view.settings.model_name
    charts.show(caches.sharing_layers(view.config, name), "sharing-layers")
    if all(layer.shares_cache_of is None for layer in view.config.layers):
        offer("shared")
    charts.show(caches.per_token(compute_linear.compared(view), name), "per-token")


def _context(view: View) -> None:
    compared, name = compute_linear.compared(view), view.settings.model_name
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(caches.against_context(compared, name, caches.MEMORY), "memory-of-context")
    with right:
        charts.show(caches.against_context(compared, name, caches.FLOPS), "flops-of-context")


COSTS = ("shared", "context")  # tabs that need no text
TABS = {
    "state": _state,
    "remembers": _remembers,
    "indexer": _indexer,
    "sinks": _sinks,
    "shared": _shared,
    "context": _context,
}
