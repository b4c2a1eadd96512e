"""The browser's local storage: sends what it holds and the session does not know, writes what the session has more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

KEY = "progress-store"

_component = declared("progress_store", "<span hidden></span>\n")


def progress_store(
    data: dict[str, Any],
    *,
    on_stored: Callable[[int, str | None, str, str, str], None],
    on_blocked: Callable[[], None],
    on_day: Callable[[str], None],
) -> None:
    """Mount the component.

    data: session, a random id; heard, the number of the last message taken; forgets, how often the item was deleted;
    text, what to write, or None; here, the ids of what runs in this tab; clock, the id of what has a time limit and
    the seconds left, or None; day, the date that the session has. on_day(its own date) runs where the browser has
    another one; on_blocked() runs where the browser refuses to store; for each message on_stored(its number, the item
    or None if it is gone, the ids that ran in this tab, an id and its seconds left, the browser's own date).
    """

    def take(sent: object) -> None:
        match sent:
            case {
                "number": int() as number,
                "text": str() | None as text,
                "here": str() as here,
                "left": str() as left,
                "day": str() as day,
            }:
                if 0 < number < 10**6:
                    on_stored(number, text, here, left, day)

    _component(
        key=KEY,
        data=as_bytes(data),
        on_stored_change=on_event(KEY, "stored", take),
        on_day_change=on_event(KEY, "day", lambda day: on_day(str(day))),
        on_blocked_change=on_event(KEY, "blocked", lambda _: on_blocked()),
        height="content",
    )
