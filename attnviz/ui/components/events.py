"""Validation of component events: a browser can send anything, at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st


def on_event(key: str, event: str, run: Callable[[object], None]) -> Callable[[], None]:
    """Return a callback for an event of the component with this key, which calls run(value sent by the browser).

    It does nothing if the component is no longer on the page: the user has left the page, and used the component while
    the next one was being drawn.
    """

    def callback() -> None:
        component = st.session_state.get(key)
        if component is not None:
            run(getattr(component, event))

    return callback


def within(sent: Any, least: int, most: tuple[int, ...]) -> tuple[int, ...]:
    """Return what a browser sent as integers from least to most, one for each of `most`; least for anything else."""
    try:
        numbers = [int(number) for number in sent]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != len(most):
        return (least,) * len(most)
    return tuple(min(max(number, least), limit) for number, limit in zip(numbers, most, strict=True))
