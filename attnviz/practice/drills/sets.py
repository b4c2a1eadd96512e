"""Reproducible question sets, repetition of missed questions, the score card, and progress."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnviz.exercises import SUBJECTS
from attnviz.practice.drills.again import another
from attnviz.practice.drills.question import KINDS, Question, kinds_of, make, statement
from attnviz.practice.drills.ranks import rank, seed_of

TRIES = 8  # to draw a question that differs from those of its kind in the set
GAPS = (3, 8, 20)  # answers to other questions until a missed one comes back
_ID = re.compile(r"^([a-z_]{1,60}):(\d{1,10})$")


@dataclass(frozen=True)
class Limits:
    """What a set may ask. without: kinds that are left out where enough others are left.

    lessons: those that explain its kinds, as far as there are such kinds; none: any kind. latest: of these, the ones
    with whose kinds it begins.
    """

    without: frozenset[str] = frozenset()
    lessons: frozenset[str] = frozenset()
    latest: frozenset[str] = frozenset()


def question_set(subject: str, level: int, n: int, seed: int, limits: Limits = Limits()) -> list[Question]:
    """Return the questions of a set, the same for the same arguments."""
    of = _name(subject, level, seed)
    asked: dict[str, list[Question]] = defaultdict(list)
    return [_another(of, name, asked[name]) for name in kinds_of_set(subject, level, n, seed, limits)]


def _another(of: str, name: str, asked: list[Question]) -> Question:
    """Draw the next question of a kind, unlike those already asked as far as there are others, and add it to them."""
    n = len(asked)
    for again in range(TRIES):  # its place is no part of the seed, so the question stays if the place changes
        question = make(name, seed_of(of, name, n, *[again] * bool(again)))
        if all(statement(question) != statement(other) for other in asked):
            break
    asked.append(question)
    return question


def kinds_of_set(subject: str, level: int, n: int, seed: int, limits: Limits = Limits()) -> list[str]:
    """Return the kinds of a set's questions. A kind repeats only after every other kind was used; with all subjects,
    the subjects alternate."""
    of = _name(subject, level, seed)
    subjects = sorted([subject] if subject else SUBJECTS, key=lambda name: rank(of, name))
    names: list[str] = [""] * n
    for i, each in enumerate(subjects):
        places = names[i :: len(subjects)]
        own = kinds_of(each, level)
        explained = [kind.name for kind in own if limits.lessons.intersection(kind.lessons)]
        left = left_of(explained or [kind.name for kind in own], limits.without, len(places))
        first = [kind.name for kind in own if limits.latest.intersection(kind.lessons)]
        names[i :: len(subjects)] = kinds_at(f"{of}/{each}", left, len(places), first)
    return names


def _name(subject: str, level: int, seed: int) -> str:
    return f"set/{subject}/{level}/{seed}"


def left_of(names: Collection[str], without: Collection[str], n: int) -> list[str]:
    """Return the names without some; all of them where fewer than n would be left."""
    left = [name for name in names if name not in without]
    return left if len(left) >= n else list(names)


def kinds_at(seed: str, names: Collection[str], n: int, first: Collection[str] = ()) -> list[str]:
    """Choose a kind for each of n places: of those unused in this round, the one with the lowest hash for the place.

    first: kinds that come before the others of a round. A round does not begin with the kind that ended the one
    before, unless there is no other.
    An added kind takes the places that it wins. The kind that was there may win a later place, and so on: no place
    changes for another reason, except that each round is one place longer.
    """
    chosen: list[str] = []
    for place in range(n):
        asked = chosen[place - place % len(names) :] or chosen[-1:]
        left = [name for name in names if name not in asked] or list(names)
        left = [name for name in left if name in first] or left
        chosen.append(min(left, key=lambda name: rank(seed, place, name)))
    return chosen


@dataclass(frozen=True)
class Tally:
    """The number of right answers and of questions in a subject."""

    subject: str
    right: int
    asked: int


def score_card(questions: Sequence[Question], right: Sequence[bool]) -> list[Tally]:
    """Count right answers by subject, in the order of SUBJECTS and then of the questions, without those not asked."""
    rows = []
    for subject in dict.fromkeys((*SUBJECTS, *(question.subject for question in questions))):
        own = [ok for question, ok in zip(questions, right, strict=True) if question.subject == subject]
        if own:
            rows.append(Tally(subject, sum(own), len(own)))
    return rows


@dataclass(frozen=True)
class Missed:
    """A missed question to repeat. due: the total number of answers at which it repeats; gap: its index in GAPS."""

    id: str
    gap: int
    due: int

    @property
    def kind(self) -> str:
        return self.id.partition(":")[0]


@dataclass(frozen=True)
class Progress:
    """A learner's progress: right and asked counts by kind, and the missed questions to repeat.

    A missed question repeats after GAPS[0] other answers, one of its kind. Each right answer to the kind, wherever it
    was asked, moves it on to the next gap, as another question so that the number cannot be remembered, and after the
    last it is dropped.
    """

    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    missed: tuple[Missed, ...] = ()

    @property
    def answered(self) -> int:
        """The number of answers so far."""
        return sum(asked for _, asked in self.counts.values())

    def after(self, question: Question, right: bool) -> Progress:
        """Return the progress with one more answer counted."""
        done, asked = self.counts.get(question.kind, (0, 0))
        counts = {**self.counts, question.kind: (done + right, asked + 1)}
        before = next((missed for missed in self.missed if missed.kind == question.kind), None)
        others = tuple(missed for missed in self.missed if missed is not before)
        gap = 0 if not right else len(GAPS) if before is None else before.gap + 1
        if gap < len(GAPS):
            id = another(question.kind, "repeated", question.id, seed=question.seed).id if gap else question.id
            others = (*others, Missed(id, gap, self.answered + 1 + GAPS[gap]))
        return Progress(counts, others)

    def due(self) -> list[Question]:
        """Return the questions that are due now, the longest overdue first."""
        asked = sorted((missed for missed in self.missed if missed.due <= self.answered), key=lambda missed: missed.due)
        return [make(*_parts(missed.id)) for missed in asked]

    def again(self, n: int) -> list[Question]:
        """Return at most n questions of the kinds last missed, due or not, ordered by when they are due."""
        return [make(*_parts(each.id)) for each in sorted(self.last_missed, key=lambda each: each.due)[:n]]

    def without(self, kinds: Collection[str]) -> Progress:
        """Return the progress in which none of these kinds was missed."""
        return replace(self, missed=tuple(each for each in self.missed if each.kind not in kinds))

    @property
    def last_missed(self) -> list[Missed]:
        """The kinds whose last answer was not right."""
        return [each for each in self.missed if not each.gap]

    def tallies(self) -> list[Tally]:
        """Count right answers by subject, in the order of SUBJECTS, including subjects that were not asked."""
        rows = []
        for subject in SUBJECTS:
            own = [pair for kind, pair in self.counts.items() if KINDS[kind].subject == subject]
            rows.append(Tally(subject, sum(right for right, _ in own), sum(asked for _, asked in own)))
        return rows

    @classmethod
    def of(cls, counts: Mapping[str, tuple[int, int]], waiting: Iterable[tuple[str, int, int]]) -> Progress:
        """Return the progress with these counts and missed questions, (id, gap, due) each, of the kinds there are."""
        known = {kind: pair for kind, pair in counts.items() if kind in KINDS}
        missed: dict[str, Missed] = {}
        for id, gap, due in waiting:
            if _is_question(id):
                each = Missed(id, min(gap, len(GAPS) - 1), due)
                missed.pop(each.kind, None)  # of several, as an earlier version kept them, the newest
                missed[each.kind] = each
        return cls(known, tuple(missed.values()))

    @property
    def waiting(self) -> tuple[tuple[str, int, int], ...]:
        """The missed questions as `of` takes them."""
        return tuple((each.id, each.gap, each.due) for each in self.missed)


def _is_question(id: str) -> bool:
    """Check an id, which can be anything: a person's browser or file holds it."""
    match = _ID.match(id)
    return match is not None and match[1] in KINDS


def _parts(id: str) -> tuple[str, int]:
    name, _, seed = id.partition(":")
    return name, int(seed)
