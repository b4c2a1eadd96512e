"""An attempt as the browser keeps it, and the attempt that is built from it: the same questions, answers and times."""

import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from attnviz.compute import interview, spoken, unfinished
from attnviz.compute.mistaken_line import of_mistake
from attnviz.compute.practice import Attempt, begin
from attnviz.compute.practice import Progress as Answers
from attnviz.practice.drills import KINDS, make
from attnviz.practice.drills.answers import CellAnswer, SpokenAnswer
from attnviz.practice.drills.ranks import rank
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.progress import Progress, parsed
from attnviz.session.settings import Settings
from attnviz.session.unfinished import Unfinished
from tests.practice.forms import forms

MIXED = Settings(interview="15", question_set=11)
SET = Settings(subject="cost", questions=3, minutes=7, question_set=5, route="interview-20", route_item=4)


def asked(question) -> dict[str, object]:
    """Return all of a question that one sees, and its answer."""
    return {name: value for name, value in vars(question).items() if name not in ("solution", "maps")} | {
        "maps": repr(question.maps)
    }


def of_each_kind() -> list[str]:
    drills = [make(name, 17).id for name in KINDS]
    mistakes = [q.id for name in MISTAKES if (q := of_mistake(name, rank("interview/3", name)))]
    return [*drills, *mistakes, *(interview.of_card(card).id for card in spoken.deck().values())]


def test_a_question_of_each_kind_is_built_again_from_its_id() -> None:
    ids = of_each_kind()
    assert len(ids) == len({*ids}) and len(ids) > len(KINDS) + len(spoken.deck()) + 20
    for id in ids:
        first, again = unfinished.question_of(id), unfinished.question_of(id)
        assert first.id == id and asked(first) == asked(again)


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_mistakes_of_an_interview_are_built_again_with_the_same_lines(seed: int) -> None:
    for question in interview.questions("mistake", 30, seed):
        assert asked(unfinished.question_of(question.id)) == asked(question)


HASHES = """
from attnviz.compute import interview, practice, unfinished
from attnviz.session.settings import Settings
long = Settings(interview="60", question_set=7), Settings(questions=50, level=3, question_set=7)
for attempt in interview.begin(long[0], 0.0), practice.begin(long[1], "set", practice.Progress(), 0.0):
    print(unfinished.begun(attempt, Settings(), id="7f", turn=0, at="").check)
"""


def test_another_process_builds_the_same_questions() -> None:
    longest = (
        interview.begin(Settings(interview="60", question_set=7), 0.0),
        begin(Settings(questions=50, level=3, question_set=7), "set", Answers(), 0.0),
    )
    here = [unfinished.begun(attempt, Settings(), id="7f", turn=0, at="").check for attempt in longest]
    there = subprocess.run([sys.executable, "-c", HASHES], capture_output=True, text=True, check=True)
    assert there.stdout.split() == here


# ---- there and back


def through_the_browser(found: Unfinished) -> Unfinished:
    read, problem = parsed(Progress(unfinished={found.kind: found}).json())
    assert not problem
    return read.unfinished[found.kind]


def back(attempt: Attempt, s: Settings, stopped_at: float, now: float) -> Attempt:
    """Keep an attempt at one time, and build it again at another."""
    begun = unfinished.begun(attempt, s, id="7f", turn=0, at="2026-11-28T20:00:00Z")
    return unfinished.attempt_of(through_the_browser(unfinished.kept(attempt, begun, s, stopped_at)), now)


def same(attempt: Attempt, built: Attempt) -> None:
    """Check that all but the clock is the same, and that the clock reads the same."""
    assert [*map(asked, attempt.questions)] == [*map(asked, built.questions)]
    assert asked(attempt.question) == asked(built.question) if not attempt.done else built.done
    clock = {name: getattr(built, name) for name in ("began", "stamps", "questions", "again")}
    assert replace(attempt, **clock) == built
    for i in range(len(attempt.stamps)):
        assert built.used(i) == pytest.approx(attempt.used(i), abs=1)


def answer(attempt: Attempt, now: float, *, right: bool = True) -> Attempt:
    of = attempt.question.answer
    given = "said" if isinstance(of, SpokenAnswer) else forms(of)[0]
    return attempt.answer(given if right else "", now)


def test_a_mock_interview_goes_on_after_each_answer_and_the_time_away_is_not_counted() -> None:
    attempt = interview.begin(MIXED, 1000.0)
    for i in range(len(attempt.questions)):
        built = back(attempt, MIXED, 1000.0 + 60 * i + 13.0, 90_000.0)  # a day later, on another clock
        same(attempt, built)
        assert built.left(90_000.0) == pytest.approx(attempt.left(1000.0 + 60 * i + 13.0), abs=0.1) == 887 - 60 * i
        assert built.is_of(MIXED) and not built.is_of(replace(MIXED, question_set=12))
        attempt = answer(attempt, 1060.0 + 60 * i, right=bool(i % 2))
    assert attempt.done
    spoken_ = next(
        i for i, q in enumerate(attempt.questions) if isinstance(q.answer, SpokenAnswer) and attempt.given[i]
    )
    ticked = attempt.given_again(spoken_, "said 0 2")
    built = back(ticked, MIXED, 5000.0, 7.0)
    same(ticked, built)
    assert interview.summary(built) == interview.summary(ticked)
    assert interview.grades_of_cards(built) == interview.grades_of_cards(ticked)


