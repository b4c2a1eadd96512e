"""Countdown that runs in the browser; the server gets one event, when the time is up."""

from __future__ import annotations

from collections.abc import Callable

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

_mount = declared("countdown", '<p class="cd" role="timer"><span></span>: <b></b> left</p>\n')


def countdown(seconds: float, *, label: str, asks: bool = False, key: str, on_up: Callable[[], None]) -> None:
    """Show the remaining time as minutes and seconds; on_up() runs when it reaches zero in the browser.

    label: what ends then. asks: while it is counted down, the browser asks before it closes the page or loads it again.
    """
    _mount(
        key=key,
        data=as_bytes({"seconds": seconds, "label": label, "asks": asks}),
        on_up_change=on_event(key, "up", lambda _: on_up()),
    )
