"""The missed drills, to be repeated at once: from Practice, the front page, and the end of a route."""

from __future__ import annotations

import time

from attnviz.compute import practice as compute
from attnviz.phrases import count
from attnviz.ui import progress, state
from attnviz.ui.pages import practice_kept


def label() -> str:
    """Say what `repeat` begins; "" where nothing is missed."""
    n = min(len(compute.progress_of(progress.get()).last_missed), compute.MAX_REPEATED)
    return f"Repeat {count(n, 'missed drill')}" if n else ""


def repeat() -> None:
    """Begin to repeat them, from a callback on any page."""
    state.change(tab="drills", card="")
    s = state.current()
    practice_kept.begin(compute.begin(s, "missed", compute.progress_of(progress.get()), time.monotonic()))
    state.go("practice", s)
