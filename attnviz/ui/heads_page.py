"""The heads page from the top: all heads, the head looked at, and a closer look in one of several parts."""

from __future__ import annotations

import streamlit as st

from attnviz.analysis.heads import MEANING
from attnviz.figures import heads as figures
from attnviz.figures.words import count
from attnviz.ui import charts, heads_parts, heads_runs, state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.frame import View
from attnviz.ui.heads_runs import HeadsView
from attnviz.ui.selection import key_of, layer_and_head, pinned, query_of
from attnviz.ui.words import headline

PARTS = {
    "lines": ("Lines between tokens", heads_parts.lines),
    "side": ("Side by side", heads_parts.side_by_side),
    "number": ("One number explained", heads_parts.number),
    "stages": ("Score, mask, softmax", heads_parts.stages),
    "does": ("What each head does", heads_parts.does),
    "masks": ("Masks", heads_parts.masks),
    "family": ("MHA to MLA", heads_parts.family),
    "rollout": ("Rollout", heads_parts.rolled),
    "off": ("Switch heads off", heads_parts.off),
    "cross": ("A second text", heads_parts.crossed),
}


def show(view: View) -> None:
    """The whole page, of a text whose first tokens may be padding."""
    padded = HeadsView(view.settings)
    grid(padded)
    one_head(padded)


def grid(view: HeadsView) -> None:
    """All layers and heads at once; a click shows that head below."""
    padding = f" The first {count(view.n_padding, 'token')} are padding." if view.n_padding else ""
    st.markdown(f"{headline(view)}{padding} A row is a query and sums to 1; colour is the KV head it reads.")
    layer, head = layer_and_head(view)
    head_grid(
        view.trace.weights,
        view.trace.allowed,
        view.labels,
        view.config.layer.kv_head_of,
        key="head-grid",
        selected=(layer, head),
        on_select=heads_parts.select,
        kv_names=heads_parts.kv_names(view.config),
        pinned=pinned(view),
        roles=[[(r.name, round(r.score, 2)) for r in row] for row in heads_runs.roles_of(view.settings)],
    )


@st.fragment(key="head")
def one_head(view: HeadsView) -> None:
    """The selected head: its map, the way of one query from score to weight, what it does, and a closer look."""
    layer, head = layer_and_head(view)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _map(view, layer, head)
    with right:
        _role(view, layer, head)
        _query_and_key(view)
        charts.show(figures.score_path(view.trace, view.labels, layer, head, query_of(view)), "path")
    _closer(view)


def _map(view: HeadsView, layer: int, head: int) -> None:
    s = state.current()
    drawing = figures.head_map(
        view.trace, view.labels, layer, head,
        log=s.colour == "log", first_aside=s.sink_aside, query=query_of(view), key=key_of(view),
    )  # fmt: skip
    charts.show(drawing, "map")
    with st.container(horizontal=True, vertical_alignment="center"):
        state.control(st.segmented_control, "Colour scale", "colour", options=("linear", "log"), required=True)
        state.control(st.toggle, "Set the first token aside", "sink_aside")


def _role(view: HeadsView, layer: int, head: int) -> None:
    role = heads_runs.roles_of(view.settings)[layer][head]
    st.markdown(f"#### {role.name.capitalize()}, {role.score:.2f}")
    st.caption(f"This head {MEANING[role.name]}. Scored on random tokens said twice, not on this text.")


def _query_and_key(view: HeadsView) -> None:
    """The row and the column that are brought out, by their tokens."""
    n, key = len(view.labels), state.current().key
    with st.container(horizontal=True):
        state.control(
            st.selectbox, "Query token", "query", shown=query_of(view), options=range(n),
            format_func=lambda i: f"{i} {view.labels[i]}",
        )  # fmt: skip
        state.control(
            st.selectbox, "Key token", "key", shown=key if key < n else -1, options=[-1, *range(n)],
            format_func=lambda i: f"{i} {view.labels[i]}" if i >= 0 else "the one the query gives most",
        )  # fmt: skip


@st.fragment(key="heads-closer")
def _closer(view: HeadsView) -> None:
    """One of several parts, chosen by the person; the others are not computed."""
    st.divider()
    state.control(
        st.segmented_control, "Look closer", "heads_part", options=tuple(PARTS),
        format_func=lambda part: PARTS[part][0], required=True,
    )  # fmt: skip
    _, show = PARTS[state.current().heads_part]
    show(view)
