"""Marker of a page opened by a link to one of its tabs, which may be below the window: scrolls to them."""

from __future__ import annotations

from attnviz.ui.components.declared import declared

_component = declared("tab_mark", "<span hidden></span>\n")


def tab_mark() -> None:
    """Scroll to the page's tabs."""
    _component(key="tab-mark", height="content")
