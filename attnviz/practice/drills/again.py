"""Draw the next question of a missed kind: its answer is another, and the mistake that was made gives a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from attnviz.practice.drills.answers import (
    Answer,
    CellAnswer,
    ChoiceAnswer,
    ExpressionAnswer,
    NumberAnswer,
    ShapeAnswer,
)
from attnviz.practice.drills.question import Question, make, statement
from attnviz.practice.drills.ranks import seed_of

CANDIDATES = 24


def reasons(answer: Answer) -> tuple[str, ...]:
    """Return the explanations of the known wrong answers."""
    match answer:
        case NumberAnswer():
            return tuple(wrong.explanation for wrong in answer.wrong)
        case ShapeAnswer() | CellAnswer():
            return tuple(why for _, why in answer.wrong)
        case ExpressionAnswer():
            return tuple(answer.wrong.values())
        case ChoiceAnswer():
            return tuple(filter(None, answer.explanations))
    return ()


def mistakes_that_show(answer: Answer) -> frozenset[str]:
    """Return the known mistakes that lead to a wrong answer, each as the words of its explanation.

    Without numbers and letters: the explanations of one mistake differ in these between the questions of a kind.
    """
    return frozenset(map(_words, reasons(answer)))


def _words(reason: str) -> str:
    return " ".join(re.findall(r"[a-z]{2,}", reason.lower()))


def place_of(question: Question, given: str) -> int | None:
    """Return the index in `reasons` of the mistake that leads to this answer; None if no known one does."""
    known, why = reasons(question.answer), question.grade(given).explanation
    return known.index(why) if why in known else None


@lru_cache(maxsize=256)
def another(name: str, *parts: object, seed: int | None = None, place: int | None = None) -> Question:
    """Return the candidate that tests best what was missed, the same for the same arguments.

    Preferred, in this order: one in which the same mistake gives a wrong answer, one with another right answer, one
    with another text, and the one in which most known mistakes give a wrong answer.
    parts: the candidates' seeds are hashes of them. seed: of the missed question; place: of the mistake in `reasons`.
    """
    missed = None if seed is None else make(name, seed)
    known = reasons(missed.answer) if missed else ()
    mistake = _words(known[place]) if place is not None and place < len(known) else ""

    def fits(asked: Question) -> tuple[bool, bool, bool, int]:
        shown = mistakes_that_show(asked.answer)
        other = missed is None or asked.answer.shown() != missed.answer.shown()
        return mistake in shown, other, missed is None or statement(asked) != statement(missed), len(shown)

    return max((make(name, each) for each in _seeds(parts)), key=fits)


def _seeds(parts: tuple[object, ...]) -> Iterator[int]:
    return (seed_of(*parts, *[n] * bool(n)) for n in range(CANDIDATES))
