"""The missed drills, to be repeated at once: from Practice, the front page, and the end of a route."""

from __future__ import annotations

import time

from attnviz.compute import practice as compute
from attnviz.exercises import DRILL
from attnviz.phrases import count
from attnviz.ui import progress, state
from attnviz.ui.pages import practice_kept


def label() -> str:
    """Say what `repeat` begins; "" where nothing is missed but what is due today, which is counted and asked there."""
    n = len(_missed().last_missed)
    most = f"{compute.MAX_REPEATED} of " * (n > compute.MAX_REPEATED)
    return f"Repeat {most}{count(n, 'missed drill')}" if n else ""


def repeat() -> None:
    """Begin to repeat them, from a callback on any page."""
    state.change(tab="drills", card="")
    s = state.current()
    practice_kept.begin(compute.begin(s, "missed", _missed(), time.monotonic()))
    state.go("practice", s)


def _missed() -> compute.Progress:
    """Return the answers so far without the missed drills that are due today."""
    return compute.progress_of(progress.get()).without({id.removeprefix(DRILL) for id in progress.due()})
