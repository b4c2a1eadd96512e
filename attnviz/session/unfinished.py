"""What a person has begun and not finished, as a browser keeps it: a mock interview, a set, a spoken question.

One of each kind is kept. Of two, the one that was begun later stays; of two states of one, the one that changed more
often. What was ended stays as a mark without content, so that another tab cannot bring it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from attnviz.phrases import count
from attnviz.session import stored

VERSION = 1  # of what is kept; of another one, only that it was begun is read
MAX_BYTES = 16_000  # of one, as JSON
MAX_ASKED = 64  # questions
MAX_GIVEN = 200  # characters of an answer; longer ones cannot be read and are asked for again
MOCK, SET, ALOUD = "interview", "set", "aloud"  # kinds


@dataclass(frozen=True)
class Unfinished:
    """One of them. The questions are kept by their ids, from which the same ones are built again.

    turn: how many of its kind were begun before it, which orders those of one second. edits: how often it changed.
    ended: finished, or dropped.
    of: "interview", "set", "missed" (questions repeated, a kind of set) or "aloud".
    link: the settings that name it and where it was begun, as in an address.
    asked: ids of the questions. check: a hash of their texts and right answers, to see that they are still the same.
    given, stamps: the answers, and after how many seconds each was given; fewer stamps where the end came before.
    seconds: the time limit, 0 for none. spent: seconds used so far, also on the question that is open.
    answered: the question on screen has its answer. again: id of a repeated question on screen, with its answer.
    """

    id: str
    turn: int = 0
    began: str = ""
    of: str = SET
    edits: int = 0
    ended: bool = False
    version: int = VERSION
    link: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    check: str = ""
    given: tuple[str, ...] = ()
    stamps: tuple[float, ...] = ()
    seconds: int = 0
    spent: float = 0.0
    answered: bool = False
    again: str = ""
    again_given: str = ""

    @property
    def kind(self) -> str:
        """The kind of which one is kept."""
        return self.of if self.of in (MOCK, ALOUD) else SET

    @property
    def at(self) -> int:
        """Index of the question on screen."""
        return len(self.given) - (self.answered and not self.again)

    @property
    def is_through(self) -> bool:
        """Whether all questions are answered, or it was stopped: its score card is open."""
        return self.at >= len(self.asked)

    @property
    def goes_on(self) -> bool:
        """Whether there is something left to do in it that can be offered."""
        return not self.ended and self.kind != ALOUD and (not self.is_through or self.has_points)

    @property
    def has_points(self) -> bool:
        """Whether it asks questions to answer aloud, whose points are ticked at the end."""
        return self.of == MOCK and bool(self.link.get("interview"))

    @property
    def is_consistent(self) -> bool:
        """Whether the parts fit together, in content that can be anything."""
        n_stamps, n_given, n_asked = map(len, (self.stamps, self.given, self.asked))
        return (
            (self.ended or self.version != VERSION or n_asked > 0)
            and n_stamps <= n_given <= n_asked <= MAX_ASKED
            and (n_stamps == n_given or n_given == n_asked)  # fewer: it was stopped
            and (not self.answered or n_given > 0 or bool(self.again))
            and (not self.again or n_given < n_asked)
            and [*self.stamps, self.spent] == sorted((*self.stamps, self.spent))
            and (not self.seconds or self.spent <= self.seconds)
            and len(json.dumps(asdict(self))) <= MAX_BYTES
        )

    def merged(self, other: Self) -> Unfinished:
        """Return the one of both that stays."""
        return max(self, other, key=_age)

    def closed(self) -> Unfinished:
        """Return the mark that it has ended."""
        return Unfinished(self.id, self.turn, self.began, self.of, self.edits + 1, ended=True)

    def with_spent(self, spent: float) -> Unfinished:
        """Return it with at least so many seconds used, and at most those of its limit."""
        most = float(self.seconds) if self.seconds else spent
        return replace(self, spent=max(self.spent, min(spent, most)))

    def said(self) -> str:
        """Name it and say how far it is: "the mock interview of 30 minutes: question 4 of 16, 21 minutes left"."""
        name = self.name
        if self.is_through:
            return f"{name}: tick what you said"
        place = f"question {self.at + 1} of {len(self.asked)}"
        minutes = round((self.seconds - self.spent) / 60)
        left = f"{count(minutes, 'minute')} left" if minutes else "less than a minute left"
        return f"{name}: {place}, {left}" if self.seconds else f"{name}: {place}"

    @property
    def name(self) -> str:
        """What it is: "the set of 3 questions"."""
        n = count(len(self.asked), "question")
        if self.of == MOCK:
            minutes = count(self.seconds // 60, "minute")
            return f"the mock interview {f'of {minutes}' if self.has_points else f'with {n} to compute'}"
        return f"the {n} that you missed" if self.of == "missed" else f"the set of {n}"

    @property
    def lost(self) -> str:
        """What is lost with it, and what stays."""
        if self.is_through:
            return "Its score card stays. The points that you have not ticked count as not said."
        return f"Its answers so far {'do not count' if self.of == MOCK else 'stay counted'}."


def _age(kept: Unfinished) -> tuple[str, int, str, bool, int, str]:
    """Order by when it was begun: a session that its browser has told nothing yet counts from turn 0."""
    return kept.began, kept.turn, kept.id, kept.ended, kept.edits, json.dumps(asdict(kept), sort_keys=True)


# ---- what a browser holds: it can be anything

_BEGUN = {
    "id": stored.name, "turn": stored.count, "began": stored.time, "of": stored.one_of(MOCK, SET, "missed", ALOUD),
    "edits": stored.count, "ended": stored.flag, "version": stored.count,
}  # fmt: skip
_CONTENT = {
    "link": stored.texts_by_name, "asked": stored.several(stored.text(100), MAX_ASKED), "check": stored.name,
    "given": stored.several(stored.text(MAX_GIVEN), MAX_ASKED), "stamps": stored.several(stored.seconds, MAX_ASKED),
    "seconds": stored.count, "spent": stored.seconds, "answered": stored.flag, "again": stored.text(100),
    "again_given": stored.text(MAX_GIVEN),
}  # fmt: skip


def read(written: Any) -> Unfinished | None:
    """Return what can be read. Of what was ended, and of another version, that is only that it was begun."""
    if isinstance(written, dict) and (written.get("ended") is True or written.get("version", VERSION) != VERSION):
        written = {name: value for name, value in written.items() if name in _BEGUN}
    found = stored.state(Unfinished, **_BEGUN, **_CONTENT)(written)
    return found if found and found.id and found.is_consistent else None
