"""Pictures of rectangles to scale, side by side: one payload without plotly, for figures that follow a slider.

The data come from `attnviz.figures`; this module contains no logic of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.phrases import unbroken
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

_mount = declared("to_scale", '<div class="ts"></div>\n')


def to_scale(panels: list[dict], key: str, legend: Sequence[tuple[str, str]] = ()) -> None:
    """Draw the panels, such as those of `figures.groups.cache_panel`; they stack in a narrow window.

    legend: (colour, name) of each hue, for a saved picture.
    """
    texts = ("note", "line", "legend")
    whole = [panel | {name: unbroken(panel[name]) for name in texts} for panel in panels]
    _mount(key=key, data=as_bytes({"panels": whole, "legend": list(legend)}))
