"""Scrolling to what an action has made appear, which can lie below the window or under the bar at its bottom."""

from __future__ import annotations

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

_component = declared("in_sight", "<span hidden></span>\n")


def in_sight(place: str, *shown: str) -> None:
    """Bring these containers to sight, all of them if they fit, once `place` has changed; not when a page opens.

    place: names what is on screen. shown: the keys of the containers, the first at the top; without any, nothing moves.
    """
    selectors = [f".st-key-{key}" for key in shown]
    _component(key="in-sight", data=as_bytes({"place": place, "shown": selectors}), height="content")
