"""The picture of speculative decoding's rule, on proposals whose numbers are solved by hand."""

import pytest

from attnviz.decode import Round
from attnviz.decode.comparisons import Speculated, Spread
from attnviz.decode.speculation import Checked
from attnviz.figures.speculation import acceptance

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
    assert list(marks.y) == [0.9, 0.3, 0.4] and drawing.title.startswith("2 of 3 checked proposals")
    assert drawing.table["accepted"] == [True, False, True] and drawing.table["pass"] == [1, 1, 2]
    assert list(drawing.figure.layout.xaxis.ticktext) == ["b", "c", "a"]


def test_tokens_per_pass_by_the_papers_formula():
    """(1 - 0.5 ** 3) / (1 - 0.5) = 1.75."""
    drawing = acceptance(FOUND, WORDS, k=2)
    assert "= 1.75" in drawing.formula and "α = 0.5" in drawing.legend
    assert acceptance(FOUND, WORDS, k=3).formula == ""  # of a drafter that proposed fewer


SURE = Speculated((Round([1, 2], 2, [1, 2, 3], (Checked(1, 1.0, 1.0, 0.5, 1.0), Checked(2, 1.0, 1.0, 0.5, 1.0))),))


def took(*seconds: float) -> list[Spread]:
    return [Spread.of([each]) for each in seconds]


@pytest.mark.parametrize(
    ("found", "cost", "values", "ending"),
    [
        (FOUND, 0.25, ("= 1.75", "= 1.17"), "a single token."),
        (FOUND, 1.0, ("= 1.75", "= 0.58"), "none, as α is not above c."),
        (FOUND, 0.45, ("= 1.75", "= 0.92"), "none with k = 2."),
        (SURE, 0.25, ("= 3", "= 2.00"), "a single token."),
        (SURE, 1.0, ("= 3", "= 1.00"), "none, as α is not above c."),
    ],
)
def test_the_speed_up_by_the_papers_formula(found, cost, values, ending):
    """0.875 / (0.5 · (2 · 0.25 + 1)) = 1.1667; with c = 1 0.875 / 1.5, with 0.45 0.875 / 0.95; with α = 1 3 / 1.5."""
    drawing = acceptance(found, WORDS, 2, took(0.004 * cost, 0.004))
    assert all(value in drawing.formula for value in values) and f"c = {cost:g}" in drawing.legend
    assert drawing.legend.endswith(ending)


def test_the_tokens_here_stand_beside_those_that_are_expected():
    assert "In the 2 passes here, 2.00 were written per pass" in acceptance(FOUND, WORDS, k=2).legend
    alone = acceptance(SURE, WORDS, k=2)
    assert alone.formula.endswith("= 3.00") and alone.legend.startswith("k = 2: tokens proposed per pass. With α = 1")


@pytest.mark.parametrize("n", [1, 32, 33, 200])
def test_many_proposals_are_counted_instead_of_named(n):
    many = Speculated((Round([1] * n, n, [1] * n + [2], (Checked(1, 0.5, 0.5, 0.5, 0.5),) * n),))
    assert (acceptance(many, WORDS, k=2).figure.layout.xaxis.ticktext is not None) == (n <= 32)
