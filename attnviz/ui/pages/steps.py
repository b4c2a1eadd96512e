"""The Step by step page: the source that ran, what the model predicts, the residual stream, softmax in tiles."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from attnviz.compute import steps as compute_steps
from attnviz.compute.view import View
from attnviz.ui import state
from attnviz.ui.components.source_walk import source_walk
from attnviz.ui.headline import headline


def show() -> None:
    """The whole page."""
    top()
    parts()


@state.part("top")
def top(view: View) -> None:
    """What ran, and what is looked at in it."""
    st.markdown(f"{headline(view)} The source below is what ran; each marked line shows the tensor that it made.")
    if len(view.ids) > compute_steps.MAX_RECORDED:
        st.caption(f"The first {compute_steps.MAX_RECORDED} of {len(view.ids)} tokens are recorded on this page.")


@state.part("parts")
def parts(view: View) -> None:
    """The open part, and what is looked at in it; the others are not computed."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        tab = state.tabs(view, "Show", quiet=True)
        _selection(view)
    PARTS[tab](view)


def _selection(view: View) -> None:
    layer, head = view.layer_and_head
    n = min(len(view.labels), compute_steps.MAX_RECORDED)
    _choose("Layer", "layer", layer, range(view.config.n_layers), lambda i: f"Layer {i}", 120)
    _choose("Head", "head", head, range(view.config.n_heads), lambda i: f"Head {i}", 120)
    _choose("Query token", "query", min(view.query, n - 1), range(n), lambda i: f"query {i} {view.labels[i]}", 190)
    _choose("Key token", "key", min(view.key, n - 1), range(n), lambda i: f"key {i} {view.labels[i]}", 190)


def _choose(label: str, field: str, shown: int, options: range, written: Callable[[int], str], width: int) -> None:
    state.control(
        st.selectbox, label, field, shown=shown, options=options, format_func=written, width=width,
        label_visibility="collapsed",
    )  # fmt: skip


def _walk(view: View) -> None:
    walk = compute_steps.walk_of(view)
    source_walk(
        walk, view.labels, view.config.n_kv_heads, key="source-walk",
        at=compute_steps.stop_of(walk, view.settings.step), on_step=_take_step, on_entry=_take_entry,
    )  # fmt: skip


def _take_step(step: int) -> None:
    """The browser shows the step already: only the address and the links follow it."""
    state.change(step=step)
    state.rerun(state.LINKS)


def _take_entry(step: int, row: tuple[int, bool], column: tuple[int, bool]) -> None:
    """Rows and columns that are tokens are the query and the key of all pages."""
    chosen = {"step": step}
    if row[1]:
        chosen["query"] = row[0]
    chosen["key" if column[1] else "column"] = column[0]
    state.change(**chosen)
    state.rerun("parts")


PARTS = {"walk": _walk}
