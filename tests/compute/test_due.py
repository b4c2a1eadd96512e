"""What is due: the queue of answers, missed drills and missed mistakes, by cases counted by hand."""

from dataclasses import replace
from datetime import date

import pytest

from attnviz.compute import due, interview
from attnviz.compute.practice import Attempt
from attnviz.compute.progress import due_on
from attnviz.exercises import CardState
from attnviz.practice.drills import make
from attnviz.practice.drills.answers import ChoiceAnswer
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.progress import InterviewDay, MistakeState, Progress, merge, parsed

SUNDAY, MONDAY = date(2026, 11, 29), date(2026, 11, 30)
TODAY = MONDAY.isoformat()
DRILL, MISTAKE = "drill:size_of_a_group", "mistake:mask_after_softmax"


def at(due_on: str, days: int, ease: float = 2.5) -> CardState:
    return CardState(due_on, days, ease, 1)


NOTHING = Progress()


def missed(progress: Progress = NOTHING) -> Progress:
    """Return the progress of who missed a drill and a mistake on Sunday."""
    for id in (DRILL, MISTAKE):
        progress = due.answered(progress, id, False, SUNDAY)
    return progress


def test_what_was_missed_is_due_the_next_day_once_however_often_it_was_missed() -> None:
    once = missed()
    assert once.cards == {id: CardState("2026-11-30", 1, 2.3, 1) for id in (DRILL, MISTAKE)}
    assert missed(once) == once and due.answered(once, DRILL, True, SUNDAY) == once  # right an hour later
    assert due.queue(once, "2026-11-29") == [] and due.queue(once, TODAY) == [DRILL, MISTAKE]


def test_a_right_answer_moves_it_on_and_a_wrong_one_back_to_the_next_day() -> None:
    right = due.answered(missed(), DRILL, True, MONDAY)
    assert right.cards[DRILL] == CardState("2026-12-02", 2, 2.3, 2)  # 1 · 2.3 days
    again = due.answered(missed(), DRILL, False, MONDAY)
    assert again.cards[DRILL] == CardState("2026-12-01", 1, 2.1, 2)
    assert due.answered(Progress(), DRILL, True, MONDAY) == Progress()  # what was never missed does not come back


def test_before_an_interview_it_comes_back_earlier_and_a_right_answer_then_counts() -> None:
    kept = Progress(cards={DRILL: at("2026-12-06", 7)}, interview=InterviewDay("2026-12-01", "2026-11-29T08:00:00Z"))
    assert due.queue(kept, TODAY) == [DRILL]
    after = due.answered(kept, DRILL, True, MONDAY)
    assert due.queue(after, TODAY) == [] and after.cards[DRILL].interval_days == 18  # 7 · 2.5


def test_on_the_interviews_day_what_is_missed_comes_once_more_on_it_after_the_others() -> None:
    on_the_day = replace(missed(), interview=InterviewDay(TODAY, "2026-11-29T08:00:00Z"))
    again = due.answered(on_the_day, DRILL, False, MONDAY)
    assert again.cards[DRILL] == CardState(TODAY, 0, 2.1, 2) and due.queue(again, TODAY) == [MISTAKE, DRILL]
    right = due.answered(again, DRILL, True, MONDAY)
    assert right.cards[DRILL].due == "2026-12-01" and due.queue(right, TODAY) == [MISTAKE]
    eve = due.answered(replace(missed(), interview=InterviewDay("2026-12-01", "")), DRILL, False, MONDAY)
    assert eve.cards[DRILL].due == "2026-12-01" and due.queue(eve, TODAY) == [MISTAKE]


