"""What a route asks in the items before one: the sets and the mock interview of this item ask something else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from attnviz.compute import lessons, routes
from attnviz.practice.drills.sets import kinds_of_set
from attnviz.session.page import Page
from attnviz.session.settings import Settings


def asked_before(s: Settings) -> frozenset[str]:
    """Return the kinds of drills, cards and mistakes that the earlier items of the open route ask; none outside."""
    of = routes.route(s.route)
    return _before(of.name, of.at(s.route_item)) if of else frozenset()


def kind_of_mistake(name: str) -> str:
    """Return the kind of the question for a mistake's line, by the mistake's id."""
    return f"mistake_{name}"


@lru_cache(maxsize=256)  # more than all items of the routes
def _before(name: str, number: int) -> frozenset[str]:
    """Return what the items before this one, counted from 1, ask."""
    of = routes.route(name)
    if of is None or number < 2:
        return frozenset()
    earlier, item = _before(name, number - 1), of.item(number - 1)
    if lesson := lessons.lesson(item.opened.lesson):
        steps = [_asked(step.page, step.link, lesson.settings(n), earlier) for n, step in enumerate(lesson.steps, 1)]
        return earlier.union(*steps)
    return earlier | _asked(item.page, item.link, item.opened, earlier)


def _asked(page: Page, link: Mapping[str, str], s: Settings, earlier: frozenset[str]) -> set[str]:
    """Return what one link asks: a mistake, a card or a set. earlier: what was asked before it."""
    if page.path == "mistakes":
        return {kind_of_mistake(s.mistake)}
    if page.path != "practice":
        return set()
    if page.open_tab(s.tab) == "drills":
        return {*kinds_of_set(s.subject, s.level, s.questions, s.question_set, earlier)}
    return {link["card"]} if "card" in link else set()
