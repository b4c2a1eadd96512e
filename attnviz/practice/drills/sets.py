"""A set of questions that a link gives to everybody, what comes back, the score card, and progress as a file."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnviz.practice.drills.question import KINDS, SUBJECTS, Kind, Question, kinds_of, make

LARGEST_FILE = 20_000  # bytes
MOST_MISSED = 200
GAPS = (3, 8, 20)  # answers to other questions until a missed one comes back
_ID = re.compile(r"^([a-z_]{1,60}):(\d{1,10})$")


def question_set(subject: str, level: int, n: int, seed: int) -> list[Question]:
    """The questions of a set: the same for the same four. Every kind comes once before one comes again, and with all
    subjects each is asked in turn."""
    rng = random.Random(f"set/{subject}/{level}/{seed}")
    pools: list[list[Kind]] = []
    for each in [subject] if subject else list(SUBJECTS):
        pool = kinds_of(each, level)
        rng.shuffle(pool)
        pools.append(pool)
    rng.shuffle(pools)
    asked = []
    for i in range(n):
        pool = pools[i % len(pools)]
        asked.append(make(pool[i // len(pools) % len(pool)].name, rng.randrange(10**6)))
    return asked


@dataclass(frozen=True)
class Tally:
    """Right answers of a subject."""

    subject: str
    right: int
    asked: int


def score_card(questions: Sequence[Question], right: Sequence[bool]) -> list[Tally]:
    """Count by subject, in the subjects' order; those not asked are left out."""
    rows = []
    for subject in SUBJECTS:
        own = [ok for question, ok in zip(questions, right, strict=True) if question.subject == subject]
        if own:
            rows.append(Tally(subject, sum(own), len(own)))
    return rows


@dataclass(frozen=True)
class Missed:
    """A question that comes back. due: the number of answers after which it does; gap: which of GAPS it waits."""

    id: str
    gap: int
    due: int


@dataclass(frozen=True)
class Progress:
    """What was answered: right and asked by kind, and the questions that come back.

    A missed question comes back after GAPS[0] other answers; once right, after GAPS[1], then GAPS[2], then no more.
    """

    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    missed: tuple[Missed, ...] = ()

    @property
    def answered(self) -> int:
        """Answers so far."""
        return sum(asked for _, asked in self.counts.values())

    def after(self, question: Question, right: bool) -> Progress:
        """Count an answer."""
        done, asked = self.counts.get(question.kind, (0, 0))
        counts = {**self.counts, question.kind: (done + right, asked + 1)}
        before = next((each for each in self.missed if each.id == question.id), None)
        others = tuple(each for each in self.missed if each is not before)
        gap = 0 if not right else len(GAPS) if before is None else before.gap + 1
        if gap < len(GAPS):
            others = (*others, Missed(question.id, gap, self.answered + 1 + GAPS[gap]))[-MOST_MISSED:]
        return Progress(counts, others)

    def due(self) -> list[Question]:
        """The questions that come back now, the longest waiting first."""
        found = sorted((each for each in self.missed if each.due <= self.answered), key=lambda each: each.due)
        return [make(*_parts(each.id)) for each in found]

    def again(self, n: int) -> list[Question]:
        """At most n of the questions that come back, now or later, the first due first."""
        return [make(*_parts(each.id)) for each in sorted(self.missed, key=lambda each: each.due)[:n]]

    def tallies(self) -> list[Tally]:
        """Count by subject, in the subjects' order, those not asked too."""
        rows = []
        for subject in SUBJECTS:
            own = [pair for kind, pair in self.counts.items() if KINDS[kind].subject == subject]
            rows.append(Tally(subject, sum(right for right, _ in own), sum(asked for _, asked in own)))
        return rows

    def written(self) -> str:
        """As a file."""
        counts = {kind: list(pair) for kind, pair in sorted(self.counts.items())}
        missed = [[each.id, each.gap, each.due] for each in self.missed]
        return json.dumps({"attnviz practice": 1, "counts": counts, "missed": missed}, indent=1)

    @classmethod
    def read(cls, raw: bytes) -> Progress:
        """Read what `written` wrote. ValueError with a sentence for anything else."""
        if len(raw) > LARGEST_FILE:
            raise ValueError(f"A progress file has at most {LARGEST_FILE:,} bytes; this one has {len(raw):,}.")
        try:
            found = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError):
            raise ValueError("This is no progress file: it cannot be read as JSON.") from None
        if not isinstance(found, dict) or found.get("attnviz practice") != 1:
            raise ValueError("This is no progress file of this page.")
        counts, missed = found.get("counts"), found.get("missed")
        if not isinstance(counts, dict) or not isinstance(missed, list) or len(missed) > MOST_MISSED:
            raise ValueError(f"A progress file holds “counts” and at most {MOST_MISSED} “missed”.")
        known = {kind: (pair[0], pair[1]) for kind, pair in counts.items() if kind in KINDS and _is_count(pair)}
        waiting = {each.id: each for each in map(_missed, missed) if each}
        return cls(known, tuple(waiting.values()))


def _missed(written: object) -> Missed | None:
    match written:
        case [str() as id, int() as gap, int() as due] if (m := _ID.match(id)) and m[1] in KINDS:
            return Missed(id, min(max(gap, 0), len(GAPS) - 1), min(max(due, 0), 10**6))
    return None


def _is_count(pair: object) -> bool:
    match pair:
        case [int() as right, int() as asked]:
            return not isinstance(right, bool) and not isinstance(asked, bool) and 0 <= right <= asked <= 10**6
    return False


def _parts(id: str) -> tuple[str, int]:
    name, _, seed = id.partition(":")
    return name, int(seed)
