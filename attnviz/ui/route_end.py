"""The end of a route: what was done and skipped, and what is still to be done, the first thing first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnviz.figures.drawing import escaped
from attnviz.phrases import count, day
from attnviz.ui import progress

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


def to_do(route: Route) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return what comes next as (label, key, page, settings), the most urgent first."""
    kept, today = progress.get(), progress.today().isoformat()
    found: list[tuple[str, str, str, dict[str, Any]]] = []
    if left := route.left(kept, today):
        found.append((f"Back to: {route.item(left[0]).title}", "skipped", "", {"route_item": left[0]}))
    if due := len(kept.due(today)):
        found.append((f"Answer what is due ({due})", "due", "practice", {"tab": "due", "card": ""}))
    if n := len(kept.missed.waiting):
        found.append((f"Questions that you missed ({n})", "missed", "practice", {"tab": "drills"}))
    return found


def _due() -> list[str]:
    """Say what is due today, and what more tomorrow: answers, and missed drills and mistakes."""
    from attnviz.compute import due  # imported late: it needs torch

    kept, today = progress.get(), progress.today().isoformat()
    now, later = due.counted(kept, today), due.counted_tomorrow(kept, today)
    return [f"{now}."] * bool(now) + [f"Due tomorrow{' as well' * bool(now)}: {later}."] * bool(later)
