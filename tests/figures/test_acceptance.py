"""The picture of speculative decoding's rule, on proposals whose numbers are solved by hand."""

import pytest

from attnviz.decode import Round
from attnviz.decode.comparisons import Speculated, Spread
from attnviz.decode.speculation import Checked
from attnviz.figures.speculation import acceptance
from tests.arithmetic import results
from tests.reading import numbers_in, numbers_where

WORDS = ["a", "b", "c", "d"]
FOUND = Speculated(
    (
        Round([1, 2], 1, [1, 3], (Checked(1, 0.25, 0.5, 0.9, 0.75), Checked(2, 0.5, 0.125, 0.3, 0.25))),
        Round([0], 1, [0, 2], (Checked(0, 0.5, 0.25, 0.4, 0.5),)),
    )
)


def test_bars_marks_and_table_are_those_of_the_rule():
    drawing = acceptance(FOUND, WORDS, k=2)
    accepted, rejected, marks = drawing.figure.data
    assert (list(accepted.x), list(accepted.y)) == ([0, 2], [1, 0.5]) and (list(rejected.x), list(rejected.y)) == (
        [1],
        [0.25],
    )
    assert list(marks.y) == [0.9, 0.3, 0.4] and numbers_in(drawing.title)[:2] == [2, 3]
    assert drawing.table["accepted"] == [True, False, True] and drawing.table["pass"] == [1, 1, 2]
    assert list(drawing.figure.layout.xaxis.ticktext) == ["b", "c", "a"]


def test_tokens_per_pass_by_the_papers_formula():
    """(1 - 0.5 ** 3) / (1 - 0.5) = 1.75."""
    drawing = acceptance(FOUND, WORDS, k=2)
    assert results(drawing.formula)[-1] == pytest.approx(1.75, abs=0.0051)
    assert numbers_where("α = #", drawing.legend) == [0.5]
    assert acceptance(FOUND, WORDS, k=3).formula == ""  # of a drafter that proposed fewer


SURE = Speculated((Round([1, 2], 2, [1, 2, 3], (Checked(1, 1.0, 1.0, 0.5, 1.0), Checked(2, 1.0, 1.0, 0.5, 1.0))),))


def took(*seconds: float) -> list[Spread]:
    return [Spread.of([each]) for each in seconds]


@pytest.mark.parametrize(
    ("found", "cost", "tokens", "speed_up", "pays"),
    [
        (FOUND, 0.25, 1.75, 0.875 / 0.5 / 1.5, "a single token"),
        (FOUND, 1.0, 1.75, 0.875 / 1.5, "none"),
        (FOUND, 0.45, 1.75, 0.875 / 0.95, "none"),
        (SURE, 0.25, 3, 3 / 1.5, "a single token"),
        (SURE, 1.0, 3, 3 / 3, "none"),
    ],
)
def test_the_speed_up_by_the_papers_formula(found, cost, tokens, speed_up, pays):
    drawing = acceptance(found, WORDS, 2, took(0.004 * cost, 0.004))
    assert results(drawing.formula)[-2:] == [pytest.approx(n, abs=0.0051) for n in (tokens, speed_up)]
    assert numbers_where("c = #", drawing.legend) == [cost] and pays in drawing.legend.rpartition(": ")[2]


def test_the_tokens_here_stand_beside_those_that_are_expected():
    assert numbers_where("# passes here, # were written", acceptance(FOUND, WORDS, k=2).legend) == [2, 2]
    alone = acceptance(SURE, WORDS, k=2)
    assert results(alone.formula) == [pytest.approx(3, abs=0.0051)] and numbers_where("k = #", alone.legend) == [2]


@pytest.mark.parametrize("n", [1, 32, 33, 200])
def test_many_proposals_are_counted_instead_of_named(n):
    many = Speculated((Round([1] * n, n, [1] * n + [2], (Checked(1, 0.5, 0.5, 0.5, 0.5),) * n),))
    assert (acceptance(many, WORDS, k=2).figure.layout.xaxis.ticktext is not None) == (n <= 32)
