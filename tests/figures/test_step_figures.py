"""Figures of the Step by step page."""

import math
import re

import numpy as np
import pytest

from attnviz.experiments.residual import part_names
from attnviz.figures.steps import attribution, tile_row, tile_table, tiles_text, traffic
from tests.arithmetic import check


@pytest.mark.parametrize("bias", [[], ["last norm's bias"]])
def test_the_formula_of_a_logit_stays_short_with_many_layers(bias):
    names = [*part_names(48), *bias]
    added = np.random.default_rng(7).normal(size=len(names))
    drawing = attribution(added, names, "·red", float(added.sum()), "·a")
    assert check(drawing.formula) == []
    assert max(line.count("+") + line.count("-") for line in drawing.formula.split(r"\\")) <= 2 * (2 + len(bias))
    assert "A = " in drawing.legend and f"{added[1:97:2].sum():.4f}".replace("-", "−") in drawing.legend
    assert ("b = " in drawing.legend) == bool(bias)


def test_the_terms_of_a_logit_have_as_many_decimals_as_their_sum():
    formula = attribution(np.array([0.0604, 4.4146, 3.7683]), part_names(1), "·red", 8.2433, "·a").formula
    decimals = {len(number.partition(".")[2]) for number in re.findall(r"\d+\.\d+", formula)}
    assert decimals == {4} and check(formula) == []


TILES = {"from key": [0, 2, 4], "up to key": [1, 3, 4], "maximum": [-math.inf, 1.5, 2.5],
         "factor": [0.0, 0.0, math.exp(-1)], "sum": [0.0, 1.0, 1.2], "output norm": [0.0, 3.0, 2.0]}  # fmt: skip


def test_before_the_first_tile_with_a_key_nothing_is_rescaled():
    assert tile_table(TILES)["factor"] == [None, None, math.exp(-1)]
    scores, allowed = np.array([9.0, 9.0, 1.5, 0.5, 2.5]), np.array([False, False, True, True, True])
    drawing = tile_row(scores, allowed, TILES, list("abcde"), 4, "#123456")
    assert drawing.title == "3 tiles: the maximum rises 1 time"
    assert drawing.table["factor"][:2] == [None, None] and drawing.missing == "–" and "“–”" in drawing.note


def test_the_running_maximum_is_drawn_over_the_whole_of_each_tile():
    scores, allowed = np.array([1.0, 0.5, 1.5, 0.5, 2.5]), np.ones(5, bool)
    table = {**TILES, "maximum": [1.0, 1.5, 2.5], "factor": [0.0, math.exp(-0.5), math.exp(-1)]}
    _, line = tile_row(scores, allowed, table, list("abcde"), 4, "#123456").figure.data
    assert list(line.x) == [-0.5, 1.5, 1.5, 3.5, 3.5, 4.5]  # from the left edge of key 0
    assert list(line.y) == [1.0, 1.0, 1.5, 1.5, 2.5, 2.5]


def test_one_query_token_is_not_all_of_them():
    assert tiles_text(1, 0.0).startswith("the only query token: the output by tiles equals that of PyTorch's kernel")
    assert tiles_text(29, 6.6e-7).startswith("all 29 query tokens: ") and "at most **6.6e-07**" in tiles_text(
        29, 6.6e-7
    )


@pytest.mark.parametrize(
    "n_tokens, block, words",  # by hand: 4·(4·T·29 + 4·T²) B against 4·(2·T·29)·(1 + ceil(T / block)) B
    [
        (1, 1, "move about as many bytes at 1 token"),  # 480 and 464 B
        (5, 1, "move 2.6× more bytes"),  # 2,720 and 6,960 B
        (512, 128, "move 7.5× fewer bytes"),
    ],
)
def test_the_title_on_tiles_says_how_many_bytes_they_move(n_tokens, block, words):
    assert words in traffic(n_tokens, 29, block).title
