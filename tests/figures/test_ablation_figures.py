"""The titles of the map of ablations say what was measured, not how important a head is."""

import re

import numpy as np
import pytest

from attnviz.figures.ablation import effect_map, next_tokens
from attnviz.figures.theme import FAINT, OUTLINE
from tests.reading import numbers_in, numbers_where


@pytest.mark.parametrize(
    ("row", "before", "head", "numbers"),
    [
        ([2.0, 2.75, 1.5], 2.0, "L1 H1", [2, 2.75]),
        ([2.0, 2.75, 1.5], 3.0, "No .*L1 H1", [3, 2.75]),
        ([2.0, np.nan, 2.25], 2.0, "L1 H2", [5, 6, 2, 2.25]),  # after 5 of 6 heads
    ],
)
def test_the_title_names_the_ablation_that_raises_the_loss_most(row, before, head, numbers):
    drawing = effect_map(np.array([[1.9, 1.8, 1.7], row]), before, "zero", 0, 2)
    assert re.search(head, drawing.title) and numbers_in(drawing.title) == numbers
    assert numbers_in(drawing.alt)[:2] == [2, 3]  # layers, heads


def test_the_losses_of_the_title_differ_by_the_change_that_is_printed():
    drawing = effect_map(np.array([[1.9, 2.3806]]), 2.2754, "zero", 0, 1)  # 2.381 − 2.275 would be 0.106
    before, after = numbers_in(drawing.title)[-2:]
    (largest,) = numbers_where(r"to \+#\.", drawing.alt)
    assert largest == 0.105 and round(after - before, 3) == largest


def test_cells_without_an_effect_have_borders_too():
    figure = effect_map(np.full((2, 3), 1.9), 1.9, "zero", 0, 2).figure
    assert list(figure.layout.xaxis.minor.tickvals) == [0.5, 1.5] and list(figure.layout.yaxis.minor.tickvals) == [0.5]
    assert figure.layout.xaxis.minor.showgrid and figure.layout.xaxis.minor.gridcolor == FAINT
    _, around = figure.layout.shapes
    assert (around.x0, around.x1, around.y0, around.y1) == (-0.5, 2.5, -0.5, 1.5)


def test_faint_bars_of_all_heads_are_outlined():
    before, after = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.7, 0.1])
    all_heads, ablated = next_tokens(before, after, list("abc"), "x", 0, None).chart.data
    assert all_heads["marker"] == {"color": FAINT, "line": OUTLINE} and ablated["marker"]["color"] != FAINT
