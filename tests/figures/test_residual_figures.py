"""Norms of the residual stream: the first token is apart, so that the others can be told from one another."""

import math

import numpy as np
import pytest

from attnviz.figures.residual import stream, written
from attnviz.figures.theme import FAINT, OUTLINE
from tests.reading import numbers_where, value

NAMES = ["embedding", "attention 0", "feed-forward 0"]
SINK = np.array([[3.0, 2.0, 4.0], [19.0, 5.0, 7.0], [21_000.0, 11.0, 130.0]])  # token 0 as in SmolLM2-135M


def test_the_first_token_is_in_neither_the_mean_nor_the_colour_scale():
    drawing = stream(SINK, NAMES, list("abc"), 1, 576)
    assert numbers_where("from # to #.* token #", drawing.title) == [3, 70.5, 0]
    assert numbers_where("Token #, “a”, reaches #", drawing.note.replace("\\", "")) == [0, 21_000]
    (cells,) = drawing.figure.data
    assert (cells.zmin, cells.zmax) == (pytest.approx(math.log10(2)), pytest.approx(math.log10(130)))
    shades = (np.array(cells.z) - cells.zmin) / (cells.zmax - cells.zmin)
    assert np.diff(np.sort(shades[:, 1:].ravel())).min() > 0.05  # each norm of the others has a shade of its own
    assert shades[2, 0] > 1 and cells.customdata[2, 0] == 21_000


def test_nothing_is_beyond_the_colours_where_the_first_token_is_like_the_others():
    assert "beyond" not in stream(SINK[:2, ::-1], NAMES[:2], list("abc"), 1, 576).note


@pytest.mark.parametrize("norms", [SINK[:, :1], np.zeros((3, 1)), np.zeros((3, 2)), np.ones((3, 5))])
def test_one_token_and_equal_norms_have_a_scale(norms):
    (cells,) = stream(norms, NAMES, list("abcde")[: norms.shape[1]], 0, 576).figure.data
    assert cells.zmin < cells.zmax and np.isfinite(np.array(cells.z, float)).all()
    assert written(norms, NAMES, 0, "a").figure.data


@pytest.mark.parametrize("high", [1.4, 17.0, 260.0, 21_000.0, 3e7])
def test_the_ends_of_the_colour_scale_are_named_and_few_numbers_between(high):
    norms = np.array([[1.0, 1.3], [1.0, high]])
    bar = stream(norms, NAMES[:2], list("ab"), 1, 576).figure.data[0].colorbar
    assert len(bar.tickvals) == len(bar.ticktext) <= 10
    numbers = [value(text) for text in bar.ticktext]
    assert numbers[0] == 1.3 and numbers[-1] == pytest.approx(high, rel=0.05)
    assert list(bar.tickvals) == sorted(bar.tickvals)
    assert 10 ** np.array(bar.tickvals) == pytest.approx(numbers, rel=0.05)
    cells = stream(norms, NAMES[:2], list("ab"), 1, 576).figure.data[0]
    assert (bar.tickvals[0], bar.tickvals[-1]) == (cells.zmin, cells.zmax)  # those outside are not drawn


def test_what_the_others_write_is_a_mean_without_the_first_token_too():
    selected, mean = written(SINK, NAMES, 2, "c").chart.data
    assert list(selected["x"]) == [4, 7, 130] and list(mean["x"]) == [3, 6, 70.5]
    assert mean["marker"] == {"color": FAINT, "line": OUTLINE} and mean["name"] == "mean without token 0"


def test_sixty_parts_fit_a_screen_and_each_has_its_name():
    n = 61
    names = ["embedding", *(f"{part} {i}" for i in range(30) for part in ("attention", "feed-forward"))]
    norms = np.random.default_rng(3).uniform(1, 9, (n, 7))
    for drawing in (stream(norms, names, list("abcdefg"), 1, 576), written(norms, names, 1, "b")):
        height, axis = drawing.chart.layout["height"], drawing.chart.layout["yaxis"]
        assert height < 1000 and len(axis["tickvals"]) == n and height / n > 14
