"""The mock interview that mixes spoken, computed, code-reading and find-the-mistake questions, and its score card."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from typing import Any

from attnviz.compute import spoken
from attnviz.compute.apart import apart, shown_by, steps_of
from attnviz.compute.asked import asked_before, kind_of_mistake
from attnviz.compute.mistaken_line import of_mistake
from attnviz.compute.practice import Attempt, naming, pages_to_review, subject_name, tallies, to_tick
from attnviz.compute.taught import Taught, taught
from attnviz.phrases import count
from attnviz.practice.drills import KINDS, Question, make, question_set
from attnviz.practice.drills.answers import SpokenAnswer
from attnviz.practice.drills.ranks import rank, seed_of
from attnviz.practice.drills.sets import TRIES, Limits, kinds_at, left_of
from attnviz.practice.spoken.schedule import AGAIN, GOOD, HARD
from attnviz.session.lesson import page_and_link
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.settings import Settings

FORMS = {"spoken": "Said aloud", "computed": "Computed", "code": "Reading code", "mistake": "Finding the mistake"}
CHOSEN = ("computed", "code", "mistake", "spoken")  # in turn, so that what there is most of comes last
USUAL = {"spoken": 150, "computed": 90, "code": 90, "mistake": 120}  # seconds that a question is meant to take
ROUND = ("spoken", "computed", "mistake", "computed", "code", "spoken", "computed", "mistake")
ROUNDS = {"15": 1, "30": 2, "60": 4}  # minutes, in links: rounds
CODE_KINDS = ("blank_in_a_line", "wrong_line", "line_that_repeats", "lines_of_attention", "line_that_raises")
ASK_ANYTHING = ("wrong_line", "blank_in_a_line")  # about several steps, so chosen after those that have but one
PARTLY = 0.5  # share of a spoken question's points from which it was hard, and not missed


def begin(s: Settings, now: float) -> Attempt:
    """Begin the interview of the settings: the same questions for everyone with the link."""
    forms = plan(s, "interview")
    without, only = asked_before(s), taught(s)
    found: list[Question] = []
    waiting = {}
    for form in CHOSEN:
        own = questions(form, forms.count(form), s.question_set, without, only, beside=found)
        waiting[form], found = iter(own), [*found, *own]
    asked = tuple(next(waiting[form]) for form in forms)
    return Attempt(asked, now, 60.0 * int(s.interview), feedback=False, of="interview", plan=forms,
                   settings=naming(s, "interview"))  # fmt: skip


def plan(s: Settings, of: str) -> tuple[str, ...]:
    """Return the form of each question of an interview that mixes them; empty for other attempts."""
    return ROUND * ROUNDS[s.interview] if of == "interview" and s.interview else ()


def questions(
    form: str, n: int, seed: int, without: Collection[str] = (), only: Taught | None = None, *,
    beside: Sequence[Question] = (),
) -> list[Question]:  # fmt: skip
    """Return n questions of a form for a seed.

    without: kinds that are not asked where enough others are left. only: what was taught, if that is all that is asked.
    beside: questions asked in the same interview, whose answers these do not show, nor they theirs.
    """
    of = f"interview/{seed}"
    if form == "spoken":
        deck = spoken.deck()
        ids = left_of([card.id for card in only.cards(deck.values())] if only else list(deck), without, n)
        asked = [steps_of(each) for each in beside]
        ids = left_of(ids, {id for id in ids if any(map(shown_by(id).meets, asked))}, n)
        groups = {id: only.lesson_of(deck[id].lessons) if only else deck[id].subject for id in ids}
        return [of_card(deck[id]) for id in _in_turn(of, groups)[:n]]
    if form == "mistake":
        names = only.mistakes(MISTAKES) if only else MISTAKES
        others = sorted(names, key=lambda name: (kind_of_mistake(name) in without, rank(of, name)))
        first = apart(([asked] for asked in _of_mistakes(others, of)), n, beside)
        return (
            [*first, *(each for each in _of_mistakes(others, of) if each not in first)][:n] if len(first) < n else first
        )
    if form == "code":
        kinds = left_of((only.kinds(CODE_KINDS) if only else ()) or CODE_KINDS, without, n)
        return _of_code(of, kinds_at(of, kinds, max(n, len(kinds))), n, beside)
    if only:
        kinds = left_of([kind for kind in only.kinds(KINDS) if kind not in CODE_KINDS], without, n)
        groups = {kind: only.lesson_of(KINDS[kind].lessons) for kind in kinds}
        return [make(kind, seed_of(of, kind, 0)) for kind in _in_turn(of, groups)[:n]]
    drawn = question_set("", 3, 3 * n, seed, Limits(frozenset(without)))
    return [asked for asked in drawn if asked.kind not in CODE_KINDS][:n]


def _of_mistakes(names: Iterable[str], of: str) -> Iterator[Question]:
    return (asked for name in names if (asked := of_mistake(name, rank(of, name))))


def _of_code(of: str, kinds: Sequence[str], n: int, beside: Sequence[Question]) -> list[Question]:
    """Return questions of n of these kinds, the first ones as far as none shows the answer to another."""
    seeds = [[seed_of(of, kind, i, *[again] * bool(again)) for again in range(TRIES)] for i, kind in enumerate(kinds)]
    drawn = [[make(kind, seed) for seed in each] for kind, each in zip(kinds, seeds, strict=True)]
    for places in combinations(range(len(kinds)), n):
        in_turn = sorted(places, key=lambda i: ASK_ANYTHING.index(kinds[i]) if kinds[i] in ASK_ANYTHING else -1)
        found = apart([drawn[i] for i in in_turn], n, beside)
        if len(found) == n:
            return [asked for _, asked in sorted(zip(in_turn, found, strict=True), key=lambda each: each[0])]
    return [questions[0] for questions in drawn[:n]]


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


# ---- the score card


@dataclass(frozen=True)
class Timed:
    """Questions of one form or subject: right, asked, and the seconds used beside those that are usual.

    unticked: answers said aloud whose points are not ticked yet.
    """

    name: str
    right: int
    asked: int
    used: int
    usual: int
    unticked: int = 0

    @property
    def scored(self) -> str:
        """How many are right, as far as that is known."""
        return f"{self.right} of {self.asked}{f', {self.unticked} to tick' if self.unticked else ''}"


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
        unticked = len({*own} & {*to_tick(attempt)})
        rows.append(Timed(name, sum(grades[i].right for i in own), len(own), used, usual, unticked))
    return rows


def scored(card: Mapping[str, Any]) -> str:
    """Say what a score card has: "5 of 8 right in 12:05"; while points are not ticked, only what is right so far."""
    time = clock(card["used"])
    if not (n := card.get("unticked")):
        return f"{card['right']} of {card['asked']} right in {time}"
    return f"{card['right']} of {card['asked']} right so far in {time}, {count(n, 'answer')} aloud not ticked"


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
        **({"unticked": n} if (n := len(to_tick(attempt))) else {}),
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
            to_go = f", {each['unticked']} not ticked" if _is_unticked(each) else ""
            rows.append((str(each.get("at", ""))[:10], f"{minutes} minutes", f"{right} of {asked}{to_go}", clock(used)))
    return rows


def compared(now: Mapping[str, Any], before: Iterable[Mapping[str, Any]]) -> str:
    """Say how the last interview of this kind went, or return "". before: what a browser kept: it can be anything.

    Two are compared once the points of both are ticked.
    """
    for each in before:
        counts = [each.get(name) for name in ("right", "asked", "used")]
        same = all(each.get(name) == now[name] for name in ("minutes", "asked"))
        if not same or not all(map(_is_count, counts)):
            continue
        right, asked, used = (int(str(count)) for count in counts)
        more = now["right"] - right
        change = f"{abs(more)} {'more' if more > 0 else 'fewer'} now" if more else "as many now"
        day = str(each.get("at", ""))[:10]
        unticked = {"unticked": each["unticked"]} if _is_unticked(each) else {}
        last = f"Last time, on {day}: {scored({'right': right, 'asked': asked, 'used': used, **unticked})}"
        return f"{last}." if unticked or now.get("unticked") else f"{last}; {change}."
    return ""


def _is_unticked(card: Mapping[str, Any]) -> bool:
    return _is_count(card.get("unticked")) and bool(card["unticked"])


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
        f"# Mock interview: {scored(about)}", "",
        *_table(("Form", *columns), (written(FORMS[t.name], t) for t in by_form(attempt))),
        *_table(("Subject", *columns), (written(subject_name(t.name), t) for t in by_subject(attempt))),
    ]  # fmt: skip
    if again := pages_to_review(attempt):
        lines += ["## To look at again", ""]
        lines += [
            f"- {subject}: {', '.join(f'{name} ({address})' for name, address in places)}" for subject, places in again
        ]
        lines.append("")
    unticked = to_tick(attempt)
    for i, (question, grade) in enumerate(zip(attempt.questions, attempt.grades(), strict=True)):
        lines += [
            f"## {i + 1}. {'Not ticked' if i in unticked else 'Right' if grade.right else 'Not right'}, "
            f"{time_of(attempt, i)}",
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
