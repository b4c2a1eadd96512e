"""The parts of the heads page of which one at a time is looked at closer, in the order they are offered."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attnviz.analysis.heads import statistics
from attnviz.figures import head_detail, head_studies, heads
from attnviz.figures.theme import kv_colour
from attnviz.ui import charts, heads_runs, state
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
