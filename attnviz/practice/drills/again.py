"""Draw the next question of a kind that was missed: with another answer, and where the mistake gives a wrong one."""

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
from attnviz.practice.drills.question import Question, make
from attnviz.practice.drills.ranks import rank

CANDIDATES = 24
MOST = 10**6  # of the seeds


def known_mistakes(answer: Answer) -> tuple[str, ...]:
    """Return the reasons of the known wrong answers, as they are said."""
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


def told_apart(answer: Answer) -> frozenset[str]:
    """Return the known mistakes by their words: what differs between the questions of a kind are the numbers."""
    return frozenset(map(_words, known_mistakes(answer)))


def _words(reason: str) -> str:
    return " ".join(re.findall(r"[a-z]{2,}", reason.lower()))


def place_of(question: Question, given: str) -> int | None:
    """Return which of the known mistakes leads to this answer; None for none of them."""
    reasons, why = known_mistakes(question.answer), question.grade(given).explanation
    return reasons.index(why) if why in reasons else None


@lru_cache(maxsize=256)
def another(name: str, *parts: object, seed: int | None = None, place: int | None = None) -> Question:
    """Return the first of the candidates that asks best about what was missed, the same for the same arguments.

    It tells the person's mistake from the right answer, has another right answer than the missed question, or else
    another text, and tells apart the most known mistakes: each as far as a candidate does, the first before the others.
    parts: of the candidates' seeds. seed: of the missed question; place: of the person's mistake in `known_mistakes`.
    """
    missed = None if seed is None else make(name, seed)
    reasons = known_mistakes(missed.answer) if missed else ()
    mistake = _words(reasons[place]) if place is not None and place < len(reasons) else ""

    def fits(asked: Question) -> tuple[bool, bool, bool, int]:
        told = told_apart(asked.answer)
        other = missed is None or asked.answer.shown() != missed.answer.shown()
        return mistake in told, other, missed is None or _shown(asked) != _shown(missed), len(told)

    return max((make(name, each) for each in _seeds(parts)), key=fits)


def _shown(asked: Question) -> tuple[object, ...]:
    return asked.text, asked.code, asked.maps


def _seeds(parts: tuple[object, ...]) -> Iterator[int]:
    return (rank(*parts, *[n] * bool(n)) % MOST for n in range(CANDIDATES))
