"""Bipartite diagram of query heads and KV heads as an SVG component; hovering over a head highlights its partners.

The data come from `attnviz.figures.groups.sharing`; this module contains no logic about attention.
"""

from __future__ import annotations

from collections.abc import Callable

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

HTML = (
    '<div class="gd"><div class="gd-picture"></div><p class="gd-kvs"></p><p class="gd-index"></p>'
    '<p class="gd-readout" aria-live="polite"></p></div>'
)

_mount = declared("group_diagram", HTML)


def group_diagram(data: dict, key: str, on_head: Callable[[int], None]) -> None:
    """Draw `data`; `on_head(head)` runs after a query head was clicked."""
    heads = list(range(len(data["queries"])))

    def chosen(sent: object) -> None:
        if sent in heads:  # the browser's value is not trusted
            on_head(int(sent))

    _mount(key=key, data=as_bytes(data), on_head_change=on_event(key, "head", chosen))
