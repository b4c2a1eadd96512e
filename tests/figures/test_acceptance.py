"""The picture of speculative decoding's rule, on proposals whose numbers are solved by hand."""

import pytest

from attnviz.decode import Round
from attnviz.decode.comparisons import Speculated
from attnviz.decode.speculation import Checked
from attnviz.figures.acceptance import acceptance

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
    """(1 - 0.5 ** 3) / (1 - 0.5) = 1.75; where every proposal is accepted, 0 / 0 is not printed."""
    drawing = acceptance(FOUND, WORDS, k=2)
    assert "= 1.75" in drawing.formula and "α = 0.5" in drawing.legend
    assert acceptance(FOUND, WORDS, k=3).formula == ""  # of a drafter that proposed fewer
    sure = acceptance(Speculated((Round([1], 1, [1, 2], (Checked(1, 1.0, 1.0, 0.5, 1.0),)),)), WORDS, k=2)
    assert sure.formula == "" and "Each proposal is accepted: a pass writes k + 1 tokens" in sure.legend


@pytest.mark.parametrize(("cost", "value", "ending"), [(0.25, "= 1.17", "a single token."), (1.0, "= 0.58", "large.")])
def test_the_speed_up_by_the_papers_formula(cost, value, ending):
    """0.875 / (0.5 · (2 · 0.25 + 1)) = 1.1667; with a drafter as slow as the model 0.875 / 1.5 = 0.5833."""
    drawing = acceptance(FOUND, WORDS, k=2, cost=cost)
    assert "= 1.75" in drawing.formula and value in drawing.formula and f"c = {cost:g}" in drawing.legend
    assert drawing.legend.endswith(ending) and "In the 2 passes here, 2.00 were written per pass" in drawing.legend


@pytest.mark.parametrize("n", [1, 32, 33, 200])
def test_many_proposals_are_counted_instead_of_named(n):
    many = Speculated((Round([1] * n, n, [1] * n + [2], (Checked(1, 0.5, 0.5, 0.5, 0.5),) * n),))
    assert (acceptance(many, WORDS, k=2).figure.layout.xaxis.ticktext is not None) == (n <= 32)
