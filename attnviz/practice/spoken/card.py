"""A question to answer aloud, and its Markdown: docs/practice.md describes the format.

Texts contain placeholders for numbers, and a card an address; both are checked where they are known
(`attnviz/compute/spoken.py`), so a card keeps the lines on which they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from attnviz.checks import LineError

ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
ARXIV = re.compile(r"arXiv \d{4}\.\d{5}(, arXiv \d{4}\.\d{5})*")
SOURCES = "“arXiv 2104.09864”, “computed: …” or “derivation”"
FIELDS = ("Level", "Question", "Link", "Look at", "Lessons")  # one line each; the last two may be left out
BLOCKS = ("Points", "Answer", "Follow-ups")
N_POINTS, N_FOLLOW_UPS = (4, 7), (2, 3)


class CardError(LineError):
    """An error in a file of cards."""


@dataclass(frozen=True)
class Point:
    """One thing that a good answer says, and where it comes from: papers, a computation, a derivation."""

    text: str
    source: str


class FollowUp(NamedTuple):
    """What an interviewer asks next, its answer, and the id of the card that answers it at length, or ""."""

    question: str
    answer: str
    card: str = ""


@dataclass(frozen=True)
class Card:
    """One question to answer aloud. link, target: the address that shows it, and the element to look at there, or "".

    lines: the line of each field, of the heading under "". lessons: those that together explain it; none for some.
    """

    id: str
    subject: str
    level: int
    question: str
    link: str
    target: str
    points: tuple[Point, ...]
    answer: str
    follow_ups: tuple[FollowUp, ...]
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    lessons: tuple[str, ...] = ()

    def texts(self) -> Iterator[tuple[str, str]]:
        """Iterate over all texts with placeholders, each with the field that it belongs to."""
        yield "Question", self.question
        yield from (("Points", point.text) for point in self.points)
        yield "Answer", self.answer
        yield from (("Follow-ups", text) for each in self.follow_ups for text in (each.question, each.answer))


Lines = list[tuple[int, str]]


def parse(subject: str, written: str) -> list[Card]:
    """Parse the file of a subject. Raises CardError."""
    lines = [(number, line.rstrip()) for number, line in enumerate(written.splitlines(), 1)]
    if not lines or not lines[0][1].startswith("# "):
        raise CardError(1, "the first line must be “# ” and the subject")
    starts = [i for i, (_, line) in enumerate(lines) if line.startswith("## ")]
    if not starts:
        raise CardError(len(lines), "there is no card: a card begins with “## ” and its id")
    ends = [*starts[1:], len(lines)]
    cards = [_card(subject, lines[a:b]) for a, b in zip(starts, ends, strict=True)]
    seen: set[str] = set()
    for card in cards:
        if card.id in seen:
            raise CardError(card.lines[""], f"there is another card “{card.id}”")
        seen.add(card.id)
    return cards


def _card(subject: str, lines: Lines) -> Card:
    first, id = lines[0][0], lines[0][1][3:].strip()
    if not ID.fullmatch(id):
        raise CardError(first, f"an id has lower-case letters, digits and hyphens, not “{id[:40]}”")
    fields, blocks = _parts(lines[1:])
    for name in (*FIELDS, *BLOCKS):
        if name not in fields and name not in blocks and name not in ("Look at", "Lessons"):
            raise CardError(first, f"the card “{id}” has no “{name}:”")
    line, level = fields["Level"]
    if level not in ("1", "2", "3"):
        raise CardError(line, f"the level must be 1, 2 or 3, not “{level[:40]}”")
    where = {"": first} | {name: line for name, (line, _) in fields.items()}
    where |= {name: line for name, (line, _) in blocks.items()}
    return Card(
        id, subject, int(level), fields["Question"][1], fields["Link"][1], fields.get("Look at", (0, ""))[1],
        tuple(_point(*each) for each in _items("Points", *blocks["Points"], N_POINTS)),
        " ".join(text for _, text in blocks["Answer"][1]),
        tuple(_follow_up(*each) for each in _items("Follow-ups", *blocks["Follow-ups"], N_FOLLOW_UPS)),
        where, tuple(each.strip() for each in fields.get("Lessons", (0, ""))[1].split(",") if each.strip()),
    )  # fmt: skip


def _parts(lines: Lines) -> tuple[dict[str, tuple[int, str]], dict[str, tuple[int, Lines]]]:
    """Split a card into its fields, {name: (line, value)}, and its blocks, {name: (line, lines that are not empty)}."""
    fields: dict[str, tuple[int, str]] = {}
    blocks: dict[str, tuple[int, Lines]] = {}
    inside = ""
    for number, line in lines:
        name, colon, value = line.partition(":")
        if colon and name in (*FIELDS, *BLOCKS):
            if name in fields or name in blocks:
                raise CardError(number, f"the card has two “{name}:”")
            if (name in FIELDS) != bool(value.strip()):
                raise CardError(number, f"nothing follows “{name}:”" if name in FIELDS else f"“{name}:” stands alone")
            if name in FIELDS:
                fields[name], inside = (number, value.strip()), ""
            else:
                blocks[name], inside = (number, []), name
        elif line and not inside:
            raise CardError(number, f"“{line[:40]}” belongs to no field: {', '.join((*FIELDS, *BLOCKS))}")
        elif line:
            blocks[inside][1].append((number, line.strip()))
    if empty := [name for name, (_, within) in blocks.items() if not within]:
        raise CardError(blocks[empty[0]][0], f"nothing follows “{empty[0]}:”")
    return fields, blocks


def _items(name: str, line: int, lines: Lines, number: tuple[int, int]) -> Lines:
    """Return the items of a list, with the line on which each begins."""
    items: Lines = []
    for at, text in lines:
        if text.startswith("- "):
            items.append((at, text[2:].strip()))
        elif items:
            items[-1] = items[-1][0], f"{items[-1][1]} {text}"
        else:
            raise CardError(at, f"“{name}:” is a list, whose lines begin with “- ”")
    if not number[0] <= len(items) <= number[1]:
        raise CardError(line, f"“{name}:” must have {number[0]} to {number[1]} items, not {len(items)}")
    return items


def _point(line: int, text: str) -> Point:
    found = re.fullmatch(r"(.+[.!?”)]) \[([^\[\]]+)\]", text)
    if not found:
        raise CardError(line, f"a point is a sentence and its source in brackets: {SOURCES}")
    said, source = found.groups()
    if not (ARXIV.fullmatch(source) or source.startswith("computed: ") or source == "derivation"):
        raise CardError(line, f"a source is {SOURCES}, not “{source[:40]}”")
    return Point(said, source)


def _follow_up(line: int, text: str) -> FollowUp:
    found = re.fullmatch(rf"(.+?\?) (.+?)(?: \[({ID.pattern})\])?", text)
    if not found:
        raise CardError(line, "a follow-up is a question, with its question mark, and its answer")
    return FollowUp(found[1], found[2].strip(), found[3] or "")
