"""Attempts at a question set: order of answers, time limit, score card."""

from dataclasses import replace
from html import escape
from urllib.parse import parse_qsl

from attnviz.compute import practice as compute
from attnviz.compute.practice import Attempt, Progress
from attnviz.compute.score_card import card
from attnviz.figures import theme
from attnviz.practice.drills import make, question_set
from attnviz.session.pages import PAGES
from attnviz.session.settings import KINDS, Settings
from tests.practice.forms import forms

S = Settings(subject="rope", level=1, questions=3, minutes=2, question_set=9)


def right(attempt: Attempt) -> str:
    return forms(attempt.questions[attempt.at].answer)[0]


def test_a_set_is_answered_in_order_with_feedback():
    attempt = compute.begin(S, "set", Progress(), 100.0)
    assert attempt.questions == tuple(question_set("rope", 1, 3, 9)) and attempt.left(130.0) == 90
    attempt = attempt.answer(right(attempt), 101)
    assert (attempt.at, attempt.answered) == (0, True) and attempt.answer("again", 102) is attempt
    attempt = attempt.next().answer("no", 103).next()
    assert attempt.at == 2 and [g.right for g in attempt.grades()] == [True, False]
    attempt = attempt.answer(right(attempt), 104).next()
    assert attempt.done and [(t.subject, t.right, t.asked) for t in compute.tallies(attempt)] == [("rope", 2, 3)]
    progress = compute.with_answers(Progress(), attempt)
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


def test_a_missed_question_comes_back_between_two_of_a_set_and_does_not_count():
    missed = question_set("heads", 1, 1, 3)[0]
    attempt = compute.begin(replace(S, minutes=0), "set", Progress(), 0.0)
    attempt = attempt.answer(right(attempt), 1).next([missed])
    assert attempt.question == missed and attempt.at == 1
    attempt = attempt.answer("wrong", 2)
    assert attempt.answered and attempt.answer_given == "wrong" and attempt.at == 1
    attempt = attempt.next([missed])
    assert attempt.question == attempt.questions[1]  # repeated questions are never adjacent
    for _ in range(2):
        attempt = attempt.answer(right(attempt), 3).next([])
    assert attempt.done and [g.right for g in attempt.grades()] == [True] * 3
    timed = compute.begin(S, "set", Progress(), 0.0)
    assert timed.answer(right(timed), 1).next([missed]).again is None


def test_the_card_holds_every_question_with_its_answer():
    attempt = compute.begin(S, "set", Progress(), 100.0).stop(100.0)
    page = card(attempt)
    assert "0 of 3 right" in page and "<tr><td>RoPE<td>0<td>3</tr>" in page and page.count("no answer") == 3
    for question in attempt.questions:
        assert escape(question.text) in page and escape(question.answer.shown()) in page
    assert compute.pages_to_review(attempt)[0][0] == "RoPE" and "To look at again" in page
    assert page.count(theme.WRONG) == 3 and theme.RIGHT not in page
    typed = compute.begin(S, "set", Progress(), 0.0).answer("<script>alert(1)</script>", 1).stop(1)
    assert "<script" not in card(typed)


def test_a_wrong_order_and_the_right_one_are_shown_with_their_first_difference():
    question = make("lines_of_attention", 4)
    answer = question.answer
    right = [answer.items[i] for i in answer.order]
    assert compute.orders(question, "") == {"Right order": "\n".join(right)}
    assert compute.orders(question, forms(answer)[0]) == compute.orders(question, "")
    swapped = [*right[:2], right[3], right[2], *right[4:]]
    given = ", ".join(str(answer.items.index(line) + 1) for line in swapped)
    shown = compute.orders(question, given)
    for title, lines in (("Your order", swapped), ("Right order", right)):
        numbered = [f"{n} {line}" for n, line in enumerate(lines, 1)]
        assert shown[title].split("\n") == [f"{'→' if n == 2 else ' '} {line}" for n, line in enumerate(numbered)]
    assert question.grade(given).explanation == "Right up to line 2; line 3 should be a different one."
    backwards = forms(answer)[0][::-1]
    assert question.grade(backwards).explanation == "Line 1 should be a different one."
    assert compute.shown(question, given) == "your order" and compute.shown(question, "") == "no answer"
    page = card(Attempt((question,), 0.0, given=(given,)))
    assert escape(shown["Your order"]) in page and escape(shown["Right order"]) in page


def test_what_to_look_at_again_names_the_mistake_and_the_lesson():
    names = ("softmax_of_nothing", "partner", "score_of_two_vectors", "kept_by_top_p", "scores")
    review = dict(compute.pages_to_review(Attempt(tuple(make(name, 1) for name in names), 0.0).stop(0.0)))
    assert review["Masks and softmax"][0] == ("Mistakes: A fully masked row", "mistakes?mistake=fully_masked_row")
    assert ("Lesson “From score to weight”", ".?lesson=score-to-weight") in review["Masks and softmax"]
    assert [name for name, _ in review["RoPE"]] == ["RoPE: Two layouts"]  # no lesson has a step there
    assert review["Shapes"][1] == ("Lesson “How a token is made”", ".?lesson=next-token")  # not that on MLA
    assert review["Decoding and speed"][1] == ("Lesson “How a token is made”", ".?lesson=next-token")


def test_where_a_question_is_seen_is_a_page_with_its_settings():
    for question in question_set("", 3, 50, 4):
        name, address = compute.where(question)
        path, _, link = address.partition("?")
        page = PAGES[path]
        settings, notices = Settings.from_link(dict(parse_qsl(link)), page)
        assert name.startswith(page.name) and not notices
        assert all(getattr(settings, key) == KINDS[key].read(value) for key, value in parse_qsl(link))
