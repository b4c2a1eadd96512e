"""The end of a route: what was done and skipped, and what is still to be done, the first thing first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attnviz.figures.drawing import escaped
from attnviz.phrases import count, day
from attnviz.ui import progress, state

if TYPE_CHECKING:
    from attnviz.session.route import Route


def said(route: Route) -> str:
    """Say what was done and skipped, and what is due."""
    kept, today = progress.get(), progress.today()
    on, left = route.done_on(kept, today.isoformat()), route.left(kept, today.isoformat())
    n, skipped = len(route.items), ", ".join(f"“{escaped(route.item(each).title)}”" for each in left)
    if not left:
        head, first = f"done on {day(on)}" if on else "done", f"All {count(n, 'item')} are done."
    else:
        head, first = f"{n - len(left)} done, {len(left)} skipped", f"Skipped: {skipped}."
    return " ".join([f"## {route.title}: {head}\n\n{first}", *_due()])


def to_do(route: Route) -> list[tuple[str, str, int | Callable[[], None]]]:
    """Return what comes next as (label, key, the number of an item or what opens it), the most urgent first."""
    from attnviz.ui.pages import practice_missed  # imported late: it needs torch

    kept, today = progress.get(), progress.today().isoformat()
    found: list[tuple[str, str, int | Callable[[], None]]] = []
    if left := route.left(kept, today):
        found.append((f"Back to: {route.item(left[0]).title}", "skipped", left[0]))
    if due := len(progress.due()):  # its end leads on to what else was missed
        found.append((f"What is due ({due})", "due", open_due))
    elif label := practice_missed.label():
        found.append((label, "missed", practice_missed.repeat))
    return found


def open_due() -> None:
    """Open what is due today, from a callback."""
    state.go("practice", state.changed(tab="due", card=""))


def _due() -> list[str]:
    """Say what is due today, and what more tomorrow: answers, and missed drills and mistakes."""
    from attnviz.compute import due  # imported late: it needs torch

    kept, today = progress.get(), progress.today().isoformat()
    now, later = due.counted(kept, today), due.counted_tomorrow(kept, today)
    return [f"{now}."] * bool(now) + [f"Due tomorrow{' as well' * bool(now)}: {later}."] * bool(later)
