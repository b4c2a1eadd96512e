"""What a browser sends to a component: it can send anything, and at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st


def on_event(key: str, event: str, run: Callable[[object], None]) -> Callable[[], None]:
    """A callback for an event of the component with this key: run(what the browser sent).

    Nothing runs when the component is not on the page any more: somebody went to another page, and used this one while
    the other was being drawn.
    """

    def callback() -> None:
        component = st.session_state.get(key)
        if component is not None:
            run(getattr(component, event))

    return callback


def within(sent: Any, least: int, most: tuple[int, int]) -> tuple[int, int]:
    """The two whole numbers that a browser sent, each between least and its most; least for what are no two numbers."""
    try:
        first, second = (int(number) for number in sent)
    except (TypeError, ValueError, OverflowError):
        return least, least
    return min(max(first, least), most[0]), min(max(second, least), most[1])
