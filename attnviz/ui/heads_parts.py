"""The parts of the heads page of which one at a time is looked at closer, in the order they are offered."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attnviz.analysis.heads import statistics
from attnviz.figures import head_detail, head_studies, heads
from attnviz.figures.theme import kv_colour
from attnviz.figures.words import count
from attnviz.ui import charts, heads_runs, state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.components.line_view import line_view
from attnviz.ui.frame import View
from attnviz.ui.selection import head_name, heads_of, key_of, layer_and_head, pinned, query_of


def number(view: View) -> None:
    """The weight of the query and key looked at, from two vectors to one number."""
    drawing = head_detail.number_explained(
        view.trace, view.labels, *layer_and_head(view), query_of(view), key_of(view)
    )
    charts.show(drawing, "number")


def stages(view: View) -> None:
    """The whole head at three stages."""
    charts.show(heads.stage_maps(view.trace, view.labels, *layer_and_head(view)), "stages")


def lines(view: View) -> None:
    """The selected head and the pinned ones as lines between two columns of tokens."""
    shown = list(dict.fromkeys([layer_and_head(view), *pinned(view)]))
    st.markdown(f"#### Lines as thick as the weight, for {', '.join(f'L{layer} H{head}' for layer, head in shown)}")
    st.caption(
        "Queries on the left, keys on the right; every query's lines share a weight of 1. Point at a token to see only "
        "its lines, click to keep them. The slider leaves out the weakest lines of every query."
    )
    _pins(view)
    layers, members = (list(axis) for axis in zip(*shown, strict=True))
    read = view.config.layer.kv_head_of
    line_view(
        view.trace.weights[layers, members], view.trace.allowed[layers], view.labels,
        [f"L{layer} H{head}" for layer, head in shown], [read[head] for head in members], view.config.n_kv_heads,
        key="lines",
    )  # fmt: skip


def _pins(view: View) -> None:
    there = heads_of(view)
    state.control(
        st.multiselect, "Pinned heads, looked at beside the selected one", "pinned", options=list(there),
        shown=[name for name in state.current().pinned if name in there], format_func=head_name, max_selections=8,
    )  # fmt: skip
    if state.current().pinned != view.settings.pinned:
        st.rerun()  # the grid marks them too


def does(view: View) -> None:
    """Statistics of all heads on this text, and what the selected head's role rests on."""
    layer, head = layer_and_head(view)
    found = statistics(np.asarray(view.trace.weights, np.float64))
    for column, name in zip(st.columns(3), head_studies.STATISTICS, strict=True):
        with column:
            drawing = head_studies.statistic_map(found, name, len(view.labels), layer, head)
            charts.show(drawing, f"statistic-{name.replace('_', '-')}")
    scores, role = heads_runs.scores_of(view.settings), heads_runs.roles_of(view.settings)[layer][head]
    colour = kv_colour(view.config.layer.kv_head_of[head], view.config.n_kv_heads)
    charts.show(head_studies.role_scores(scores, role, layer, head, colour), "role")


def masks(view: View) -> None:
    """One layer under five masks; a click puts a mask in force for the whole page."""
    layer, head = layer_and_head(view)
    with st.container(horizontal=True):
        state.control(st.number_input, "Window, in tokens", "mask_window", min_value=1, max_value=128)
        state.control(st.number_input, "First tokens kept behind it", "mask_sinks", min_value=1, max_value=16)
        state.control(st.number_input, "Padding in front, in tokens", "mask_padding", min_value=1, max_value=127)
    offered = heads_runs.masks_of(state.current())
    found = heads_runs.masked_of(state.current(), view.ids, layer)
    st.markdown(f"#### Layer {layer} under {len(offered)} masks{_mask_losses(offered, found.losses)}")
    st.caption(
        f"The same model and the first {count(found.weights.shape[-1], 'token')} of the text, one line a mask. What is "
        "masked gets no weight, and what a query may still see sums to 1; a query that may see nothing has none. "
        "**Click a map to put its mask in force for the whole page.**"
    )
    in_force = [mask.in_force(state.current()) for mask in offered]
    head_grid(
        found.weights, found.allowed, view.labels[: found.weights.shape[-1]], view.config.layer.kv_head_of,
        key="masks", selected=(in_force.index(True) if any(in_force) else 0, head), on_select=_take_mask,
        row_names=[mask.name for mask in offered],
    )  # fmt: skip
    if not any(in_force):
        st.caption("The mask in force is another one: see “How it runs” on the left.")
    if any(getattr(state.current(), name) != getattr(view.settings, name) for name in offered[0].fields()):
        st.rerun()  # the grid and the sidebar follow


def _take_mask(row: int, head: int) -> None:
    state.change(head=head, **heads_runs.masks_of(state.current())[row].fields())


def _mask_losses(offered: list[heads_runs.Mask], losses: list[float]) -> str:
    """What the first three masks make of the loss, in a title."""
    if not losses:
        return ""
    said = [f"{mask.name.lower()} {loss:.2f}" for mask, loss in zip(offered[:3], losses, strict=False)]
    return f": {'; '.join(said)} nats a token"
