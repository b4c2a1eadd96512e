"""The mock interview that mixes forms: what it asks, the time that it takes, its score card, and the last one."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from attnviz.compute import interview
from attnviz.compute.mistaken_line import of_mistake
from attnviz.compute.practice import (
    Attempt,
    Progress,
    ended,
    pages_to_review,
    shown,
    subject_name,
    to_tick,
    with_answers,
)
from attnviz.practice.drills.answers import ChoiceAnswer, SpokenAnswer
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.settings import Settings
from tests.practice.forms import forms


def begun(minutes: str = "15", seed: int = 11) -> Attempt:
    return interview.begin(Settings(interview=minutes, question_set=seed), 100.0)


def answered(attempt: Attempt, seconds: float) -> Attempt:
    """Answer each question rightly, after as many seconds each; of spoken ones all points but one are ticked."""
    for i, question in enumerate(attempt.questions, 1):
        answer = question.answer
        given = " ".join(["said", *map(str, range(len(answer.points) - 1))]) if isinstance(answer, SpokenAnswer) else ""
        attempt = attempt.answer(given or forms(answer)[0], 100.0 + i * seconds)
    return attempt


@pytest.mark.parametrize(("minutes", "n"), [("15", (2, 3, 1, 2)), ("30", (4, 6, 2, 4)), ("60", (8, 12, 4, 8))])
def test_each_length_has_its_forms_and_its_usual_times_fill_it(minutes: str, n: tuple[int, ...]) -> None:
    attempt = begun(minutes)
    assert tuple(attempt.plan.count(form) for form in interview.FORMS) == n
    assert attempt.seconds == 60 * int(minutes) == sum(interview.USUAL[form] for form in attempt.plan)
    kinds = [question.kind for question in attempt.questions]
    spoken = [question for question in attempt.questions if isinstance(question.answer, SpokenAnswer)]
    assert len({question.id for question in attempt.questions}) == len(kinds)
    assert len({question.subject for question in spoken}) == min(len(spoken), 8)
    assert [each.text for each in begun(minutes).questions] == [each.text for each in attempt.questions]
    assert [each.text for each in begun(minutes, 12).questions] != [each.text for each in attempt.questions]
    code = [kind for kind, form in zip(kinds, attempt.plan, strict=True) if form == "code"]
    assert set(code) <= set(interview.CODE_KINDS) and len({*code}) == len(code)
    assert max(Counter(kinds).values()) <= 2


def test_a_mistake_is_one_of_the_lines_shown_at_different_places() -> None:
    asked = {(name, seed): of_mistake(name, seed) for name in MISTAKES for seed in range(3)}
    found = {key: question for key, question in asked.items() if question}
    places = Counter()
    for (name, _), question in found.items():
        assert isinstance(question.answer, ChoiceAnswer) and question.grade(str(question.answer.right)).right
        line = question.answer.options[question.answer.right]
        assert line in question.code and question.link == ("mistakes", {"mistake": name, "hunt": "0"})
        assert not any(option.startswith(("#", '"""', "def ")) for option in question.answer.options)
        places[question.answer.right] += 1
    assert len({name for name, _ in found}) >= 0.6 * len(MISTAKES)
    assert len(places) >= 3 and max(places.values()) < 0.6 * len(found)


def test_the_score_card_counts_points_and_time_by_form_and_subject() -> None:
    attempt = answered(begun(), 60.0)
    assert attempt.done and all(grade.right for grade in attempt.grades())
    rows = {row.name: (row.right, row.asked, row.used, row.usual) for row in interview.by_form(attempt)}
    assert rows == {
        "spoken": (2, 2, 120, 300), "computed": (3, 3, 180, 270), "code": (1, 1, 60, 90), "mistake": (2, 2, 120, 240),
    }  # fmt: skip
    subjects = interview.by_subject(attempt)
    assert sum(row.used for row in subjects) == 480 and sum(row.usual for row in subjects) == 900
    assert {row.name for row in subjects} == {question.subject for question in attempt.questions}
    card = interview.summary(attempt)
    assert (card["minutes"], card["right"], card["asked"], card["used"]) == (15, 8, 8, 480)
    assert sum(right for right, _ in card["subjects"].values()) == 8
    assert json.loads(interview.as_json(attempt))["forms"]["code"] == [1, 1, 60, 90]
    written = interview.as_markdown(attempt)
    assert "# Mock interview: 8 of 8 right in 8:00" in written and "| Reading code | 1 | 1 | 1:00 | 1:30 |" in written
    assert len(json.dumps(interview.summary(answered(begun("60"), 9)))) < 2_000  # of 4,000 that a browser keeps


def test_points_are_ticked_afterwards_and_cards_come_back_by_them() -> None:
    attempt = answered(begun(), 60.0)
    first = attempt.plan.index("spoken")
    answer, id = attempt.questions[first].answer, attempt.questions[first].kind
    assert isinstance(answer, SpokenAnswer)
    grades = {}
    for n in range(len(answer.points) + 1):
        ticked = attempt.given_again(first, " ".join(["said", *map(str, range(n))]))
        grades[n] = interview.grades_of_cards(ticked)[id], ticked.grades()[first].right
    assert len(answer.points) == 5
    assert grades == {0: (0, False), 1: (0, False), 2: (0, False), 3: (1, False), 4: (2, True), 5: (2, True)}
    assert shown(attempt.questions[first], "said 0 9") == "said aloud"
    assert answer.ticked("said 0 9 x") == {0}


