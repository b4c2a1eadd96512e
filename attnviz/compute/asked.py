"""What a set may ask: what the lessons so far explain, and nothing that an earlier item of the route asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from attnviz.compute import lessons, routes
from attnviz.practice.drills import KINDS
from attnviz.practice.drills.sets import Limits, kinds_of_set
from attnviz.session.page import Page
from attnviz.session.settings import Settings

MISTAKE = "mistake_"  # begins the kind of a question for a mistake's line


def asked_before(s: Settings) -> frozenset[str]:
    """Return the kinds of drills, cards and mistakes that the earlier items of the open route ask; none outside."""
    of = routes.route(s.route, s.route_run)
    return _before(of.name, of.at(s.route_item), of.run) if of else frozenset()


def limits_of(s: Settings) -> Limits:
    """Return what the set of these settings may ask.

    In a lesson, kinds that it or a lesson before it explains, its own first: before it in the route, or in the list of
    lessons. In a route, kinds of the lessons before the item, first of those since the last set of the same day.
    """
    of = routes.route(s.route, s.route_run)
    return _limits(asked_before(s), s.lesson, *_lessons_before(of.name if of else "", of.at(s.route_item) if of else 0))


def _limits(without: frozenset[str], lesson: str, before: tuple[str, ...], latest: tuple[str, ...]) -> Limits:
    if not lesson:
        return Limits(without, frozenset(before), frozenset(latest))
    if not any(lesson in kind.lessons for kind in KINDS.values()):  # of a user's own lesson nothing is known
        return Limits(without)
    listed = list(lessons.lessons()[0])
    earlier = before or listed[: listed.index(lesson) if lesson in listed else 0]
    return Limits(without, frozenset((*earlier, lesson)), frozenset((lesson,)))


def _lessons_before(name: str, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lessons of a route before this item, and those of them since the last set of the same day."""
    of = routes.route(name)
    if of is None:
        return (), ()
    earlier = of.items[: number - 1]
    latest: list[str] = []
    for item in reversed(earlier):
        if item.day != of.item(number).day or _is_set(item.page, item.opened):
            break
        latest += [item.opened.lesson] * bool(item.opened.lesson)
    return of.lessons_before(number), tuple(latest)


def _is_set(page: Page, s: Settings) -> bool:
    return page.path == "practice" and page.open_tab(s.tab) == "drills"


def kind_of_mistake(name: str) -> str:
    """Return the kind of the question for a mistake's line, by the mistake's id."""
    return f"{MISTAKE}{name}"


@lru_cache(maxsize=256)  # more than all items of the routes
def _before(name: str, number: int, run: int) -> frozenset[str]:
    """Return what the items before this one, counted from 1, ask in a run."""
    of = routes.route(name, run)
    if of is None or number < 2:
        return frozenset()
    earlier, item = _before(name, number - 1, run), of.item(number - 1)
    before = _lessons_before(name, number - 1)

    def asked(page: Page, link: Mapping[str, str], s: Settings) -> set[str]:
        return _asked(page, link, s, _limits(earlier, s.lesson, *before))

    if lesson := lessons.lesson(item.opened.lesson):
        steps = [asked(step.page, step.link, lesson.settings(n, run)) for n, step in enumerate(lesson.steps, 1)]
        return earlier.union(*steps)
    return earlier | asked(item.page, item.link, item.opened)


def _asked(page: Page, link: Mapping[str, str], s: Settings, limits: Limits) -> set[str]:
    """Return what one link asks: a mistake, a card or a set."""
    if page.path == "mistakes":
        return {kind_of_mistake(s.mistake)}
    if page.path != "practice":
        return set()
    if _is_set(page, s):
        return {*kinds_of_set(s.subject, s.level, s.questions, s.question_set, limits)}
    return {link["card"]} if "card" in link else set()