def test_the_queue_begins_with_what_was_missed_and_ends_with_what_could_not_be_said() -> None:
    cards = {
        "speculative-exactness": at(TODAY, 1, 2.35), "bytes-per-token": at(TODAY, 1), "why-root-d": at("2026-11-20", 8),
        "absorption": at(TODAY, 0, 2.3), "no-such-card": at(TODAY, 1), "drill:no_such_kind": at(TODAY, 1),
    }  # fmt: skip
    kept = missed(Progress(cards=cards))
    assert due.queue(kept, TODAY) == [
        DRILL, MISTAKE, "why-root-d", "speculative-exactness", "bytes-per-token", "absorption"
    ]  # fmt: skip
    assert due_on(kept, TODAY) == "6 due today: 4 answers, 1 drill, 1 mistake"
    assert due_on(Progress(cards={"bytes-per-token": at(TODAY, 1)}), TODAY) == "1 answer due today: Cache"
    assert due_on(missed(), TODAY) == "2 due today: 1 drill, 1 mistake" and due_on(Progress(), TODAY) == ""


def test_it_says_when_the_next_are_due() -> None:
    assert due.when_next(missed(), "2026-11-29") == "The next 2 are due tomorrow."
    assert due.when_next(Progress(cards={DRILL: at("2026-12-06", 7)}), TODAY) == "The next one is due on 6 December."
    assert due.when_next(missed(), TODAY) == ""


def test_a_drill_comes_back_as_its_kind_with_other_numbers_each_time() -> None:
    first, second = (due.question(DRILL, replace(at(TODAY, 1), seen=seen)) for seen in (1, 2))
    assert first.kind == second.kind == "size_of_a_group" and first.id != second.id
    assert due.question(DRILL, at(TODAY, 1)) == first


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_comes_back_as_a_question_that_accepts_its_answer(name: str) -> None:
    asked = due.question(f"mistake:{name}", at(TODAY, 1))
    assert isinstance(asked.answer, ChoiceAnswer) and asked.grade(str(asked.answer.right)).right and asked.code
    assert due.id_of(asked) == f"mistake:{name}"


def test_what_was_not_reached_in_an_interview_was_not_missed() -> None:
    card = next(iter(interview.questions("spoken", 1, 1)))
    drills = [make(kind, 1) for kind in ("size_of_a_group", "width_of_a_head", "times_smaller")]
    attempt = Attempt((card, *drills), 0.0, 900.0, feedback=False, of="interview")
    attempt = attempt.answer("said 0", 10.0).answer("", 20.0)
    kept = due.after_attempt(Progress(), attempt, SUNDAY)
    assert kept.cards == {DRILL: CardState("2026-11-30", 1, 2.3, 1, "1")}


def test_two_tabs_and_a_file_keep_what_was_missed() -> None:
    one, other = missed(), due.answered(missed(), DRILL, True, MONDAY)
    assert merge(one, other) == merge(other, one) == merge(merge(one, other), one) == other
    assert parsed(other.json()) == (other, "")


def test_a_mistake_is_to_be_found_again_on_the_day_it_was_missed_and_not_once_it_was_answered_rightly() -> None:
    name, sunday = MISTAKE.removeprefix("mistake:"), SUNDAY.isoformat()
    assert due.missed_mistake(missed(), sunday) == name and due.missed_mistake(missed(), TODAY) == ""  # it is due
    right, wrong = (due.answered(missed(), MISTAKE, right, MONDAY) for right in (True, False))
    assert (due.missed_mistake(right, TODAY), due.missed_mistake(wrong, TODAY)) == ("", name)
    found = replace(missed(), mistakes={name: MistakeState(True, "2026-11-29T20:00:00Z")})
    assert due.missed_mistake(found, sunday) == ""
    on_the_day = replace(missed(), interview=InterviewDay(TODAY, "2026-11-29T08:00:00Z"))
    again = due.answered(due.answered(on_the_day, MISTAKE, False, MONDAY), MISTAKE, True, MONDAY)
    assert due.queue(again, TODAY) == [DRILL] and due.missed_mistake(again, TODAY) == ""
    day_after = due.answered(on_the_day, MISTAKE, False, MONDAY)
    day_after = due.answered(day_after, MISTAKE, True, date(2026, 12, 1))
    assert day_after.cards[MISTAKE].due == "2026-12-03" and due.missed_mistake(day_after, "2026-12-01") == ""
