"""Figures of the Step by step page."""

import math
import re

import numpy as np
import pytest

from attnviz.decode.comparisons import Spread
from attnviz.experiments.residual import Lens, part_names
from attnviz.figures.steps import attribution, lens_map, lens_table, tile_row, tile_table, tiles_text
from attnviz.figures.theme import TEXT
from attnviz.figures.traffic import kernel_times, traffic
from tests.arithmetic import check
from tests.reading import numbers_in


@pytest.mark.parametrize("bias", [[], ["last norm's bias"]])
def test_the_formula_of_a_logit_stays_short_with_many_layers(bias):
    names = [*part_names(48), *bias]
    added = np.random.default_rng(7).normal(size=len(names))
    drawing = attribution(added, names, "·red", float(added.sum()), "·a")
    assert check(drawing.formula) == []
    assert max(line.count("+") + line.count("-") for line in re.split(r"\\\\|\n", drawing.formula)) <= 2 * (
        2 + len(bias)
    )
    assert "A = " in drawing.legend and f"{added[1:97:2].sum():.4f}".replace("-", "−") in drawing.legend
    assert ("b = " in drawing.legend) == bool(bias)


def test_the_terms_of_a_logit_have_as_many_decimals_as_their_sum():
    formula = attribution(np.array([0.0604, 4.4146, 3.7683]), part_names(1), "·red", 8.2433, "·a").formula
    decimals = {len(number.partition(".")[2]) for number in re.findall(r"\d+\.\d+", formula)}
    assert decimals == {4} and check(formula) == []


@pytest.mark.parametrize(
    ("added", "word", "number"),
    [([0.3, 1.324, -1.404], "ttention 0 adds most", 1.324), ([-0.3, -0.1, -1.4], "ttention 0 lowers it least", -0.1)],
)
def test_a_part_that_lowers_the_logit_does_not_add_most(added, word, number):
    title = attribution(np.array(added), part_names(1), "·red", sum(added), "·a").title
    assert word in title and numbers_in(title)[-1] == number


def test_only_the_softmax_is_said_to_ignore_a_constant():
    """By hand: a soft cap c · tanh(logit / c) maps a constant added to all logits to different additions."""
    logits = np.array([1.0, 2.0, 4.0])
    odds = [
        np.exp(z) / np.exp(z).sum()
        for z in (logits, logits + 3, 5 * np.tanh(logits / 5), 5 * np.tanh((logits + 3) / 5))
    ]
    assert np.allclose(odds[0], odds[1]) and not np.allclose(odds[2], odds[3], atol=0.01)
    drawing = attribution(np.array([0.3, 1.3, -1.4]), part_names(1), "·red", 0.2, "·a")
    assert "softmax" in drawing.more and "a soft cap does not" in drawing.more and "constant" not in drawing.note


@pytest.mark.parametrize(
    ("predicted", "stays"),
    [
        ([3, 1, 2, 5], "only with the last layer"),
        ([3, 5, 2, 5], "returns with the last layer"),
        ([5, 1, 2, 5], "returns with the last layer"),
        ([3, 1, 5, 5], "the same from layer 1 on"),
        ([5, 5, 5, 5], "the same from embedding on"),
    ],
)
def test_a_prediction_of_the_last_layer_alone_is_not_said_to_stay(predicted, stays):
    read = Lens(np.array([[0, token] for token in predicted]), np.full((4, 2), 0.5))
    drawing = lens_map(read, [list("uvwxyz")] * 2, list("ab"), 1, 3)
    assert drawing.title.endswith(stays) and "“b”" in drawing.title
    assert drawing.chart.data[0]["textfont"]["color"] == drawing.chart.layout["shapes"][0]["line"]["color"] == TEXT


def test_a_byte_in_the_lens_is_named_by_what_it_completes_at_its_own_token():
    read = Lens(np.array([[0, 1], [1, 1]]), np.full((2, 2), 0.5))
    after = [["<0xE5> 儿…", "<0xBA>"], ["<0xE5> 儿…", "<0xBA> 序…"]]
    drawing = lens_map(read, after, ["a", "<0xE5>"], 1, 1)
    assert drawing.table["most probable next"] == ["<0xE5> 儿…", "<0xBA> 序…", "<0xBA>", "<0xBA> 序…"]
    assert lens_table(read, after, ["a", "<0xE5>"], 1)["1 <0xE5>"] == ["<0xBA> 序… 0.50", "<0xBA> 序… 0.50"]
    drawn = drawing.chart.data[0]
    assert drawn["customdata"][0][0] == "\u2068&lt;0xE5&gt; 儿…\u2069" and drawn["text"][0][0] == "\u2068E5 儿…\u2069"
    assert "byte E5, a part of 儿" in drawing.note
    two = [["u", "<0xE5A4> 夕…"], ["v", "u"]]
    assert "bytes E5A4, a part of 夕" in lens_map(read, two, ["a", "b"], 1, 1).note
    assert "byte" not in lens_map(read, [list("uv")] * 2, list("ab"), 1, 1).note


TILES = {"from key": [0, 2, 4], "up to key": [1, 3, 4], "maximum": [-math.inf, 1.5, 2.5],
         "factor": [0.0, 0.0, math.exp(-1)], "sum": [0.0, 1.0, 1.2], "output norm": [0.0, 3.0, 2.0]}  # fmt: skip


