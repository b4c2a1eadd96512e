"""Lessons: Markdown files, read into steps. docs/lessons.md says how one is written.

A step is a link into the app, a few sentences, the element to look at, and at times a question with its answer.
Numbers in the text are placeholders, `{n_tokens}`, which are computed for the settings of the step.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from attnviz.session.elements import ELEMENTS, on_page
from attnviz.session.pages import PAGES, Page
from attnviz.session.settings import Settings

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
FIELDS = ("Link", "Look at", "Question", "Answer")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # of a file: it stands in links
OF_THE_APP = {"lesson", "lesson_step", "only", "present"}  # what a step's link does not say


class LessonError(ValueError):
    """Why a file is no lesson: the line, counted from 1, and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


@dataclass(frozen=True)
class Step:
    """One step; texts with their placeholders. target: the key of the element to look at. line: where it begins."""

    title: str
    page: Page
    link: Mapping[str, str]
    target: str
    text: str
    line: int
    question: str = ""
    answer: str = ""

    def settings(self) -> Settings:
        """The settings that its link opens."""
        return Settings.from_link(self.link, self.page)[0]


@dataclass(frozen=True)
class Lesson:
    """One lesson. name: its file's, without the ending."""

    name: str
    title: str
    minutes: int
    about: str
    steps: tuple[Step, ...]

    def step(self, number: int) -> Step:
        """The step of this number, counted from 1; the last where there are fewer."""
        return self.steps[min(max(number, 1), len(self.steps)) - 1]

    def settings(self, number: int) -> Settings:
        """The settings that this step opens, with the lesson in them."""
        at = min(max(number, 1), len(self.steps))
        return replace(self.step(at).settings(), lesson=self.name, lesson_step=at)


def placeholders(text: str) -> Iterator[str]:
    """The names of what is computed for a text."""
    return (match[1] for match in PLACEHOLDER.finditer(text))


def parse(name: str, written: str, known: Container[str]) -> Lesson:
    """Read a lesson. LessonError says line and reason for what does not parse. known: names of placeholders."""
    if not NAME.fullmatch(name):
        raise LessonError(1, f"the file's name must be small letters, digits and hyphens, not “{name[:40]}”")
    lines = [(number, line.rstrip()) for number, line in enumerate(written.splitlines(), 1)]
    _check_placeholders(lines, known)
    starts = [i for i, (_, line) in enumerate(lines) if line == "##" or line.startswith("## ")]
    title, minutes, about = _head(lines[: starts[0]] if starts else lines)
    if not starts:
        raise LessonError(max(len(lines), 1), "there is no step: a step begins with “## ” and its title")
    ends = [*starts[1:], len(lines)]
    return Lesson(
        name, title, minutes, about, tuple(_step(lines[a:b]) for a, b in zip(starts, ends, strict=True))
    )  # fmt: skip


Lines = list[tuple[int, str]]


def _check_placeholders(lines: Lines, known: Container[str]) -> None:
    for number, line in lines:
        for name in placeholders(line):
            if name not in known:
                raise LessonError(number, f"“{{{name[:40]}}}” is no placeholder: docs/lessons.md lists them")


def _head(lines: Lines) -> tuple[str, int, str]:
    """The title, the minutes, and what the lesson is about."""
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
    found, text = _fields(lines[1:])
    if "Link" not in found:
        raise LessonError(first, "the step has no “Link: ”, such as heads?layer=1&head=3")
    page, link = _link(*found["Link"])
    target = _target(found.get("Look at"), page, link)
    if not text:
        raise LessonError(first, "the step has no text")
    if ("Question" in found) != ("Answer" in found):
        here, missing = ("Question", "Answer") if "Question" in found else ("Answer", "Question")
        raise LessonError(found[here][0], f"there is a “{here}: ” without “{missing}: ”")
    question, answer = (found.get(name, (0, ""))[1] for name in ("Question", "Answer"))
    return Step(title, page, link, target, text, first, question, answer)


def _fields(lines: Lines) -> tuple[dict[str, tuple[int, str]], str]:
    """The fields, {name: (line, value)}, and the text. A field goes on to the next blank line."""
    found: dict[str, tuple[int, str]] = {}
    text: list[str] = []
    inside = ""
    for number, line in lines:
        name, colon, value = line.partition(":")
        if colon and name in FIELDS:
            if name in found:
                raise LessonError(number, f"the step has two “{name}: ”")
            if not value.strip():
                raise LessonError(number, f"nothing follows “{name}:”")
            found[name], inside = (number, value.strip()), name
        elif not line:
            inside = ""
            text.append("")
        elif inside:
            found[inside] = found[inside][0], f"{found[inside][1]} {line.strip()}"
        else:
            text.append(line)
    return found, "\n".join(text).strip()


def _link(line: int, written: str) -> tuple[Page, dict[str, str]]:
    path, _, query = written.partition("?")
    path = "" if path == "/" else path
    if path not in PAGES:
        raise LessonError(line, f"“{path[:40]}” is no page: one of {', '.join(p or '/' for p in PAGES)}")
    link = dict(parse_qsl(query, keep_blank_values=True))
    if unfit := sorted(OF_THE_APP & link.keys()):
        raise LessonError(line, f"a step's link does not say “{unfit[0]}”")
    _, notices = Settings.from_link(link, PAGES[path])
    if notices:
        raise LessonError(line, notices[0])
    return PAGES[path], link


def _target(field: tuple[int, str] | None, page: Page, link: Mapping[str, str]) -> str:
    if field is None:
        return ""
    line, key = field
    there = [element.key for element in on_page(page.path, link.get("tab", ""))]
    if key not in ELEMENTS:
        raise LessonError(line, f"“{key[:40]}” is no element of a page: one of {', '.join(there)}")
    if key not in there:
        raise LessonError(line, f"the link does not show “{key}”, but {', '.join(there) or 'no element'}")
    return key
