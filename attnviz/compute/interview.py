"""The mock interview that mixes spoken, computed, code-reading and find-the-mistake questions, and its score card."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from attnviz.compute import mistakes, spoken
from attnviz.compute.asked import asked_before, kind_of_mistake
from attnviz.compute.practice import Attempt, naming, pages_to_review, subject_name, tallies
from attnviz.compute.taught import Taught, taught
from attnviz.compute.view import View
from attnviz.practice.drills import KINDS, Question, make, question_set
from attnviz.practice.drills.answers import ChoiceAnswer, SpokenAnswer
from attnviz.practice.drills.ranks import rank, seed_of
from attnviz.practice.drills.sets import Limits, kinds_at, left_of
from attnviz.practice.spoken.schedule import AGAIN, GOOD, HARD
from attnviz.session.lesson import page_and_link
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.settings import Settings

FORMS = {"spoken": "Said aloud", "computed": "Computed", "code": "Reading code", "mistake": "Finding the mistake"}
USUAL = {"spoken": 150, "computed": 90, "code": 90, "mistake": 120}  # seconds that a question is meant to take
ROUND = ("spoken", "computed", "mistake", "computed", "code", "spoken", "computed", "mistake")
ROUNDS = {"15": 1, "30": 2, "60": 4}  # minutes, in links: rounds
CODE_KINDS = ("blank_in_a_line", "wrong_line", "line_that_repeats", "lines_of_attention", "line_that_raises")
N_LINES = 4  # to choose from
NEVER_WRONG = ("#", '"""', "def ", "class ", "else:", "raise ")
PARTLY = 0.5  # share of a spoken question's points from which it was hard, and not missed


def begin(s: Settings, now: float) -> Attempt:
    """Begin the interview of the settings: the same questions for everyone with the link."""
    forms = plan(s, "interview")
    without, only = asked_before(s), taught(s)
    waiting = {form: iter(questions(form, forms.count(form), s.question_set, without, only)) for form in FORMS}
    asked = tuple(next(waiting[form]) for form in forms)
    return Attempt(asked, now, 60.0 * int(s.interview), feedback=False, of="interview", plan=forms,
                   settings=naming(s, "interview"))  # fmt: skip


def plan(s: Settings, of: str) -> tuple[str, ...]:
    """Return the form of each question of an interview that mixes them; empty for other attempts."""
    return ROUND * ROUNDS[s.interview] if of == "interview" and s.interview else ()


def questions(
    form: str, n: int, seed: int, without: Collection[str] = (), only: Taught | None = None
) -> list[Question]:
    """Return n questions of a form for a seed.

    without: kinds that are not asked where enough others are left. only: what was taught, if that is all that is asked.
    """
    of = f"interview/{seed}"
    if form == "spoken":
        deck = spoken.deck()
        ids = left_of([card.id for card in only.cards(deck.values())] if only else list(deck), without, n)
        groups = {id: only.lesson_of(deck[id].lessons) if only else deck[id].subject for id in ids}
        return [of_card(deck[id]) for id in _in_turn(of, groups)[:n]]
    if form == "mistake":
        names = only.mistakes(MISTAKES) if only else MISTAKES
        others = sorted(names, key=lambda name: (kind_of_mistake(name) in without, rank(of, name)))
        return [asked for name in others if (asked := of_mistake(name, rank(of, name)))][:n]
    if form == "code":
        kinds = left_of((only.kinds(CODE_KINDS) if only else ()) or CODE_KINDS, without, n)
        return [make(kind, seed_of(of, kind, i)) for i, kind in enumerate(kinds_at(of, kinds, n))]
    if only:
        kinds = left_of([kind for kind in only.kinds(KINDS) if kind not in CODE_KINDS], without, n)
        groups = {kind: only.lesson_of(KINDS[kind].lessons) for kind in kinds}
        return [make(kind, seed_of(of, kind, 0)) for kind in _in_turn(of, groups)[:n]]
    drawn = question_set("", 3, 3 * n, seed, Limits(frozenset(without)))
    return [asked for asked in drawn if asked.kind not in CODE_KINDS][:n]


