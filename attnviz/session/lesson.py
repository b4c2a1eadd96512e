"""Lessons: Markdown files, parsed into steps. docs/lessons.md describes the format.

A step is a link into the app, a few sentences, the element to look at, and optionally a question with its answer.
Numbers in the text are placeholders, `{n_tokens}`, computed for the settings of the step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from urllib.parse import parse_qsl

from attnviz.checks import LineError
from attnviz.session.page import Page
from attnviz.session.pages import ELEMENTS, PAGES
from attnviz.session.pages.practice import DUE
from attnviz.session.settings import Settings

_PARTS = re.compile(  # braces in blocks and spans of code and of formulas stay
    r"```.*?```|\$\$.*?\$\$|(?P<ticks>`+)[^\n]*?(?P=ticks)|\$(?:[^$\n]|\n(?!\n))+\$|\{(?P<name>[^{}]*)\}", re.DOTALL
)
FIELDS = ("Link", "Look at", "Question", "Answer", "Optional")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # of a file, without its suffix: used in links
FOLDER = "ATTNVIZ_LESSONS"  # environment variable: a folder with the user's own lessons
RESERVED_IN_ROUTES = {"route", "route_item", "route_run", "only", "present"}  # settings that the app sets there itself
RESERVED = RESERVED_IN_ROUTES | {"lesson", "lesson_step"}  # settings that a step's link must not contain


class LessonError(LineError):
    """An error in the file of a lesson or route."""


@dataclass(frozen=True)
class Step:
    """One step; texts contain placeholders. target: key of the element to look at. line: line of its heading.

    optional: what its page asks need not be done for the lesson.
    """

    title: str
    page: Page
    link: Mapping[str, str]
    target: str
    text: str
    line: int
    question: str = ""
    answer: str = ""
    optional: bool = False

    def settings(self) -> Settings:
        """Return the settings of its link."""
        return Settings.from_link(self.link, self.page)[0].as_before()

    @property
    def asks(self) -> bool:
        """Whether its page asks something there that belongs to the lesson: a set of questions, a mistake, a task."""
        return not self.optional and asks(self.page, self.link)

    @property
    def drawing(self) -> str:
        """Key of the drawing to look at; "" if it is a control or there is nothing to look at."""
        return self.target if self.target and ELEMENTS[self.target].drawing else ""


@dataclass(frozen=True)
class Lesson:
    """One lesson. name: its file name without the suffix."""

    name: str
    title: str
    minutes: int
    about: str
    steps: tuple[Step, ...]

    def step(self, number: int) -> Step:
        """Return the step of this number, counted from 1; the last if there are fewer."""
        return self.steps[min(max(number, 1), len(self.steps)) - 1]

    def settings(self, number: int, run: int = 1) -> Settings:
        """Return the settings of this step, with the lesson and the step number set. run: of the open route."""
        at = min(max(number, 1), len(self.steps))
        own = self.step(at).settings()
        if self.step(at).asks:
            own = replace(own, question_set=seed_in(run, own.question_set))
        return replace(own, lesson=self.name, lesson_step=at)


def seed_in(run: int, seed: int) -> int:
    """Return the seed of a set or an interview in a route's run; in the first one, the one that is written."""
    if run == 1:
        return seed
    return int.from_bytes(blake2b(f"{seed}/{run}".encode(), digest_size=8).digest(), "big") % 10**6


def asks(page: Page, link: Mapping[str, str]) -> bool:
    """Check whether there is something to answer on this page, not only something to look at."""
    sets = page.path == "practice" and link.get("tab", "drills") in ("drills", "interview")
    return sets or comes_back(link) or bool({"mistake", "card", "task"} & link.keys())


def comes_back(link: Mapping[str, str]) -> bool:
    """Check whether a link asks what is due."""
    return DUE in (link.get("tab"), link.get("deck"))


def placeholder(written: str) -> tuple[str, dict[str, str]]:
    """Return a placeholder's name, and the settings for which it is computed where they differ from the link's.

    They are written as in a link: `{published_cache?preset=deepseek-v3}`.
    """
    name, _, query = written.partition("?")
    return name, dict(parse_qsl(query, keep_blank_values=True))


def placeholders(text: str) -> Iterator[str]:
    """Iterate over the names of the placeholders in a text."""
    return (placeholder(match["name"])[0] for match in _PARTS.finditer(text) if match["name"] is not None)


def replaced(text: str, value: Callable[[str], str]) -> str:
    """Replace each placeholder by the value of what is written in it."""
    return _PARTS.sub(lambda match: match[0] if match["name"] is None else value(match["name"]), text)


def parse(name: str, written: str, known: Container[str]) -> Lesson:
    """Parse a lesson. Raises LessonError. known: names of the placeholders that exist."""
    if not NAME.fullmatch(name):
        raise LessonError(1, f"the file name must be lower-case letters, digits and hyphens, not “{name[:40]}”")
    check_placeholders(written, known)
    lines = [(number, line.rstrip()) for number, line in enumerate(written.splitlines(), 1)]
    starts = [i for i, (_, line) in enumerate(lines) if line == "##" or line.startswith("## ")]
    title, minutes, about = _head(lines[: starts[0]] if starts else lines)
    if not starts:
        raise LessonError(max(len(lines), 1), "there is no step: a step begins with “## ” and its title")
    ends = [*starts[1:], len(lines)]
    return Lesson(
        name, title, minutes, about, tuple(_step(lines[a:b]) for a, b in zip(starts, ends, strict=True))
    )  # fmt: skip


