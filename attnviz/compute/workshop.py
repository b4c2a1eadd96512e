"""The plan of a workshop, to print: each step with its address, and the answers apart from it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from attnviz.compute import lessons, placeholders, routes
from attnviz.compute.view import View
from attnviz.figures.drawing import escaped
from attnviz.mistakes import load_mistake
from attnviz.practice.drills import question_set
from attnviz.session.lesson import Lesson
from attnviz.session.pages import PAGES
from attnviz.session.route import Item, Route


@dataclass(frozen=True)
class Planned:
    """One step of a plan. address: after the app's own; asked: each question with its answer, in markdown."""

    title: str
    text: str
    address: str
    asked: tuple[tuple[str, str], ...] = ()


def plan() -> Route:
    """Return the workshop that ships, or the lecture of the user's own order.txt."""
    if not lessons.planned():
        return routes.workshop()
    found = lessons.lessons()[0].values()
    items = tuple(Item(each.title, PAGES[""], {"lesson": each.name}, each.minutes, each.about) for each in found)
    return Route("lecture", "Your lecture", sum(item.minutes for item in items), "", items)


def steps(item: Item) -> list[Planned]:
    """Return the steps of an item: those of a lesson, with their numbers, or the item itself."""
    if lesson := lessons.lesson(item.opened.lesson):
        return [_step(lesson, number) for number in range(1, len(lesson.steps) + 1)]
    link = urlencode(item.opened.to_link())  # names a mistake by its code
    address = f"{item.page.path}?{link}" if link else item.page.path
    return [Planned("", "", address, _asked(item))]


def _step(lesson: Lesson, number: int) -> Planned:
    step, view = lesson.step(number), View(lesson.settings(number))
    text, question, answer = (placeholders.filled(each, view) for each in (step.text, step.question, step.answer))
    address = "?" + urlencode({"lesson": lesson.name, "lesson_step": number})
    return Planned(f"{number}. {step.title}", text, address, ((question, answer),) if question else ())


def _asked(item: Item) -> tuple[tuple[str, str], ...]:
    """Return the questions of a mistake or of a set, with their answers."""
    s = item.opened
    if "mistake" in item.link:
        mistake = load_mistake(s.mistake)
        return ((mistake.question, f"{mistake.answers[mistake.answer]}. {mistake.title}."),)
    if item.page.path == "practice":
        asked = question_set(s.subject, s.level, s.questions, s.question_set)
        return tuple((escaped(each.text), escaped(f"{each.answer.shown()}. {each.because}")) for each in asked)
    return ()
