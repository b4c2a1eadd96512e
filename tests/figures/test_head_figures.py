"""The figures of one head, read back from plotly's data and compared with the arrays they were drawn from.

Run: .venv/bin/python -m pytest tests/figures/test_head_figures.py
"""

import re
from itertools import pairwise

import numpy as np
import pytest

from attnviz.config import ModelConfig
from attnviz.figures import head_values, heads, theme, token_maps
from attnviz.figures.head_captions import path_numbers
from attnviz.figures.numbers import printed
from tests.traces import scored

L, H, K, T = 2, 6, 3, 11


def traced(n=T, n_heads=H, n_kv_heads=K, allowed=None, scores=None, seed=0, **config):
    """Return a trace's arrays without a model: random scores, and their softmax over the allowed keys."""
    allowed = np.tri(n, dtype=bool) if allowed is None else allowed
    if scores is None:
        scores = np.random.default_rng(seed).normal(size=(L, n_heads, n, n)) * 2
    config = ModelConfig(n_layers=L, d_model=5 * n_heads, n_heads=n_heads, n_kv_heads=n_kv_heads, **config)
    return scored(config, scores, allowed)


def words(n=T):
    return [["·the", "·cat", "·sat"][i % 3] for i in range(n)]


def masked_and_cells(figure):
    """Return the grey map and the map of weights."""
    masked, cells = (trace for trace in figure.data if trace.type == "heatmap" and trace.xaxis == "x2")
    return masked, cells


def full_ticks(figure):
    return figure.layout.xaxis2.tickvals, figure.layout.xaxis2.ticktext


@pytest.mark.parametrize("layer, head", [(0, 0), (1, 4)])
def test_every_allowed_weight_is_drawn_and_no_other(layer, head):
    trace = traced()
    _, cells = masked_and_cells(heads.head_map(trace, words(), layer, head).figure)
    allowed = trace.allowed[layer]
    assert np.array_equal(np.array(cells.z)[allowed], trace.weights[layer, head][allowed])
    assert np.isnan(np.array(cells.z)[~allowed]).all()
    assert (cells.zmin, cells.zmax) == (0, 1)


def test_masked_cells_are_grey_and_say_so():
    trace = traced()
    masked, cells = masked_and_cells(heads.head_map(trace, words(), 0, 0).figure)
    assert np.array_equal(masked.z, 1 - np.tri(T))
    assert masked.colorscale[-1][1] == theme.MASKED
    assert "masked" in masked.hovertemplate and "weight" not in masked.hovertemplate
    assert not cells.hoverongaps


def test_equal_tokens_keep_places_of_their_own_with_query_0_on_top():
    figure = heads.head_map(traced(), words(), 0, 0).figure
    places, texts = full_ticks(figure)
    assert list(places) == list(range(T))
    assert len(texts) == len(set(texts)) == T  # the index is part of the text
    assert figure.layout.yaxis.range == (T - 0.5, -0.5)
    assert (figure.layout.yaxis2.matches, figure.layout.xaxis2.matches) == ("y", "x")


@pytest.mark.parametrize("n", [1, 5, 30, 120, 512])
def test_ticks_thin_out_at_round_distances(n):
    figure = heads.head_map(traced(n, 2, 1), words(n), 0, 0).figure
    for axis, most in ((figure.layout.xaxis, 24), (figure.layout.yaxis, 36)):
        at = list(axis.tickvals)
        assert at[0] == 0 and len(at) == len(axis.ticktext) <= most
        assert n == 1 or len(at) >= most / 2.6 or len(at) == n
        step = at[1] - at[0] if n > 1 else 1
        assert str(step).rstrip("0") in ("1", "2", "5")
    assert (figure.layout.xaxis.range[0], figure.layout.xaxis.range[1]) == (-0.5, n - 0.5)


def test_long_texts_are_drawn_in_blocks_of_the_largest_weight():
    n = 513  # blocks of 3, the last one full
    trace = traced(n, 2, 1)
    drawing = heads.head_map(trace, words(n), 1, 1)
    masked, cells = masked_and_cells(drawing.figure)
    assert np.array(cells.z).shape == np.array(masked.z).shape == (171, 171)
    assert cells.z[100][7] == trace.weights[1, 1, 300:303, 21:24].max()
    assert (cells.x0, cells.dx, cells.y0, cells.dy) == (1, 3, 1, 3)  # a cell is centred on its tokens
    places, texts = full_ticks(drawing.figure)
    assert places[7] == 22 and texts[7].startswith("21–23 ")
    assert "largest of 3 × 3" in drawing.note


