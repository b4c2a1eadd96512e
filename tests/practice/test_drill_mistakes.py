"""Known wrong answers: told from the right one and from each other, for many seeds of each kind."""

import math

import pytest

from attnviz.practice import drills
from attnviz.practice.drills import KINDS, Kind, Question
from attnviz.practice.drills.answers import (
    CellAnswer,
    ChoiceAnswer,
    ExpressionAnswer,
    NumberAnswer,
    OrderAnswer,
    ShapeAnswer,
    Wrong,
)
from attnviz.practice.drills.question import _draws, tries
from tests.practice.asked import make
from tests.practice.forms import listed, wrong_answers
from tests.reading import numbers_where


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_each_known_mistake_is_rejected_with_its_own_reason(name):
    """Of all mistakes that a kind names, none is accepted, and none gets the reason of another."""
    for seed in range(300):
        question = make(name, seed)
        reasons = [question.grade(given) for given in wrong_answers(question.answer)]
        where = f"{seed}: {question.text}"
        assert not any(grade.right for grade in reasons) and all(grade.read for grade in reasons), where
        if not isinstance(question.answer, OrderAnswer):
            assert [grade.explanation for grade in reasons] == listed(question.answer), where
            assert len({grade.explanation for grade in reasons}) == len(reasons), where


@pytest.mark.parametrize("name", KINDS)
def test_few_draws_are_thrown_away(name):
    """Of the inputs that can be listed only those are drawn whose answers can be told apart."""
    draws = [
        next(n for n, q in enumerate(_draws(KINDS[name], seed), 1) if not q.answer.clashes()) for seed in range(20)
    ]
    assert sum(draws) <= 1.6 * len(draws)


def test_no_draw_goes_on_for_ever():
    with pytest.raises(RuntimeError, match="100 draws"):
        for _ in tries():
            pass


def test_an_answer_near_a_known_mistake_is_not_accepted():
    """A mistake rounded to three digits is still that mistake: ln 31 is 3.434, ln 32 is 3.466."""
    found = NumberAnswer(math.log(32), "nats", 0.01, (Wrong(math.log(31), "one key too few"),))
    assert found.clashes() and found.grade(repr(math.log(31))).right  # why such a question is drawn again
    assert not NumberAnswer(math.log(8), "nats", 0.01, (Wrong(math.log(7), "one key too few"),)).clashes()
    for seed in range(300):
        answer = make("entropy_of_a_flat_row", seed).answer
        n = round(math.exp(answer.value))
        assert not answer.grade(f"{math.log(n - 1):.3g}").right


@pytest.mark.parametrize(
    "answer",
    [
        NumberAnswer(3, wrong=(Wrong(3, "A."),)),
        NumberAnswer(3, wrong=(Wrong(4, "A."), Wrong(4, "B."))),
        NumberAnswer(100, tolerance=0.01, wrong=(Wrong(101.5, "A."),)),
        NumberAnswer(10 / 65, tolerance=0.01, wrong=(Wrong(0.15, "A."),)),
        ShapeAnswer((2, 3), (((2, 3), "A."),)),
        ShapeAnswer((2, 3), (((3, 2), "A."), ((3, 2), "B."))),
        CellAnswer(((0.0,),), (0, 0), (((0, 0), "A."),)),
        ChoiceAnswer(("a", "b", "a"), 1),
        OrderAnswer(("a", "a"), (0, 1)),
        ExpressionAnswer("2*L", {"L": "layers"}, {"L + L": "A."}),
    ],
)
def test_answers_that_cannot_be_told_apart_are_found(answer):
    assert answer.clashes()


def test_a_number_with_zeros_in_front_is_the_option_of_its_first_digits_or_none():
    answer = ChoiceAnswer(("a", "b"), 1, ("A.", ""))  # a browser can have kept any text
    assert answer.grade("001").right and not answer.grade("000").right
    assert not answer.grade("0009").right and not answer.grade("2").read and not answer.grade("9" * 5000).read


def test_a_kind_whose_mistakes_always_clash_is_not_drawn_for_ever(monkeypatch):
    asked = Question("How many?", NumberAnswer(3, wrong=(Wrong(3, "A."),)), "So.")
    monkeypatch.setitem(KINDS, "clashing", Kind("clashing", "heads", 1, lambda rng: asked))
    with pytest.raises(RuntimeError, match="clashing"):
        drills.make("clashing", 1)


def test_the_cache_left_out_of_the_speed_is_named():
    for seed in range(300):
        question = make("tokens_per_second", seed)
        W, bandwidth = numbers_where("reads # B of weights.* at # TB/s", question.text)
        grade = question.grade(repr(bandwidth * 1e12 / W))
        assert not grade.right and grade.explanation == "The cache is read as well."