def test_before_the_first_tile_with_a_key_nothing_is_rescaled():
    assert tile_table(TILES)["factor"] == [None, None, math.exp(-1)]
    scores, allowed = np.array([9.0, 9.0, 1.5, 0.5, 2.5]), np.array([False, False, True, True, True])
    drawing = tile_row(scores, allowed, TILES, list("abcde"), 4, "#123456")
    assert numbers_in(drawing.title) == [3] and "once" in drawing.title
    assert drawing.table["factor"][:2] == [None, None] and drawing.missing == "–" and "“–”" in drawing.more


def test_the_running_maximum_is_drawn_over_the_whole_of_each_tile():
    scores, allowed = np.array([1.0, 0.5, 1.5, 0.5, 2.5]), np.ones(5, bool)
    table = {**TILES, "maximum": [1.0, 1.5, 2.5], "factor": [0.0, math.exp(-0.5), math.exp(-1)]}
    _, line = tile_row(scores, allowed, table, list("abcde"), 4, "#123456").figure.data
    assert list(line.x) == [-0.5, 1.5, 1.5, 3.5, 3.5, 4.5]  # from the left edge of key 0
    assert list(line.y) == [1.0, 1.0, 1.5, 1.5, 2.5, 2.5]


def test_one_query_token_is_not_all_of_them():
    assert numbers_in(tiles_text(1, 0.0)) == [] and "equals" in tiles_text(1, 0.0)
    assert numbers_in(tiles_text(29, 6.6e-7).replace("*", "")) == [29, 6.6e-7]


@pytest.mark.parametrize(
    "n_tokens, block, times",  # by hand: 4·(4·T·29 + 4·T²) B against 4·(2·T·29)·(1 + ceil(T / block)) B
    # 480 and 464 B; 2,720 and 6,960 B; 2,164 and 290 numbers per token
    [(1, 1, 1.03), (5, 1, 0.39), (512, 128, 7.46)],
)
def test_the_title_on_tiles_says_how_many_bytes_they_move(n_tokens, block, times):
    drawing = traffic(n_tokens, 29, 29, block)
    assert (
        numbers_in(drawing.title) == [n_tokens, times, block]
        and "⌈M / 4d⌉" in drawing.more
        and "2205.14135" in drawing.more
    )


def bytes_moved(T: int, D: int, V: int, block: int) -> tuple[int, int]:
    """Count the bytes of each array that is read or written, in fp32."""
    q, k, v, output, scores = np.empty((T, D)), np.empty((T, D)), np.empty((T, V)), np.empty((T, V)), np.empty((T, T))
    whole = [q, k, scores, scores, scores, scores, v, output]  # scores and weights are each written and read
    tiled = [array for rows in range(0, T, block) for array in (q[rows : rows + block], k, v)] + [output]
    return tuple(4 * sum(array.size for array in arrays) for arrays in (whole, tiled))


@pytest.mark.parametrize("T, D, V, block", [(29, 31, 23, 7), (29, 23, 31, 29), (5, 7, 3, 2)])
def test_queries_and_values_of_different_widths_are_counted_as_such(T, D, V, block):
    drawing = traffic(T, D, V, block)
    at = drawing.table["tokens"].index(T)
    shown = drawing.table["full score matrix, B"][at], drawing.table[f"tiles of {block}, B"][at]
    assert shown == bytes_moved(T, D, V, block)
    assert all(f"{n:,}".replace(",", "{,}") in drawing.formula for n in shown) and check(drawing.formula) == []


def test_the_ratio_approaches_what_the_note_says_and_is_drawn_at_the_texts_length():
    drawing = traffic(29, 23, 31, 17)  # 4 · 17 / (23 + 31)
    this, *_ = [line for line in drawing.figure.data if line.mode == "lines" and line.name]
    assert this.y[-1] == pytest.approx(4 * 17 / 54, rel=2e-3) and numbers_in(drawing.note)[-1] == 1.26
    (dot,) = [line for line in drawing.figure.data if line.mode == "markers"]
    whole, tiled = bytes_moved(29, 23, 31, 17)
    assert (dot.x[0], dot.y[0]) == (29, whole / tiled)


def test_times_are_divided_length_by_length():
    full, tiled = [[Spread(t, t, t, 5) for t in times] for times in ((0.003, 0.035), (0.002, 0.005))]
    drawing = kernel_times([128, 512], [*full, *tiled], 19)
    assert drawing.table["full score matrix / tiles"] == [1.5, 7.0]
    assert numbers_in(drawing.title) == [512, 7.0] and 19 in numbers_in(drawing.note)


def test_fully_masked_tiles_are_counted():
    """The tiles are keys 0–1, 2–3 and 4."""
    scores = np.array([9.0, 9.0, 1.5, 0.5, 2.5])
    for keys, n_masked in (([2, 4], 1), ([0, 3, 4], 0), ([1], 2)):
        allowed = np.isin(range(5), keys)
        more = tile_row(scores, allowed, TILES, list("abcde"), 4, "#123456").more
        assert numbers_in(more)[:2] == [n_masked, 3]