def test_a_mock_interview_that_was_stopped_keeps_what_was_not_reached() -> None:
    attempt = answer(interview.begin(MIXED, 0.0), 70.0).stop(73.0)
    built = back(attempt, MIXED, 75.0, 500.0)
    same(attempt, built)
    assert len(built.stamps) == 2 and len(built.given) == 8 and interview.summary(built) == interview.summary(attempt)


def test_a_set_goes_on_at_the_answer_at_the_next_question_and_at_a_repeated_one() -> None:
    attempt = begin(SET, "set", Answers(), 50.0)
    answered = answer(attempt, 61.5)
    for each in (attempt, answered, answered.next()):
        same(each, back(each, SET, 70.0, 4.0))
    free = replace(attempt, seconds=0.0)
    repeated = answer(free, 61.5).next([make("kv_head_read", 23)])
    assert repeated.again
    for each in (repeated, answer(repeated, 70.0)):
        built = back(each, SET, 71.0, 4.0)
        same(each, built)
        assert built.question.id == "kv_head_read:23" and built.left(10**6) == float("inf")


def test_missed_questions_go_on_although_others_are_missed_by_now() -> None:
    answers = Answers()
    for question in (make("kv_head_read", 23), make("strongest_key", 5)):
        answers = answers.after(question, False)
    attempt = begin(Settings(), "missed", answers, 0.0)
    assert isinstance(attempt.questions[1].answer, CellAnswer)
    same(attempt, back(attempt, Settings(), 2.0, 4.0))


def test_it_opens_where_it_was_begun() -> None:
    found = unfinished.begun(begin(SET, "set", Answers(), 0.0), SET, id="7f", turn=0, at="2026-11-28T20:00:00Z")
    place = unfinished.place(through_the_browser(found))
    assert {name: place[name] for name in ("subject", "questions", "minutes", "route", "route_item", "tab")} == {
        "subject": "cost", "questions": 3, "minutes": 7, "route": "interview-20", "route_item": 4, "tab": "",
    }  # fmt: skip
    mock = unfinished.begun(interview.begin(MIXED, 0.0), MIXED, id="7f", turn=0, at="2026-11-28T20:00:00Z")
    assert unfinished.place(mock)["tab"] == "interview" and unfinished.place(mock)["interview"] == "15"


def test_where_a_lesson_was_left_it_goes_on_without_and_its_link_asks_its_own() -> None:
    s = Settings(subject="cost", questions=5, lesson="cache-cost", lesson_step=7)
    attempt, bare = begin(s, "set", Answers(), 0.0), replace(s, lesson="", lesson_step=1)
    assert [q.id for q in attempt.questions] != [q.id for q in begin(bare, "set", Answers(), 0.0).questions]
    found = unfinished.begun(attempt, s, id="7f", turn=0, at="2026-11-28T20:00:00Z")
    assert unfinished.is_elsewhere(found, bare) and not unfinished.is_elsewhere(found, replace(s, lesson_step=6))
    assert not unfinished.is_elsewhere(found, replace(bare, questions=4))  # a set that differs anyway
    left = unfinished.kept(answer(attempt, 3.0), found, bare, 5.0)
    assert not unfinished.is_elsewhere(left, bare) and unfinished.is_elsewhere(left, s)
    elsewhere = unfinished.kept(attempt, found, Settings(subject="rope"), 5.0)
    assert elsewhere.link == found.link


# ---- what cannot go on

CHANGES = [
    {"version": 2}, {"check": "00"}, {"asked": ("no_such_kind:1",)}, {"asked": ("kv_head_read:x",)},
    {"asked": ("kv_head_read",)}, {"asked": ("mistake_none:1",)}, {"asked": ("mistake_mask_after_softmax:-",)},
    {"again": "bogus:1"}, {"link": {"interview": "15"}, "of": "interview"},
    {"given": ("what?",), "stamps": (1.0,), "spent": 2.0},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_what_cannot_be_built_again_is_refused_in_a_sentence(change: dict) -> None:
    attempt = begin(Settings(subject="heads", questions=2, level=1, question_set=7), "set", Answers(), 0.0)
    found = unfinished.begun(attempt, Settings(), id="7f", turn=0, at="2026-11-28T20:00:00Z")
    with pytest.raises(unfinished.CannotGoOn, match="cannot be continued.*Start a new one"):
        unfinished.attempt_of(replace(found, **change), 10.0)


def test_all_that_is_kept_of_the_longest_interview_is_a_few_kilobytes() -> None:
    s = Settings(interview="60", question_set=7)
    attempt = interview.begin(s, 0.0)
    begun = unfinished.begun(attempt, s, id="7f3a" * 3, turn=3, at="2026-11-28T20:00:00Z")
    while not attempt.done:
        attempt = answer(attempt, 60.0 * len(attempt.given))
    text = Progress(unfinished={"interview": unfinished.kept(attempt, begun, s, 1999.0)}).json()
    assert asdict(parsed(text)[0].unfinished["interview"])["asked"] and len(text) < 3_000