def _in_turn(of: str, groups: Mapping[str, str]) -> list[str]:
    """Return names in random order, each of their groups (subjects or lessons) once before one comes again."""
    by_group: dict[str, list[str]] = {}
    for name in sorted(groups, key=lambda name: rank(of, name)):
        by_group.setdefault(groups[name], []).append(name)
    return [name for each in zip_longest(*by_group.values()) for name in each if name]


def of_card(card: spoken.Card) -> Question:
    """Return a card as a question, whose answer is graded by the points that the person ticks afterwards."""
    page, link = page_and_link(card.lines["Link"], card.link)
    points = tuple(spoken.filled(point.text, card) for point in card.points)
    return Question(
        spoken.filled(card.question, card), SpokenAnswer(points), spoken.filled(card.answer, card),
        link=(page.path, link), kind=card.id, subject=card.subject, level=card.level,
    )  # fmt: skip


def of_mistake(name: str, seed: int) -> Question | None:
    """Return a mistake as a question for its line; None if its code has too few other lines."""
    excerpt = mistakes.excerpt(View(Settings(mistake=name)))
    wrong = min(excerpt.mistaken)
    line, mistake = excerpt.lines[wrong].strip(), mistakes.load_mistake(name)
    code = [i for i, each in enumerate(excerpt.lines) if i == wrong or (i not in excerpt.mistaken and _is_code(each))]
    at, longest = code.index(wrong), len(code) - N_LINES
    starts = range(max(0, at - N_LINES + 1), max(0, min(at, longest)) + 1)  # so that the place of the line differs
    seed %= len(starts)  # from which the same question is made
    start = starts[seed]
    shown = [excerpt.lines[i].strip() for i in code[start : start + N_LINES]]
    if len(shown) < 3 or len({*shown}) < len(shown):
        return None
    explained = tuple("" if each == line else "This line is right." for each in shown)
    return Question(
        f"Which line of this code, from attnviz/{excerpt.files[0]}, has the mistake?",
        ChoiceAnswer(tuple(shown), shown.index(line), explained, code=True), mistake.what,
        link=("mistakes", {"mistake": name, "hunt": "0"}), code=excerpt.functions, kind=kind_of_mistake(name),
        subject="mistakes", level=2, seed=seed,
    )  # fmt: skip


def _is_code(line: str) -> bool:
    """Check whether one can doubt a line: it is no comment, no part of a docstring, no head of a function."""
    line = line.strip()
    return len(line) > 3 and not line.startswith(NEVER_WRONG) and not line.endswith((".", '"""'))


# ---- the score card


@dataclass(frozen=True)
class Timed:
    """Questions of one form or subject: right, asked, and the seconds used beside those that are usual."""

    name: str
    right: int
    asked: int
    used: int
    usual: int


def by_form(attempt: Attempt) -> list[Timed]:
    """Count right answers and time by form, in the order of FORMS."""
    return [row for form in FORMS for row in _timed(attempt, attempt.plan) if row.name == form]


def by_subject(attempt: Attempt) -> list[Timed]:
    """Count right answers and time by subject, in the order of `tallies`."""
    rows = {row.name: row for row in _timed(attempt, [question.subject for question in attempt.questions])}
    return [rows[tally.subject] for tally in tallies(attempt)]


def _timed(attempt: Attempt, names: Sequence[str]) -> list[Timed]:
    """Count by the name of each question; questions that were not reached have neither time nor usual time."""
    rows, grades = [], attempt.grades()
    for name in dict.fromkeys(names):
        own = [i for i, each in enumerate(names) if each == name]
        reached = [i for i in own if i < len(attempt.stamps)]
        used, usual = sum(map(attempt.used, reached)), sum(USUAL[attempt.plan[i]] for i in reached)
        rows.append(Timed(name, sum(grades[i].right for i in own), len(own), used, usual))
    return rows


