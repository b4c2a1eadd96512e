"""Margins with room for the labels of a chart's axes, which spare plotly.js one drawing of the chart.

With smaller ones, plotly.js draws the whole chart, measures its labels, and draws it again with wider margins. It still
does so if a label needs more than is estimated here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from attnviz.figures.chart import Chart, numbered
from attnviz.figures.label_width import label_width

# Pixels of labels in Streamlit's font at 12 pixels, and around them, as plotly.js measured them
BESIDE_TICKS, TITLE_BESIDE = 23, 28
TICKS_BELOW, WITH_TITLE_BELOW, TICKS_ABOVE, LEGEND_ABOVE = 33, 61, 31, 41
NUMBER = "100"  # as wide as most ticks that plotly.js chooses


def with_room(chart: Chart) -> Chart:
    """Return the chart with at least the margins that its labels need; itself if its margins are final."""
    layout, margin = chart.layout, chart.layout["margin"]
    if margin.get("autoexpand") is False:
        return chart
    room = {"l": 0, "t": 0, "b": 0}
    legend = layout.get("legend", {})
    if layout.get("showlegend", True) and legend.get("yanchor") == "bottom":
        room["t"] = LEGEND_ABOVE
    for name, axis in layout.items():
        if re.match("[xy]axis", name) and _is_labelled(axis):
            side = axis.get("side", "bottom" if name[0] == "x" else "left")[0]
            room[side] = max(room.get(side, 0), _room(chart, name, side))
    roomy = Chart()
    roomy.data, roomy.foot = chart.data, chart.foot
    roomy.layout = {**layout, "margin": margin | {side: max(margin[side], room[side]) for side in "ltb"}}
    return roomy


def _is_labelled(axis: dict) -> bool:
    return all(axis.get(shown, True) for shown in ("visible", "showticklabels", "automargin"))


def _room(chart: Chart, name: str, side: str) -> int:
    """Return the pixels that the labels of an axis take on this side of the plot."""
    axis = chart.layout[name]
    if side == "b":
        return WITH_TITLE_BELOW if "title" in axis else TICKS_BELOW
    if side == "t":
        return TICKS_ABOVE
    widest = max(map(label_width, axis.get("ticktext") or _names(chart, name) or [NUMBER]))
    return round(BESIDE_TICKS + widest + (TITLE_BESIDE if "title" in axis else 0))


def _names(chart: Chart, name: str) -> Sequence[str]:
    """Return the names that stand on a vertical axis in place of numbers; empty if there are none."""
    axis = numbered("y", int(name.removeprefix("yaxis") or 1))
    lists = (trace.get("y") for trace in chart.data if trace.get("yaxis", "y") == axis)
    return [y for ys in lists if isinstance(ys, list) for y in ys if isinstance(y, str)]  # arrays hold numbers
