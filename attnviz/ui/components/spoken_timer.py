"""A timer for an answer that is said aloud, and a recording of it, both in the browser alone."""

from __future__ import annotations

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

_mount = declared("spoken_timer")


def spoken_timer(about: str, *, over: bool = False, key: str) -> None:
    """Show the timer; it begins anew when `about`, the question and which showing of it, changes.

    What is recorded stays in the page until then. Nothing is sent, not even the time. over: the points are shown, so
    that the timer stops; it may be started again.
    """
    _mount(key=key, data=as_bytes({"about": about, "over": over}))