@pytest.mark.parametrize("how", [{}, {"exclude_first": True}])
def test_the_square_root_scale_is_the_default_and_shades_by_the_root_of_the_weight(how):
    trace = traced()
    _, cells, *_ = (
        t for t in heads.head_map(trace, words(), 0, 2, **how).figure.data if t.type == "heatmap" and t.xaxis == "x2"
    )
    stops = [stop for stop, _ in cells.colorscale]
    alpha = [float(colour.rstrip(")").split(",")[-1]) for _, colour in cells.colorscale]
    for q, k in ((5, 3), (7, 2), (10, 9), (4, 4)):
        weight = float(np.array(cells.z)[q, k])
        assert weight == trace.weights[0, 2, q, k]
        assert np.interp(weight / cells.zmax, stops, alpha) == pytest.approx((weight / cells.zmax) ** 0.5, abs=0.008)


@pytest.mark.parametrize(
    ("scale", "top", "printed_at"),
    [
        ("root", 1.0, {0: "0", 0.25: "0.0625", 0.5: "0.25", 0.75: "0.563", 1: "1"}),
        ("root", 0.32, {0: "0", 0.25: "0.02", 0.5: "0.08", 0.75: "0.18", 1: "0.32"}),
        ("root", 0.001, {0: "0", 0.25: "0.0000625", 0.5: "0.00025", 0.75: "0.000563", 1: "0.001"}),
        ("linear", 0.32, {0: "0", 0.5: "0.16", 1: "0.32"}),
        ("log", 1.0, {0: "0.0001", 0.25: "0.001", 0.5: "0.01", 0.75: "0.1", 1: "1"}),
    ],
)
def test_the_colour_bar_prints_the_weights_of_its_colours(scale, top, printed_at):
    chart = token_maps.token_map_figure(words(), 400, 64)
    token_maps.add_colourbar(chart, theme.SEQUENTIAL, top, scale=scale)
    axis = chart.layout["xaxis3"]
    assert dict(zip(axis["tickvals"], axis["ticktext"], strict=True)) == printed_at


def test_the_colour_bar_is_that_of_the_map():
    trace, along = traced(), 0.75
    figure = heads.head_map(trace, words(), 1, 4, ground="light", exclude_first=True).figure
    top = float(trace.weights[1, 4, :, 1:].max())
    marks = dict(zip(figure.layout.xaxis3.tickvals, figure.layout.xaxis3.ticktext, strict=True))
    assert marks[along] == f"{top * 9 / 16:.3g}" and marks[1] == f"{top:.3g}"
    cells = next(t for t in figure.data if t.type == "heatmap" and t.zmax == pytest.approx(top))
    assert dict(cells.colorscale)[along**2] == dict(figure.data[-1].colorscale)[along]


def test_the_log_scale_shades_by_decades_and_keeps_weights_in_the_hover_text():
    trace = traced()
    drawing = heads.head_map(trace, words(), 0, 2, scale="log")
    _, cells = masked_and_cells(drawing.figure)
    alpha = {round(stop, 6): float(colour.rstrip(")").split(",")[-1]) for stop, colour in cells.colorscale}
    assert {stop: alpha[stop] for stop in (0.0, 0.0001, 0.001, 0.01, 0.1, 1.0)} == pytest.approx(
        {0.0: 0.0, 0.0001: 0.0, 0.001: 0.25, 0.01: 0.5, 0.1: 0.75, 1.0: 1.0}
    )
    assert np.array(cells.z)[5, 3] == trace.weights[0, 2, 5, 3]
    bar = drawing.figure.layout.xaxis3
    assert dict(zip(bar.ticktext, bar.tickvals, strict=True))["0.01"] == 0.5  # half-way of four decades
    scale = drawing.figure.data[-1]
    assert (scale.z[0][0], scale.z[0][-1]) == (scale.zmin, scale.zmax) == (0, 1)
    assert "0.0001" in drawing.note


def test_the_first_token_can_be_set_aside():
    trace = traced()
    drawing = heads.head_map(trace, words(), 1, 5, exclude_first=True)
    _, cells, first = (t for t in drawing.figure.data if t.type == "heatmap" and t.xaxis == "x2")
    assert np.isnan(np.array(cells.z)[:, 0]).all()
    assert cells.zmax == trace.weights[1, 5, :, 1:].max()
    assert np.array_equal(np.array(first.z)[:, 0], trace.weights[1, 5, :, 0])
    assert [list(stop) for stop in first.colorscale] == theme.SEQUENTIAL
    assert f"{trace.weights[1, 5, :, 0].mean():.0%}" in drawing.note


