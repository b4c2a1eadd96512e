"""What runs in this tab of the browser, as the browser remembers it beside the progress.

A session ends when its page is loaded again. The tab remembers the ids of what runs in it, so that it stands there
again, and only there; and once per second how much time is left, which then does not go on while the page is closed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import streamlit as st

from attnviz.session.unfinished import Unfinished

_IDS, _NOTED, _CLOCK = "tab runs", "tab noted", "tab clock"  # session keys; _CLOCK: an id, and when its time is up
MAX_CHARACTERS = 300  # of a message


def runs(kind: str) -> str:
    """Return the id of what runs here of a kind; "" if nothing does."""
    return str(_ids().get(kind, ""))


def begin(kind: str, id: str) -> None:
    _ids()[kind] = id


def end(kind: str) -> None:
    _ids().pop(kind, None)


def time_is_up(id: str, seconds: float) -> None:
    """Say in how many seconds the time of what runs here is up; inf if it has no limit."""
    st.session_state[_CLOCK] = (id, time.monotonic() + seconds)


def for_browser() -> dict[str, Any]:
    """Return what the tab has to remember."""
    id, end = st.session_state.get(_CLOCK, ("", math.inf))
    counts = id in _ids().values() and end < math.inf
    clock = [id, round(max(0.0, end - time.monotonic()), 1)] if counts else None
    return {"here": " ".join(sorted(_ids().values())), "clock": clock}


def take(here: str, left: str, kept: Mapping[str, Unfinished], *, first: bool) -> None:
    """Take what the tab remembers: ids, and an id with the seconds left. first: the session has just begun.

    What the person has begun before the browser could say anything is what runs here.
    """
    st.session_state[_NOTED] = left[:MAX_CHARACTERS]
    if first and not _ids():
        names = here[:MAX_CHARACTERS].split()
        st.session_state[_IDS] = {kind: each.id for kind, each in kept.items() if each.id in names and not each.ended}


def with_time(found: Unfinished) -> Unfinished:
    """Return it with the time that it has used: by the clock here, else as far as the browser has noted it."""
    id, end = st.session_state.get(_CLOCK, ("", math.inf))
    if id == found.id and runs(found.kind) == id:
        return found.with_spent(found.seconds - max(0.0, end - time.monotonic())) if end < math.inf else found
    id, _, left = st.session_state.get(_NOTED, "").partition(" ")
    try:
        seconds = float(left)
    except ValueError:
        return found
    return found.with_spent(found.seconds - seconds) if id == found.id and 0 <= seconds < math.inf else found


def _ids() -> dict[str, str]:
    return st.session_state.setdefault(_IDS, {})
