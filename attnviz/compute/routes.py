"""Routes through lessons and exercises, and the plan of a workshop: their files, and where an item opens."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

from attnviz.compute import lessons
from attnviz.session.page import Page
from attnviz.session.progress import Progress
from attnviz.session.route import Item, Route, noted, parse
from attnviz.session.settings import Settings

FOLDER = Path(__file__).parents[1] / "routes"
WORKSHOP = "workshop"
NOTHING = Progress()
ANOTHER_ALOUD = "Say it with the timer running; then compare with the points."  # text of another card


def routes(progress: Progress = NOTHING) -> dict[str, Route]:
    """Return the routes by name, the shortest first, each in the run in which it is in this progress."""
    names = (FOLDER / "order.txt").read_text(encoding="utf-8").split()
    runs = {name: progress.routes[name].round if name in progress.routes else 1 for name in names}
    return {name: _in_run(name, max(run, 1)) for name, run in runs.items()}


def route(name: str, run: int = 1) -> Route | None:
    """Return a run of the route of this name, or None. The name may be any text of a link."""
    return _in_run(name, run) if name in routes() else None


def with_done_items(progress: Progress, today: str) -> Progress:
    """Return progress in which done items of the begun routes stay done, whatever is due again."""
    of = {name: noted(route, progress, today) for name, route in routes(progress).items() if name in progress.routes}
    return replace(progress, routes={**progress.routes, **of})


def workshop() -> Route:
    """Return the plan of the workshop."""
    return _read(WORKSHOP)


@cache
def _read(name: str) -> Route:
    return parse(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8"), _minutes)


@lru_cache(maxsize=64)
def _in_run(name: str, run: int) -> Route:
    of = _read(name).in_run(run)
    taken = {item.link["card"] for item in of.items if "card" in item.link}
    return of if run == 1 else replace(of, items=tuple(_other_card(item, run, taken) for item in of.items))


def _other_card(item: Item, run: int, taken: Collection[str]) -> Item:
    """Return an item with another card of the same lessons and level, as a later run asks it; itself if none fits."""
    if "card" not in item.link:
        return item
    from attnviz.compute import spoken  # imported late: it would delay a first run

    card = spoken.deck()[item.link["card"]]
    fit = [
        id for id, each in spoken.deck().items()
        if (each.lessons, each.level) == (card.lessons, card.level) and id not in taken
    ]  # fmt: skip
    names = [card.id, *fit]
    name = names[(run - 1) % len(names)]
    if name == card.id:
        return item
    title, text = f"Aloud: another question on “{spoken.SPOKEN[spoken.deck()[name].subject]}”", ANOTHER_ALOUD
    return replace(item, title=title, text=text, link={**item.link, "card": name}, written=item.title)


def _minutes(name: str) -> int:
    lesson = lessons.lesson(name)
    return lesson.minutes if lesson else 0


def place(of: Route, number: int, progress: Progress, *, end: bool = False) -> tuple[Page, Settings]:
    """Return the page and the settings with which an item opens; a lesson at the step that was reached.

    end: a lesson that is done at its last step, as one comes back to it from the item after it.
    """
    number = of.at(number)
    item = of.item(number)
    page, settings = item.page, item.opened
    if lesson := lessons.lesson(settings.lesson):
        kept = progress.lessons.get(lesson.name)
        first = len(lesson.steps) if end and kept and kept.done else settings.lesson_step
        at = first if not kept or kept.done else kept.step
        page, settings = lesson.step(at).page, lesson.settings(at, of.run)
    return page, replace(settings, route=of.name, route_item=number, route_run=of.run)
