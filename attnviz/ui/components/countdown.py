"""The time that is left, counted down in the browser: the server hears of it once, when it is up."""

from __future__ import annotations

from collections.abc import Callable

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

_mount = declared("countdown", '<p class="cd" role="timer"><b></b> left</p>\n')


def countdown(seconds: float, *, key: str, on_up: Callable[[], None]) -> None:
    """Show the seconds that are left as minutes and seconds; on_up() runs when the browser has counted them down."""
    _mount(key=key, data=as_bytes({"seconds": seconds}), on_up_change=on_event(key, "up", lambda _: on_up()))
