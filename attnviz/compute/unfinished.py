"""Attempts as a browser keeps them, and attempts from what it has kept: the same questions, answers and times.

No question depends on the open model or text: each is built again from its kind and seed, its card or its mistake. A
hash of the texts and right answers shows whether this version of AttnViz still asks the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b

from attnviz.compute import interview, spoken
from attnviz.compute.asked import MISTAKE
from attnviz.compute.mistaken_line import of_mistake
from attnviz.compute.practice import Attempt, naming
from attnviz.practice.drills import KINDS, Question, make
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.settings import Settings
from attnviz.session.unfinished import MAX_GIVEN, MOCK, VERSION, Unfinished

PLACE = (
    "minutes",
    "route",
    "route_item",
    "route_run",
    "lesson",
    "lesson_step",
)  # beside the settings that name the questions
FIELDS = ("tab", "subject", "level", "questions", "interview", "question_set", *PLACE)


class CannotGoOn(Exception):
    """What was kept cannot be built again; the message says why, in a sentence."""


def begun(attempt: Attempt, s: Settings, *, id: str, turn: int, at: str) -> Unfinished:
    """Return an attempt that begins as the browser keeps it. at: the time, in UTC."""
    return Unfinished(
        id, turn, at, attempt.of, link=_link(attempt, s), asked=tuple(each.id for each in attempt.questions),
        check=_check(attempt.questions), seconds=round(attempt.seconds),
    )  # fmt: skip


def kept(attempt: Attempt, before: Unfinished, s: Settings, now: float) -> Unfinished:
    """Return an attempt as the browser keeps it. before: as it was kept last; now: on the attempt's clock.

    s: the settings in force; where they name the attempt, it goes on there, if only because its lesson was left.
    """
    spent = max(now - attempt.began, 0.0)
    return replace(
        before, edits=before.edits + 1, link=_link(attempt, s) if attempt.is_of(s) else before.link,
        given=tuple(given[:MAX_GIVEN] for given in attempt.given),
        stamps=tuple(round(stamp - attempt.began, 1) for stamp in attempt.stamps),
        spent=round(min(spent, attempt.seconds or spent), 1), answered=attempt.answered,
        again=attempt.again.id if attempt.again else "", again_given=attempt.again_given[:MAX_GIVEN],
    )  # fmt: skip


def attempt_of(found: Unfinished, now: float) -> Attempt:
    """Build the attempt again, as if the time away had not been. Raises CannotGoOn."""
    if found.version != VERSION:
        raise CannotGoOn(_changed(found))
    try:
        questions = tuple(map(question_of, found.asked))
        again = question_of(found.again) if found.again else None
    except (KeyError, ValueError):
        raise CannotGoOn(_changed(found)) from None
    s, began = Settings.from_link(found.link)[0], now - found.spent
    plan = interview.plan(s, found.of)
    answers = [*zip(questions, found.given, strict=False), *([(again, found.again_given)] if again else [])]
    if (
        _check(questions) != found.check
        or (plan and len(plan) != len(questions))
        or not all(question.grade(given).read for question, given in answers if given)
    ):
        raise CannotGoOn(_changed(found))
    return Attempt(
        questions, began, float(found.seconds), feedback=found.of != MOCK, of=found.of, given=found.given,
        answered=found.answered, again=again, again_given=found.again_given, plan=plan,
        stamps=tuple(began + stamp for stamp in found.stamps), settings=naming(s, found.of),
    )  # fmt: skip


def question_of(id: str) -> Question:
    """Build the question with this id. ValueError or KeyError if there is none."""
    name, _, seed = id.partition(":")
    if name in KINDS:
        return make(name, int(seed))
    if (mistake := name.removeprefix(MISTAKE)) in MISTAKES:
        if asked := of_mistake(mistake, int(seed)):
            return asked
        raise ValueError(id)
    return interview.of_card(spoken.deck()[name])


def _link(attempt: Attempt, s: Settings) -> dict[str, str]:
    place = {name: getattr(s, name) for name in FIELDS} | {"tab": "interview" if attempt.of == MOCK else ""}
    return replace(Settings(), **place).to_link()


def is_elsewhere(found: Unfinished, s: Settings) -> bool:
    """Check whether these settings name a set like this one, but in another lesson or route, where it asks others."""
    was = Settings.from_link(found.link)[0]
    same = dict(naming(was, found.of)) == dict(naming(s, found.of))
    return same and any(getattr(was, name) != getattr(s, name) for name in ("lesson", "route", "route_item"))


def place(found: Unfinished) -> dict[str, object]:
    """Return the settings with which its page opens, where it was begun."""
    s = Settings.from_link(found.link)[0]
    return {name: getattr(s, name) for name in FIELDS}


def _check(questions: Iterable[Question]) -> str:
    """Hash what a person has seen, and what their answers refer to by its number."""
    seen = blake2b(digest_size=8)
    for question in questions:
        listed = [getattr(question.answer, name, ()) for name in ("options", "items", "points")]
        seen.update(repr((question.text, question.code, question.answer.shown(), listed)).encode())
    return seen.hexdigest()


def _changed(found: Unfinished) -> str:
    """Say that it cannot go on, and what becomes of it. Of another version's, only that it was begun is known."""
    what = found.name if found.asked else "the interview" if found.of == MOCK else "the set of questions"
    said = [
        f"{what[0].upper()}{what[1:]} cannot be continued: this version of AttnViz asks other questions.",
        "It was removed from this browser.", *[found.lost] * bool(found.asked), "Start a new one.",
    ]  # fmt: skip
    return " ".join(said)