def test_one_token_and_the_first_set_aside():
    drawing = heads.head_map(traced(1), ["·a"], 0, 0, exclude_first=True, scale="log")
    assert "attends to itself" in drawing.alt


def test_a_row_and_a_column_can_be_brought_out():
    row, column = heads.head_map(traced(), words(), 0, 0, query=4, key=2).figure.layout.shapes
    assert (row.y0, row.y1, row.x0, row.x1) == (3.5, 4.5, -0.5, T - 0.5)
    assert (column.x0, column.x1, column.y0, column.y1) == (1.5, 2.5, -0.5, T - 0.5)


@pytest.mark.parametrize(
    "n_heads, n_kv_heads, head, says",
    [
        (6, 3, 4, "reads KV head 2, as head 5 does"),
        (6, 2, 0, "reads KV head 0, as heads 1 and 2 do"),
        (6, 6, 3, "reads KV head 3 alone"),
        (8, 1, 0, "reads KV head 0, as heads 1 to 7 do"),
        (8, 1, 3, "reads KV head 0, as heads 0, 1, 2, 4, 5, 6 and 7 do"),
    ],
)
def test_the_title_says_who_else_reads_the_same(n_heads, n_kv_heads, head, says):
    drawing = heads.head_map(traced(5, n_heads, n_kv_heads), words(5), 1, head)
    assert drawing.title == f"Layer 1, head {head} {says}"
    assert rf"Q_{{{head}}} K_{{{head * n_kv_heads // n_heads}}}^\top" in drawing.formula


def test_the_colour_is_the_kv_heads():
    _, cells = masked_and_cells(heads.head_map(traced(), words(), 0, 4).figure)
    assert cells.colorscale[-1] == (1, theme.kv_scale(2, K)[-1][1])


def test_the_alternative_text_names_the_largest_weight_after_the_first_row():
    scores = np.zeros((L, H, T, T))
    scores[1, 3, 7, 5] = 9
    drawing = heads.head_map(traced(scores=scores), words(), 1, 3)
    weight = np.exp(9) / (np.exp(9) + 7)
    assert f"{weight:.4f}, from query 7 “·cat” to key 5 “·sat”" in drawing.alt


def test_the_table_holds_every_weight_and_nothing_where_it_is_masked():
    trace = traced()
    table = heads.head_map(trace, words(), 0, 1).table
    assert table["query"][3] == "3 ·the" and len(table) == T + 1
    column = np.array(table["2 ·sat"])
    assert np.allclose(column[2:], trace.weights[0, 1, 2:, 2], atol=1e-6)
    assert np.isnan(column[:2]).all()


@pytest.mark.parametrize("label", ["<script>alert(1)</script>", "<b>", "&lt;", "مرحبا", "好 1/3", "x" * 90])
def test_labels_are_shown_as_they_are(label):
    figure = heads.head_map(traced(2), [label, "·a"], 0, 0).figure
    for text in (figure.layout.xaxis.ticktext[0], figure.layout.xaxis2.ticktext[0]):
        assert "<" not in text and len(text) < 70
    assert token_maps.token_text("a<b&c") == "\u2068a&lt;b&amp;c\u2069"
    assert token_maps.token_text("abcdefgh", 5) == "\u2068abcd…\u2069"


def test_the_numbers_of_a_row_are_its_scores_its_kept_scores_and_its_weights():
    trace = traced()
    table = path_numbers(trace, words(), 1, 2, 6, 0).table
    scores, kept, weights = (np.array(table[name]) for name in ("score", "after the mask", "weight"))
    assert table["key"] == list(range(T)) and table["token"] == words()
    assert np.array_equal(scores, trace.scores[1, 2, 6])
    assert np.array_equal(kept[:7], trace.scores[1, 2, 6, :7]) and (kept[7:] == -np.inf).all()
    assert np.allclose(weights, np.exp(kept) / np.exp(kept).sum(), atol=1e-6) and (weights[7:] == 0).all()


def test_a_softmax_worked_by_hand():
    scores = np.full((L, 2, 3, 3), 100.0)  # masked scores must not matter
    scores[..., 0], scores[..., 1] = 0.0, np.log(3)
    numbers = path_numbers(traced(3, 2, 1, scores=scores), ["a", "b", "c"], 0, 0, 1, 0)
    assert numbers.formula.endswith(r"= \tfrac{e^{0.0000 - 1.0986}}{1.3333} = 0.2500")
    assert "over 2 keys" in numbers.note and "q·k / √5" in numbers.note
    assert numbers.table["weight"] == pytest.approx([0.25, 0.75, 0.0])
    assert numbers.table["after the mask"][2] == -np.inf


