"""Scrolling to what an action has made appear, which can lie below the window or under the bar at its bottom."""

from __future__ import annotations

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

_component = declared("in_sight", "<span hidden></span>\n")


def in_sight(place: str, *shown: str) -> None:
    """Bring these containers to sight, all of them if they fit, once `place` has changed; not when a page opens.

    place: names what is on screen. shown: the keys of the containers, the first at the top; without any, nothing moves.
    """
    _draw("in-sight", place, [f".st-key-{key}" for key in shown], opens=False)


def from_the_top(place: str) -> None:
    """Show the page from its top once `place` has changed: a page that was open keeps where it was scrolled to."""
    _draw("from-the-top", place, ["h1"], opens=True)


def _draw(key: str, place: str, shown: list[str], *, opens: bool) -> None:
    _component(key=key, data=as_bytes({"key": key, "place": place, "shown": shown, "opens": opens}), height="content")