Lines = list[tuple[int, str]]


def check_placeholders(written: str, known: Container[str]) -> None:
    """Raise a LessonError for a placeholder that is not known, or with settings that no link can have."""
    for match in _PARTS.finditer(written):
        if match["name"] is None:
            continue
        line = written.count("\n", 0, match.start()) + 1
        name, link = placeholder(match["name"])
        if name not in known:
            raise LessonError(line, f"“{{{match['name'][:40]}}}” is not a placeholder; docs/lessons.md lists them")
        if notices := Settings.from_link(link)[1]:
            raise LessonError(line, f"in “{{{match['name'][:60]}}}”: {notices[0]}")


def _head(lines: Lines) -> tuple[str, int, str]:
    """Parse the title, the minutes and the description."""
    if not lines or not lines[0][1].startswith("# "):
        raise LessonError(1, "the first line must be “# ” and the lesson's title")
    rest = [(number, line) for number, line in lines[1:] if line]
    if not rest or not rest[0][1].startswith("Minutes:"):
        raise LessonError(rest[0][0] if rest else 2, "“Minutes: ” and a whole number must follow the title")
    number, line = rest[0]
    minutes = line.removeprefix("Minutes:").strip()
    if not (minutes.isascii() and minutes.isdigit() and 0 < int(minutes[:4]) < 100):
        raise LessonError(number, f"minutes must be a whole number from 1 to 99, not “{minutes[:40]}”")
    return lines[0][1][2:].strip(), int(minutes), " ".join(line for _, line in rest[1:])


def _step(lines: Lines) -> Step:
    first, title = lines[0][0], lines[0][1][3:].strip()
    if not title:
        raise LessonError(first, "the step has no title")
    for number, line in lines:  # Streamlit shows such a formula as it is written
        if len(re.findall(r"(?<!\\)\$", line)) % 2:
            raise LessonError(number, "a formula between $ and $ must be on one line")
    fields, text = fields_of(lines[1:], FIELDS)
    if "Link" not in fields:
        raise LessonError(first, "the step has no “Link: ”, such as heads?layer=1&head=3")
    page, link = page_and_link(*fields["Link"])
    target = target_on(fields.get("Look at"), page, link)
    if not text:
        raise LessonError(first, "the step has no text")
    if ("Question" in fields) != ("Answer" in fields):
        here, missing = ("Question", "Answer") if "Question" in fields else ("Answer", "Question")
        raise LessonError(fields[here][0], f"“{here}: ” needs a “{missing}: ”")
    question, answer = (fields.get(name, (0, ""))[1] for name in ("Question", "Answer"))
    if (said := fields.get("Optional", (first, "yes")))[1] != "yes":
        raise LessonError(said[0], f"“Optional: ” can only be yes, not “{said[1][:40]}”")
    return Step(title, page, link, target, text, first, question, answer, "Optional" in fields)


def fields_of(lines: Lines, names: Container[str]) -> tuple[dict[str, tuple[int, str]], str]:
    """Parse the fields of these names, {name: (line, value)}, and the text. A field ends at the next blank line."""
    fields: dict[str, tuple[int, str]] = {}
    text: list[str] = []
    inside = ""
    for number, line in lines:
        name, colon, value = line.partition(":")
        if colon and name in names:
            if name in fields:
                raise LessonError(number, f"the step has two “{name}: ”")
            if not value.strip():
                raise LessonError(number, f"nothing follows “{name}:”")
            fields[name], inside = (number, value.strip()), name
        elif not line:
            inside = ""
            text.append("")
        elif inside:
            fields[inside] = fields[inside][0], f"{fields[inside][1]} {line.strip()}"
        else:
            text.append(line)
    return fields, "\n".join(text).strip()


def page_and_link(line: int, written: str) -> tuple[Page, dict[str, str]]:
    """Return the page that an address in this line opens, and its settings. Raises LessonError."""
    path, _, query = written.partition("?")
    path = "" if path == "/" else path
    if path not in PAGES:
        raise LessonError(line, f"the page must be one of {', '.join(p or '/' for p in PAGES)}, not “{path[:40]}”")
    link = dict(parse_qsl(query, keep_blank_values=True))
    if reserved := sorted(RESERVED & link.keys()):
        raise LessonError(line, f"a step's link must not contain “{reserved[0]}”")
    _, notices = Settings.from_link(link, PAGES[path])
    if notices:
        raise LessonError(line, notices[0])
    return PAGES[path], link


def target_on(field: tuple[int, str] | None, page: Page, link: Mapping[str, str]) -> str:
    """Return the key of the element to look at, (line, key), which the address has to show. Raises LessonError."""
    if field is None:
        return ""
    line, key = field
    available = [element.key for element in page.shown(link.get("tab", ""))]
    if key not in ELEMENTS:
        raise LessonError(line, f"the element must be one of {', '.join(available)}, not “{key[:40]}”")
    if key not in available:
        raise LessonError(line, f"the link does not show “{key}”; it shows {', '.join(available) or 'no element'}")
    return key