def test_a_row_that_may_attend_to_nothing_has_no_formula():
    allowed = np.tri(T, dtype=bool)
    allowed[4] = False
    numbers = path_numbers(traced(allowed=allowed), words(), 0, 0, 4, 0)
    assert numbers.formula == ""
    assert "Every key is masked" in numbers.note


def test_the_three_stages_with_their_bounds():
    trace = traced()
    drawing = heads.stage_maps(trace, words(), 1, 3, ground="dark")
    s, w, ok = trace.scores[1, 3], trace.weights[1, 3], trace.allowed[1]
    maps = [t for t in drawing.figure.data if t.type == "heatmap" and "masked" not in t.hovertemplate]
    assert np.array_equal(np.array(maps[0].z), s)
    assert np.array_equal(np.array(maps[1].z)[ok], s[ok]) and np.isnan(np.array(maps[1].z)[~ok]).all()
    assert np.array_equal(np.array(maps[2].z)[ok], w[ok])
    far = np.abs(s).max()
    assert [(m.zmin, m.zmax) for m in maps] == [(-far, far), (-far, far), (0, 1)]
    assert [list(stop) for stop in maps[2].colorscale] == theme.kv_scale(
        trace.config.mixer.kv_head_of[3], K, ground="dark"
    )
    written = [a.text for a in drawing.figure.layout.annotations]
    for low, high in ((s.min(), s.max()), (s[ok].min(), s[ok].max()), (w[ok].min(), w[ok].max())):
        assert f"{printed(low)} to {printed(high)}" in written
    assert f"{T * (T - 1) // 2} cells masked" in drawing.alt
    layout = drawing.figure.layout
    for axis in (layout.xaxis4, layout.xaxis5, layout.xaxis6, layout.yaxis4):  # keys above each, queries on the left
        assert [text.split()[-1] for text in axis.ticktext] == [
            str(i) for i in axis.tickvals
        ] and axis.tickfont.size >= 12


def test_a_masked_cell_looks_like_no_score():
    """Masked cells have two greys by turns, which a run of equal scores has not."""
    trace = traced()
    ok = trace.allowed[1]
    drawn = heads.stage_maps(trace, words(), 1, 3), head_values.difference_map(ok / 2, ok / 3, ok, words(), "ab", "")
    for drawing, n_masks in zip(drawn, (3, 1), strict=True):
        masks = [t for t in drawing.figure.data if "<br>masked" in (t.hovertemplate or "")]
        z = np.array(masks[-1].z)
        assert len(masks) == n_masks and np.array_equal(z == 0, ok)
        assert all({z[i, i + 2], z[i, i + 3]} == {1, 2} for i in range(T - 3))
        colours = [stop[1] for stop in masks[-1].colorscale]
        assert (masks[-1].zmax, len({*colours})) == (2, 3)
        greys = [tuple(map(float, re.findall(r"[\d.]+", colour))) for colour in colours]
        assert all(r == g == b for r, g, b, _ in greys) and greys[2][3] > 2 * greys[1][3] > 2 * greys[0][3] == 0


def test_on_a_phone_the_three_stages_are_large_and_below_each_other():
    side = heads.stage_maps(traced(), words(), 1, 3).figure.layout
    stacked = heads.stage_maps(traced(), words(), 1, 3, stacked=True).figure.layout
    inside = stacked.height - stacked.margin.t - stacked.margin.b
    downs = [axis.domain for axis in (stacked.yaxis, stacked.yaxis2, stacked.yaxis3)]
    gap = (stacked.margin.t + 28) / inside
    assert all(below[1] + gap <= above[0] + 1e-3 for above, below in pairwise(downs))
    assert [round((top - bottom) * inside) for bottom, top in downs] == [270, 270, 270]
    assert {axis.domain for axis in (stacked.xaxis, stacked.xaxis2, stacked.xaxis3)} == {(0, 1)}
    assert [axis.showticklabels for axis in (stacked.yaxis4, stacked.yaxis5, stacked.yaxis6)] == [True] * 3
    assert {axis.domain for axis in (side.yaxis, side.yaxis2, side.yaxis3)} == {(0, 1)}
    assert side.xaxis.domain[1] < side.xaxis2.domain[0] and side.yaxis5.showticklabels is False


def test_stage_maps_of_a_long_text_stay_small():
    drawing = heads.stage_maps(traced(200, 1, 1), words(200), 0, 0)
    assert {np.array(m.z).shape for m in drawing.figure.data if m.type == "heatmap"} == {(67, 67)}
