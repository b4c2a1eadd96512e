"""The parts of the heads page of which one at a time is looked at closer, in the order they are offered."""

from __future__ import annotations

from attnviz.figures import head_detail, heads
from attnviz.ui import charts
from attnviz.ui.frame import View
from attnviz.ui.selection import key_of, layer_and_head, query_of


def number(view: View) -> None:
    """The weight of the query and key looked at, from two vectors to one number."""
    drawing = head_detail.number_explained(
        view.trace, view.labels, *layer_and_head(view), query_of(view), key_of(view)
    )
    charts.show(drawing, "number")


def stages(view: View) -> None:
    """The whole head at three stages."""
    charts.show(heads.stage_maps(view.trace, view.labels, *layer_and_head(view)), "stages")
