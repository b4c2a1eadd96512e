"""A timer for an answer that is said aloud, and a recording of it, both in the browser alone."""

from __future__ import annotations

from collections.abc import Callable

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

MOST_SECONDS = 3600

_mount = declared("spoken_timer")


def spoken_timer(about: str, *, key: str, on_said: Callable[[int], None] | None = None) -> None:
    """Show the timer; it begins anew when `about`, the id of the question, changes.

    on_said(seconds) runs when it is stopped. What is recorded stays in the page until the question changes.
    """

    def take(sent: object) -> None:
        if on_said and isinstance(sent, int) and not isinstance(sent, bool) and 0 <= sent <= MOST_SECONDS:
            on_said(sent)

    _mount(key=key, data=as_bytes({"about": about}), on_said_change=on_event(key, "said", take))
