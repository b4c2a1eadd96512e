"""The steps of a solution, and what rounding on the way does: read from what is printed."""

import pytest

from attnviz.practice.drills import KINDS
from attnviz.practice.drills.answers import NumberAnswer
from tests.practice.asked import make
from tests.practice.printed import computed, rounded_on_the_way

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
