"""Tab of the Heads page: a head of a saved run beside one of another run or model, and their difference."""

from __future__ import annotations

import streamlit as st

from attnviz.compute import compared
from attnviz.compute.view import View, head_name
from attnviz.figures import head_values, heads
from attnviz.figures.drawing import escaped
from attnviz.figures.numbers import printed
from attnviz.phrases import count
from attnviz.ui import charts, controls

MAX_LISTED = 10  # heads in the table


def beside(view: View, other: View) -> None:
    """The selected head beside a head of another run, by default that in the same place; their difference."""
    (layer, head), heads_by_name = view.layer_and_head, other.heads
    same = f"{layer}.{head}"
    offered = (view.settings.other_head, same, *heads_by_name)
    chosen = next(name for name in offered if name in heads_by_name)
    controls.control(
        st.selectbox, "Its head", "other_head", options=list(heads_by_name), shown=chosen,
        format_func=lambda name: f"{head_name(name)}{' · the same place' * (name == same)}",
    )  # fmt: skip
    query = min(max(view.query, other.rows.start), other.rows.stop - 1)
    shown = (view, (layer, head), view.query), (other, heads_by_name[chosen], query)
    for i, (column, (each, at, row)) in enumerate(zip(st.columns(2, gap="large"), shown, strict=True)):
        with column:
            st.markdown(
                f"**{escaped(each.settings.model_name)}**: {count(len(each.ids), 'token')}{each.origin_after_name}"
            )
            drawing = heads.head_map(
                each.trace, each.labels, *at, scale=view.settings.colour, query=row, ground=st.context.theme.type,
                key_labels=each.key_labels if each.two_texts else None,
            )  # fmt: skip
            charts.show(drawing, f"model-{i}")
    if why := compared.why_not_subtracted(view, other):
        st.info(why)
        return
    _difference(view, other, (layer, head), heads_by_name[chosen])


def _difference(view: View, other: View, head: tuple[int, int], of_other: tuple[int, int]) -> None:
    found = compared.difference(view, other, head, of_other)
    names = tuple(
        f"{escaped(each.settings.model_name)} L{layer} H{h}" for each, (layer, h) in ((view, head), (other, of_other))
    )
    drawing = head_values.difference_map(
        found.first, found.second, found.allowed, view.labels, (names[0], names[1]),
        "The weights of the first minus those of the second, on the same tokens.", key_labels=view.key_labels,
    )  # fmt: skip
    left, right = st.columns([3, 2], gap="large")
    with left:
        charts.show(drawing, "models-difference")
    with right:
        layer, h, most = found.by_head[0]
        finding = f"Of the heads in the same place, L{layer} H{h} differs most: {printed(most)}"
        if not most:
            finding = f"{count(len(found.by_head), 'pair')} of heads in the same place: all equal"
        st.markdown(f"## {finding}")
        st.caption("The largest difference between two weights of the same query and key, in each pair of heads.")
        st.dataframe(
            {"head": [f"L{i} H{h}" for i, h, _ in found.by_head[:MAX_LISTED]],
             "largest difference": [round(apart, 4) for _, _, apart in found.by_head[:MAX_LISTED]]}, hide_index=True,
        )  # fmt: skip
