"""Routes: Markdown files, each a list of what to do in what order, with times. docs/lessons.md describes the format.

An item is a link into the app, minutes, and a sentence. Whether it is done follows from the person's progress: a lesson
read to its end, a mistake answered, a spoken question graded, a task passed, a set or a mock interview ended. "Next"
leaves an item that is not done as skipped; one with nothing to answer is done by it.

A route that is begun again is another run: other questions and mistakes, and nothing of an earlier run counts as done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import parse_qsl

from attnviz.exercises import DRILL, MISTAKE
from attnviz.session.lesson import (
    NAME,
    RESERVED_IN_ROUTES,
    LessonError,
    asks,
    comes_back,
    fields_of,
    seed_in,
    target_on,
)
from attnviz.session.page import Page
from attnviz.session.pages import PAGES
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.progress import Progress, RouteState
from attnviz.session.settings import Settings

TODAY = "interview-today"  # the route that is offered on the day of the interview
FIELDS = ("Link", "Look at", "Minutes", "Day", "Later runs")
MINUTES_ALOUD, MINUTES_MISSED = 3, 2  # to answer a question aloud; a drill or a mistake that was missed
ANOTHER = "Find the line, and say what it does before you see it run."  # text of another mistake than the first run's


@dataclass(frozen=True)
class Item:
    """One item. day: of a route of several days, from 1; 0 otherwise. later: mistakes that later runs ask in turn.

    minutes: 0 if it asks what is due, which takes as long as that does: `minutes_with`.

    target: key of the element to look at, "" for none. written: the title in its file, where a run has another.
    """

    title: str
    page: Page
    link: Mapping[str, str]
    minutes: int
    text: str
    day: int = 0
    later: tuple[str, ...] = ()
    target: str = ""
    written: str = ""

    @property
    def id(self) -> str:
        """Its name in the progress: the title of its file in lower case, with hyphens."""
        return re.sub(r"[^a-z0-9]+", "-", (self.written or self.title).lower()).strip("-")[:100]

    @cached_property
    def opened(self) -> Settings:
        """The settings of its link."""
        return Settings.from_link(self.link, self.page)[0].as_before()

    def in_run(self, run: int) -> Item:
        """Return it as a run of its route asks it, the first one as it is written: another mistake, other questions."""
        link, text = dict(self.link), self.text
        if run > 1 and self.later:
            names = (link["mistake"], *self.later)
            link["mistake"] = names[(run - 1) % len(names)]
            text = text if link["mistake"] == names[0] else ANOTHER
        if "question_set" in link:
            link["question_set"] = str(seed_in(run, int(link["question_set"])))
        return replace(self, link=link, text=text)

    def minutes_with(self, due: Collection[str]) -> int:
        """Return the minutes that it takes with these ids due: if it asks what is due, those of the answers to it."""
        if not self.comes_back:
            return self.minutes
        return sum(MINUTES_MISSED if id.startswith((DRILL, MISTAKE)) else MINUTES_ALOUD for id in due)

    def is_done(self, progress: Progress, of: RouteState, today: str) -> bool:
        """Check whether it is done. of: the state of its route; today: an ISO date."""
        s, tab = self.opened, self.link.get("tab", "")
        if self.id in of.done:
            return True
        if tab == "interview":
            return any(mock["at"] >= of.began for mock in progress.mocks)
        if "mistake" in self.link:
            found = progress.mistakes.get(s.mistake)
            return bool(found and found.predicted and (of.round == 1 or found.predicted >= of.began))
        if of.round > 1:  # what an earlier run did shows in the same places
            return False
        if s.lesson:
            return bool(s.lesson in progress.lessons and progress.lessons[s.lesson].done)
        if "card" in self.link:
            card = progress.cards.get(self.link["card"])
            return card is not None and card.comes_back(progress.interview_on(today)) > today
        return bool("task" in self.link and s.task in progress.tasks and progress.tasks[s.task].passed)

    @property
    def asks(self) -> bool:
        """Whether there is something to answer in it, not only something to look at."""
        return asks(self.page, self.link)

    @property
    def comes_back(self) -> bool:
        """Whether it asks what is due."""
        return comes_back(self.link)

    @property
    def fades(self) -> bool:
        """Whether what shows that it is done can go again: a card is due again, and only the last mocks are kept."""
        return "card" in self.link or self.link.get("tab") == "interview"


@dataclass(frozen=True)
class Route:
    """One route. name: its file name without the suffix. run: its items are those of this run.

    interview_in: days until the interview that its title names; 0 for none.
    """

    name: str
    title: str
    minutes: int
    about: str
    items: tuple[Item, ...]
    run: int = 1
    interview_in: int = 0

    def in_run(self, run: int) -> Route:
        """Return it with the items of a run, from 1."""
        return replace(self, items=tuple(item.in_run(run) for item in self.items), run=run)

    def item(self, number: int) -> Item:
        """Return the item of this number, counted from 1; the last if there are fewer."""
        return self.items[self.at(number) - 1]

    def at(self, number: int) -> int:
        """Return the number of that item."""
        return min(max(number, 1), len(self.items))

    def lessons_before(self, number: int) -> tuple[str, ...]:
        """Return the names of the lessons that the items before this one open, in turn."""
        return tuple(item.opened.lesson for item in self.items[: number - 1] if item.opened.lesson)

    def left(self, progress: Progress, today: str) -> list[int]:
        """Return the numbers of the items that are not done."""
        of = progress.routes.get(self.name, NOT_BEGUN)
        return [n for n, item in enumerate(self.items, 1) if not item.is_done(progress, of, today)]

    def skipped(self, progress: Progress, today: str) -> list[int]:
        """Return those of them that were skipped."""
        of = progress.routes.get(self.name, NOT_BEGUN)
        return [n for n in self.left(progress, today) if self.items[n - 1].id in of.skipped]

    def opens(self, progress: Progress, today: str) -> int:
        """Return the item with which it goes on: the first that is neither done nor skipped, else the first skipped."""
        left, skipped = self.left(progress, today), self.skipped(progress, today)
        return next((n for n in left if n not in skipped), left[0] if left else 1)

    def following(self, number: int, progress: Progress, today: str) -> int:
        """Return the first item after this one that is neither done nor skipped, or one before it.

        If there is none, the next skipped one after it; 0 at the end.
        """
        left, skipped = self.left(progress, today), self.skipped(progress, today)
        new = [n for n in left if n != number and n not in skipped]
        after = [n for n in new or skipped if n > number]
        return next(iter((*after, *new)), 0)

    def done_on(self, progress: Progress, today: str) -> str:
        """Return the day on which all was done, as an ISO date; "" before, and where the route was not begun."""
        of = progress.routes.get(self.name)
        return "" if of is None or self.left(progress, today) else of.through or of.at[:10]

    def minutes_left(self, progress: Progress, today: str, due: Collection[str]) -> int:
        """Return the minutes of the items that are not done. due: the ids of what is due on this day."""
        return sum(self.items[n - 1].minutes_with(due) for n in self.left(progress, today))

    def minutes_ahead(self, progress: Progress, today: str, due: Collection[str], *, again: bool) -> int:
        """Return the minutes of the items with which it goes on, or of all where it is begun again."""
        return sum(item.minutes_with(due) for item in self.items) if again else self.minutes_left(progress, today, due)

    def starts(self) -> list[int]:
        """Return the minute at which each item begins, from the start of its day."""
        begin = [0] * len(self.items)
        for n in range(1, len(self.items)):
            before = self.items[n - 1]
            begin[n] = begin[n - 1] + before.minutes if self.items[n].day == before.day else 0
        return begin


NOT_BEGUN = RouteState("9999-12-31T23:59:59Z", "")


def begun(route: Route, progress: Progress, now: str, *, again: bool = False) -> RouteState:
    """Return the state of a route that is opened. again: begun again, which is another round."""
    before = progress.routes.get(route.name)
    if before is None:
        return RouteState(now, now)
    if again:
        return RouteState(now, now, round=before.round + 1)
    return replace(before, at=now)


def noted(route: Route, progress: Progress, today: str) -> RouteState:
    """Return the state of a begun route in which items stay done whose trace can go, with the day it was through."""
    of = progress.routes[route.name]
    kept = {item.id for item in route.items if item.fades and item.is_done(progress, of, today)}
    through = of.through or ("" if route.left(progress, today) else today)
    return replace(of, done=tuple(sorted({*of.done, *kept})), through=through)


def parse(name: str, written: str, minutes_of: Callable[[str], int]) -> Route:
    """Parse a route. Raises LessonError. minutes_of: of a lesson, by its name; 0 if there is none."""
    if not NAME.fullmatch(name):
        raise LessonError(1, f"the file name must be lower-case letters, digits and hyphens, not “{name[:40]}”")
    lines = [(number, line.rstrip()) for number, line in enumerate(written.splitlines(), 1)]
    starts = [i for i, (_, line) in enumerate(lines) if line.startswith("## ")]
    if not starts or not lines[0][1].startswith("# "):
        raise LessonError(1, "a route begins with “# ” and its title, an item with “## ” and its own")
    head, about = fields_of(lines[1 : starts[0]], ("Minutes", "Interview in"))
    parts = zip(starts, [*starts[1:], len(lines)], strict=True)
    items = tuple(_item(lines[a:b], minutes_of) for a, b in parts)
    minutes, total = _number(head, "Minutes", 1, 0), sum(item.minutes for item in items)
    if minutes != total:
        raise LessonError(head["Minutes"][0] if head else 1, f"the items take {total} minutes, not {minutes}")
    if len({item.id for item in items}) < len(items):
        raise LessonError(1, "two items have one title")
    days = _number(head, "Interview in", 1, 0)
    return Route(name, lines[0][1][2:].strip(), minutes, about, items, interview_in=days)


def _item(lines: list[tuple[int, str]], minutes_of: Callable[[str], int]) -> Item:
    first, title = lines[0][0], lines[0][1][3:].strip()
    fields, text = fields_of(lines[1:], FIELDS)
    if "Link" not in fields:
        raise LessonError(first, "the item has no “Link: ”")
    line, written = fields["Link"]
    path, _, query = written.partition("?")
    link = dict(parse_qsl(query, keep_blank_values=True))
    if path.strip("/") not in PAGES or RESERVED_IN_ROUTES & link.keys():
        raise LessonError(line, f"“{written[:60]}” is not a link of an item")
    page = PAGES[path.strip("/")]
    if notices := Settings.from_link(link, page)[1]:
        raise LessonError(line, notices[0])
    if comes_back(link) and "Minutes" in fields:
        raise LessonError(fields["Minutes"][0], "what comes back takes as long as what is due then: no “Minutes: ”")
    minutes = 0 if comes_back(link) else _number(fields, "Minutes", first, minutes_of(link.get("lesson", "")))
    line, names = fields.get("Later runs", (first, ""))
    later = tuple(each.strip() for each in names.split(",") if each.strip())
    if unknown := [each for each in later if each not in MISTAKES or "mistake" not in link]:
        raise LessonError(line, f"“{unknown[0][:40]}” is not another mistake of this item")
    target = target_on(fields.get("Look at"), page, link)
    return Item(title, page, link, minutes, text, _number(fields, "Day", first, 0), later, target)


def _number(fields: Mapping[str, tuple[int, str]], name: str, first: int, otherwise: int) -> int:
    line, written = fields.get(name, (first, str(otherwise)))
    if not (written.isascii() and written.isdigit() and int(written[:4]) < 1000) or (
        name == "Minutes" and written == "0"
    ):
        raise LessonError(line, f"“{name}: ” must be a whole number, not “{written[:40]}”")
    return int(written)
