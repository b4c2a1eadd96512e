"""Routes through lessons and exercises, and the plan of a workshop: their files, and where an item opens."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from attnviz.compute import lessons
from attnviz.session.page import Page
from attnviz.session.progress import Progress
from attnviz.session.route import Route, noted, parse
from attnviz.session.settings import Settings

FOLDER = Path(__file__).parents[1] / "routes"
WORKSHOP = "workshop"


def routes() -> dict[str, Route]:
    """Return the routes by name, the shortest first."""
    return {name: _read(name) for name in (FOLDER / "order.txt").read_text(encoding="utf-8").split()}


def route(name: str) -> Route | None:
    """Return the route of this name, or None. The name may be any text of a link."""
    return routes().get(name)


def with_done_items(progress: Progress, today: str) -> Progress:
    """Return progress in which done items of the begun routes stay done, whatever is due again."""
    of = {name: noted(route, progress, today) for name, route in routes().items() if name in progress.routes}
    return replace(progress, routes={**progress.routes, **of})


def workshop() -> Route:
    """Return the plan of the workshop."""
    return _read(WORKSHOP)


@cache
def _read(name: str) -> Route:
    return parse(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8"), _minutes)


def _minutes(name: str) -> int:
    lesson = lessons.lesson(name)
    return lesson.minutes if lesson else 0


def place(of: Route, number: int, progress: Progress) -> tuple[Page, Settings]:
    """Return the page and the settings with which an item opens; a lesson at the step that was reached."""
    number = of.at(number)
    item = of.item(number)
    page, settings = item.page, item.opened
    if lesson := lessons.lesson(settings.lesson):
        kept = progress.lessons.get(lesson.name)
        at = settings.lesson_step if not kept or kept.done else kept.step
        page, settings = lesson.step(at).page, lesson.settings(at)
    return page, replace(settings, route=of.name, route_item=number)
