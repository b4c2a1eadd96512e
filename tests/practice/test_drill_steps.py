"""The steps of a solution, and what rounding on the way does: read from what is printed."""

import re

import pytest

from attnviz.practice.drills import KINDS
from attnviz.practice.drills.answers import ExpressionAnswer, NumberAnswer
from tests.practice.asked import make
from tests.practice.printed import bars, computed, rounded_on_the_way

FORMULAS = [name for name in KINDS if isinstance(make(name, 1).answer, ExpressionAnswer)]
EXACT = "when_a_state_is_smaller"  # asked to the last token, of bytes that are powers of two
SOLVED = [name for name in KINDS if make(name, 1).solution]


@pytest.mark.parametrize("name", SOLVED)
def test_the_printed_numbers_amount_to_the_printed_result(name):
    """To its last digit: nobody finds 1,175.1 where 1,175.6 is printed."""
    for seed in range(20):
        for equation in make(name, seed).solution:
            found, printed, half = computed(equation)
            assert found == pytest.approx(printed, rel=1e-9, abs=1.001 * half), equation.text()


@pytest.mark.parametrize("name", SOLVED)
def test_three_digits_on_the_way_or_at_the_end_are_enough(name):
    for seed in range(20):
        question = make(name, seed)
        answer = question.answer
        if not isinstance(answer, NumberAnswer) or name == EXACT:
            continue
        steps = rounded_on_the_way(question.solution[-1], counts=bool(answer.tolerance))
        typed = [f"{step:.4g}" for step in steps] + [f"{answer.value:.3g}"] * bool(answer.tolerance)
        assert all(question.grade(each).right for each in typed), (question.solution[-1].text(), typed)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_explained_letter_by_letter_also_one_that_does_not_belong_in_it(name):
    for seed in range(8):
        question = make(name, seed)
        because = question.because.replace(" d_model", " ").replace("head_dim", "")
        assert {letter for letter in question.answer.letters if not re.search(rf"\b{letter}\b", because)} == set()


@pytest.mark.parametrize("name", SOLVED)
def test_no_fraction_stands_in_another_one(name):
    for seed in range(20):
        assert all(bars(equation.tex()) <= 1 for equation in make(name, seed).solution)


def test_bars_are_counted_through_brackets():
    written = (
        r"a / b",
        r"\tfrac{a}{b} + \tfrac{c}{d}",
        r"\tfrac{\lceil\tfrac{a}{b}\rceil}{c}",
        r"\tfrac{a}{\sqrt{\frac{b}{c}}}",
    )
    assert [bars(tex) for tex in written] == [0, 1, 2, 2]
