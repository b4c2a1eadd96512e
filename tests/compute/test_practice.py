"""An attempt at a set: answers are taken in order, time ends it, and the card says what was right."""

from attnviz.compute import practice as compute
from attnviz.compute.practice import Attempt, Progress
from attnviz.practice.drills import question_set
from attnviz.session.settings import Settings

S = Settings(subject="rope", level=1, questions=3, minutes=2, question_set=9)


def right(attempt: Attempt) -> str:
    return attempt.questions[attempt.at].answer.forms()[0]


def test_a_set_is_answered_in_order_with_feedback():
    attempt = compute.begin(S, "set", Progress(), 100.0)
    assert attempt.questions == tuple(question_set("rope", 1, 3, 9)) and attempt.left(130.0) == 90
    attempt = attempt.answer(right(attempt), 101)
    assert (attempt.at, attempt.answered) == (0, True) and attempt.answer("again", 102) is attempt
    attempt = attempt.next().answer("no", 103).next()
    assert attempt.at == 2 and [g.right for g in attempt.grades()] == [True, False]
    attempt = attempt.answer(right(attempt), 104).next()
    assert attempt.done and [(t.subject, t.right, t.asked) for t in compute.tallies(attempt)] == [("rope", 2, 3)]
    progress = compute.after_all(Progress(), attempt)
    assert progress.again(5) == [attempt.questions[1]]
    again = compute.begin(S, "missed", progress, 0.0)
    assert again.questions == (attempt.questions[1],) and again.left(1e9) == float("inf")


def test_after_the_time_no_answer_counts():
    attempt = compute.begin(S, "set", Progress(), 100.0)
    attempt = attempt.answer(right(attempt), 101).next().answer(right(attempt), 220.5)
    assert attempt.done and [g.right for g in attempt.grades()] == [True, False, False]


def test_the_interview_has_ten_questions_of_all_subjects_and_no_feedback():
    attempt = compute.begin(S, "interview", Progress(), 0.0)
    assert len(attempt.questions) == 10 and len({q.subject for q in attempt.questions}) == 6
    assert attempt.left(0) == 900 and attempt.answer("x", 1).at == 1


def test_the_card_holds_every_question_with_its_answer():
    attempt = compute.begin(S, "set", Progress(), 100.0).stop()
    card = compute.card_text(attempt)
    assert "0 of 3 right" in card and "| RoPE | 0 | 3 |" in card and card.count("no answer") == 3
    for question in attempt.questions:
        assert question.text in card and question.answer.shown() in card