def test_what_is_not_ticked_yet_is_neither_right_nor_wrong() -> None:
    attempt = answered(begun(), 60.0)
    spoken_ = [i for i, form in enumerate(attempt.plan) if form == "spoken"]
    for i, given in zip(spoken_, ("said", ""), strict=True):  # the second one was not known
        attempt = attempt.given_again(i, given)
    card = interview.summary(attempt)
    assert to_tick(attempt) == spoken_[:1] and (card["right"], card["unticked"]) == (6, 1)
    assert interview.scored(card) == "6 of 8 right so far in 8:00, 1 answer aloud not ticked"
    assert "# Mock interview: 6 of 8 right so far" in interview.as_markdown(attempt)
    assert pages_to_review(attempt)[0][0] == subject_name(attempt.questions[spoken_[1]].subject)
    assert len(pages_to_review(attempt)) == 1  # the one that was not known, and not the other
    kept = {**card, "at": "2026-11-28T20:00:00Z"}
    assert interview.past([kept]) == [("2026-11-28", "15 minutes", "6 of 8, 1 not ticked", "8:00")]
    none = interview.summary(attempt.given_again(spoken_[0], "said none"))
    assert interview.scored(none) == "6 of 8 right in 8:00" and "unticked" not in none
    last = "Last time, on 2026-11-28: 6 of 8 right"
    assert interview.compared(none, [kept]) == f"{last} so far in 8:00, 1 answer aloud not ticked."
    assert interview.compared(card, [{**none, "at": kept["at"]}]) == f"{last} in 8:00."
    assert interview.compared(none, [{**none, "at": kept["at"]}]) == f"{last} in 8:00; as many now."
    assert interview.past([{**kept, "unticked": "x"}])[0][2] == "6 of 8"


@pytest.mark.parametrize("n_points", [3, 5, 6, 7])
def test_a_spoken_answer_that_counts_as_right_is_graded_good(n_points: int) -> None:
    attempt = answered(begun(), 60.0)
    first = attempt.plan.index("spoken")
    question = replace(attempt.questions[first], answer=SpokenAnswer(tuple("abcdefg"[:n_points])))
    attempt = replace(attempt, questions=(*attempt.questions[:first], question, *attempt.questions[first + 1 :]))
    for n in range(n_points + 1):
        ticked = attempt.given_again(first, " ".join(["said", *map(str, range(n))]))
        assert ticked.grades()[first].right == (3 * n >= 2 * n_points)
        assert interview.grades_of_cards(ticked)[question.kind] == (
            2 if 3 * n >= 2 * n_points else int(2 * n >= n_points)
        )


def test_an_interview_that_is_ended_early_has_no_time_for_what_was_not_reached() -> None:
    attempt = begun()
    attempt = attempt.answer("", 190.0).stop(223.0)
    assert attempt.done and [row.used for row in interview.by_form(attempt)] == [90, 33, 0, 0]
    assert [row.usual for row in interview.by_form(attempt)] == [150, 90, 0, 0]
    assert interview.time_of(attempt, 0) == "1:30, usual 2:30"
    assert interview.time_of(attempt, 1) == "0:33, usual 1:30"  # on screen until the end
    assert interview.time_of(attempt, 2) == "not reached, usual 2:00"
    assert ended(attempt) == "You ended it at question 2 of 8."
    assert "Mistakes" in dict(pages_to_review(attempt))
    counted = with_answers(Progress(), attempt)
    assert sum(asked for _, asked in counted.counts.values()) == 4  # drills: three computed, one on code


def test_an_interview_that_ran_out_says_so_and_its_times_add_up_to_its_length() -> None:
    attempt = begun()  # at second 100, of 15 minutes
    attempt = attempt.answer("", 102.4)
    assert not ended(attempt)
    for out in (attempt.stop(1003.0), attempt.answer("too late", 1003.0)):
        assert out.done and out.given == ("",) * 8 and interview.summary(out)["used"] == 900
        assert ended(out) == "The time was up at question 2 of 8."
        assert [interview.time_of(out, i) for i in (0, 1)] == ["0:02, usual 2:30", "14:58, usual 1:30"]


def test_rounded_times_add_up() -> None:
    attempt, now = begun(), 100.0
    for _ in attempt.questions:
        now += 9.6
        attempt = attempt.answer("", now)
    assert [attempt.used(i) for i in range(8)] == [10, 9, 10, 9, 10, 10, 9, 10]  # 76.8 in all
    rows = interview.by_form(attempt), interview.by_subject(attempt)
    assert {sum(row.used for row in each) for each in rows} == {77} == {interview.summary(attempt)["used"]}
    assert not ended(attempt)


def test_the_last_interview_of_this_length_is_compared_whatever_a_browser_kept() -> None:
    now = interview.summary(answered(begun(), 60.0))
    last = {"minutes": 15, "right": 5, "asked": 8, "used": 725, "at": "2026-11-28T20:00:00Z"}
    foreign = [
        {},
        {"minutes": 15},
        {"minutes": 15, "right": "5", "asked": 8, "used": 1},
        {**last, "minutes": 30},
        {**last, "asked": 10},
    ]
    assert interview.compared(now, [*foreign, last]) == ("Last time, on 2026-11-28: 5 of 8 right in 12:05; 3 more now.")
    assert interview.compared({**now, "right": 5}, [last]).endswith("; as many now.")
    assert interview.compared({**now, "right": 3}, [last]).endswith("; 2 fewer now.")
    assert interview.compared(now, foreign) == "" == interview.compared(now, [])
