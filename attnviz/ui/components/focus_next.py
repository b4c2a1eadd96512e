"""Focus on the next control, where an action has removed the one that was pressed."""

from __future__ import annotations

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

_component = declared("focus_next", "<span hidden></span>\n")


def focus_next(place: str, best: list[str], others: list[str]) -> None:
    """Focus the first of these controls that is there, once `place` has changed and nothing has the focus.

    best, others: CSS selectors, with >>> before what is inside a component; the others are tried after a second.
    place: names what is on screen.
    """
    _component(key="focus-next", data=as_bytes({"place": place, "best": best, "others": others}), height="content")