def clock(seconds: float) -> str:
    """Write a time: 2:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def summary(attempt: Attempt) -> dict[str, Any]:
    """Return the score card in few bytes, to keep and to compare with."""
    return {
        "minutes": round(attempt.seconds / 60),
        "right": sum(grade.right for grade in attempt.grades()),
        "asked": len(attempt.questions),
        "used": sum(map(attempt.used, range(len(attempt.stamps)))),
        "subjects": {row.subject: [row.right, row.asked] for row in tallies(attempt)},
        "forms": {row.name: [row.right, row.asked, row.used, row.usual] for row in by_form(attempt)},
    }


def past(mocks: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Return day, length, right answers and time of each mock interview that can be read."""
    rows = []
    for each in mocks:
        counts = [each.get(name) for name in ("right", "asked", "used", "minutes")]
        if all(map(_is_count, counts)):
            right, asked, used, minutes = (int(str(count)) for count in counts)
            rows.append((str(each.get("at", ""))[:10], f"{minutes} minutes", f"{right} of {asked}", clock(used)))
    return rows


def compared(now: Mapping[str, Any], before: Iterable[Mapping[str, Any]]) -> str:
    """Say how the last interview of this kind went, or return "". before: what a browser kept: it can be anything."""
    for each in before:
        counts = [each.get(name) for name in ("right", "asked", "used")]
        same = all(each.get(name) == now[name] for name in ("minutes", "asked"))
        if not same or not all(map(_is_count, counts)):
            continue
        right, asked, used = (int(str(count)) for count in counts)
        more = now["right"] - right
        change = f"{abs(more)} {'more' if more > 0 else 'fewer'} now" if more else "as many now"
        day = str(each.get("at", ""))[:10]
        return f"Last time, on {day}: {right} of {asked} right in {clock(used)}; {change}."
    return ""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6


def grades_of_cards(attempt: Attempt) -> dict[str, int]:
    """Return the grade that each spoken question earned, by its card's id; good is what counts as right."""
    earned = {}
    for question, given in zip(attempt.questions, attempt.given, strict=True):
        if isinstance(question.answer, SpokenAnswer):
            share = len(question.answer.ticked(given)) / len(question.answer.points)
            right = question.answer.grade(given).right
            earned[question.kind] = GOOD if right else HARD if share >= PARTLY else AGAIN
    return earned


def as_json(attempt: Attempt) -> str:
    return json.dumps({"attnviz interview": 1, **summary(attempt)}, indent=1)


def as_markdown(attempt: Attempt) -> str:
    """Return the score card as Markdown."""
    about, columns = summary(attempt), ("Right", "Asked", "Time", "Usual")

    def written(name: str, row: Timed) -> tuple[object, ...]:
        return name, row.right, row.asked, clock(row.used), clock(row.usual)

    lines = [
        f"# Mock interview: {about['right']} of {about['asked']} right in {clock(about['used'])}", "",
        *_table(("Form", *columns), (written(FORMS[t.name], t) for t in by_form(attempt))),
        *_table(("Subject", *columns), (written(subject_name(t.name), t) for t in by_subject(attempt))),
    ]  # fmt: skip
    if again := pages_to_review(attempt):
        lines += ["## To look at again", ""]
        lines += [
            f"- {subject}: {', '.join(f'{name} ({address})' for name, address in places)}" for subject, places in again
        ]
        lines.append("")
    for i, (question, grade) in enumerate(zip(attempt.questions, attempt.grades(), strict=True)):
        lines += [
            f"## {i + 1}. {'Right' if grade.right else 'Not right'}, {time_of(attempt, i)}",
            "",
            question.text,
            "",
        ]
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    written = [head, ["---"] * len(head), *rows]
    return [*(f"| {' | '.join(map(str, row))} |" for row in written), ""]


def time_of(attempt: Attempt, i: int) -> str:
    """Say the time that a question took beside the usual."""
    usual = f"usual {clock(USUAL[attempt.plan[i]])}"
    return f"{clock(attempt.used(i))}, {usual}" if i < len(attempt.stamps) else f"not reached, {usual}"
