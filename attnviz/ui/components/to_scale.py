"""Pictures made of rectangles to scale, side by side: one message and no plotly, for what moves with a slider.

What is drawn comes from `attnviz.figures`; nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

_mount = declared("to_scale", '<div class="ts"></div>\n', "save_buttons")


def to_scale(panels: list[dict], key: str, legend: Sequence[tuple[str, str]] = ()) -> None:
    """Draw the panels, such as `figures.groups.cache_panel` gives; they stand below one another where it is narrow.

    legend: (colour, name) of each hue, for a saved picture.
    """
    _mount(key=key, data=as_bytes({"panels": panels, "legend": list(legend)}))
