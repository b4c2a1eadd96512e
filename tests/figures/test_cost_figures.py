"""Cost figures: every number drawn is that of the formula, chosen models are named, and nothing is clipped.

pytest tests/figures/test_cost_figures.py
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.config import ModelConfig
from attnviz.cost import (
    Serving,
    comparison,
    count_parameters,
    decode_step,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
    what_if,
)
from attnviz.cost.pairs import instructive_pairs
from attnviz.cost.variants import KINDS, kind_of
from attnviz.experiments.measurement import Timing, counted_cache_bytes, counted_parameters
from attnviz.figures import cost as figures
from attnviz.figures.cost.axes import spread
from attnviz.figures.cost.formulas import attention_equation
from attnviz.figures.drawing import Drawing
from attnviz.figures.theme import kind_style, kv_colour
from tests.reading import numbers_in

GQA = ModelConfig(n_layers=3, d_model=30, n_heads=6, n_kv_heads=2, head_dim=8, d_ff=41, vocab_size=101)
MODELS = comparison(GQA)
PRESETS, CARDS = load_presets(), load_accelerators()
LLAMA, CARD = PRESETS["llama-3-8b"], CARDS["h100-sxm"]
SERVING = Serving(LLAMA, CARD, 8192)
CHOSEN_IDS = ("llama-2-7b", "llama-3-8b", "mistral-7b-v0.1", "gemma-3-27b", "deepseek-v3", "kimi-k2")
CHOSEN = [PRESETS[id] for id in CHOSEN_IDS]


@cache
def published(ids: tuple[str, ...] = CHOSEN_IDS, by: str = "parameters") -> Drawing:
    return figures.published(list(PRESETS.values()), [PRESETS[id] for id in ids], by)


@cache
def drawings() -> dict[str, Drawing]:
    caches = [counted_cache_bytes(m, 70, 2) for m in MODELS]
    counted = [counted_parameters(m) for m in MODELS]
    timings = [Timing(m, n, (0.003, 0.001, 0.002), 7) for n in (16, 64) for m in MODELS]
    return {
        "attention": figures.attention_parameters(MODELS, GQA, [n for _, n in counted]),
        "model": figures.model_parameters(MODELS, GQA, [n for n, _ in counted]),
        "cache": figures.cache(MODELS, GQA, caches, 70, 2),
        "precisions": figures.precisions(GQA, 70, 2),
        "published": published(),
        "totals": figures.totals(CHOSEN, 131_072),
        "alternatives": figures.alternatives(LLAMA, 8192),
        "filling": figures.filling(SERVING),
        "speed": figures.speed(SERVING),
        "roof": figures.roof(SERVING),
        "first token": figures.first_token(SERVING),
        "machines": figures.machines(list(CARDS.values()), SERVING),
        "measured": figures.measured(timings, 1),
    }


def test_every_drawing_has_an_equation_and_its_title_outside_the_chart():
    """Titles, notes, alt texts and tables: tests/figures/test_drawings.py."""
    for name, drawing in drawings().items():
        assert drawing.formula and drawing.figure.layout.title.text is None, name


def test_the_bars_of_attention_are_the_parameters_of_its_parts():
    figure = drawings()["attention"].figure
    bars = [trace for trace in figure.data if trace.type == "bar"]
    for bar, model in zip(bars, MODELS, strict=True):
        assert sum(bar.x) == pytest.approx(counted_parameters(model)[1])
        assert list(bar.base) == pytest.approx([sum(bar.x[:i]) for i in range(len(bar.x))])
    own = bars[MODELS.index(GQA)]
    assert list(own.x) == pytest.approx([30 * 48, 30 * 8, 30 * 8, 30 * 8, 30 * 8, 48 * 30])  # q, k k, v v, o
    assert list(own.marker.color[1:5]) == [kv_colour(j, 2) for j in (0, 1, 0, 1)]


def test_formula_and_count_stand_side_by_side_and_agree():
    for name in ("attention", "model"):
        live = [column for column in drawings()[name].table if column.startswith("counted")]
        assert drawings()[name].table[live[0]] == drawings()[name].table["by formula"]
    cache = drawings()["cache"].table
    assert cache["bf16 bytes counted in live tensors"] == cache["bytes in bf16"]
    assert drawings()["measured"].table["cache bytes, by formula"][0] == kv_cache_bytes(MODELS[0], 16, bits=32)


def test_the_cache_is_drawn_in_the_precision_asked_for_and_all_four_are_in_the_table():
    drawing = figures.cache(MODELS, GQA, [0] * len(MODELS), 70, 2, "int4")
    assert sum(drawing.figure.data[0].x) == kv_cache_bytes(MODELS[0], 70, 2, 4, block_size=32)
    assert {f"bytes in {p}" for p in ("fp32", "bf16", "fp8", "int4")} <= drawing.table.keys()
    assert drawing.table["bytes in fp32"] == [2 * n for n in drawing.table["bytes in bf16"]]


def test_the_equation_of_attention_names_what_is_not_a_product():
    assert "biases" not in attention_equation(GQA).tex()
    assert r"\underbrace{2\cdot 128}_{\text{q and k norms}}" in attention_equation(PRESETS["qwen3-8b"]).tex()


def points(by: str) -> dict[str, tuple[float, float]]:
    traces = published(by=by).figure.data
    return {data[0]: (x, y) for t in traces for data, x, y in zip(t.customdata, t.x, t.y, strict=True)}


def per_token(model: ModelConfig) -> int:
    """What a second token adds; where entries are compressed, the mean of 128 tokens, that is of whole entries."""
    if model.id.startswith("deepseek-v4"):
        return kv_cache_bytes(model, 128) // 128
    return kv_cache_bytes(model, 2) - kv_cache_bytes(model, 1)


def test_every_published_model_is_a_point_at_its_parameters_and_its_cache():
    found = points("parameters")
    assert {m.name for m in PRESETS.values()} - found.keys() == {
        "Mamba 2.8B",
        "Falcon Mamba 7B",
    }  # these cache nothing per token
    for model in PRESETS.values():
        if model.name in found:
            assert found[model.name] == (count_parameters(model).total, per_token(model))


def test_the_calculation_is_of_a_token_of_a_model_that_is_named_in_the_chart():
    for ids, name, n_bytes in (
        (("gemma-2b", "llama-3-8b"), "Gemma 2B", 2 * 18 * 1 * 256 * 2),
        (("deepseek-v3",), "DeepSeek-V3 / R1", 61 * 576 * 2),
        (("lfm2-350m", "llama-3-8b"), "Llama 3 8B", 131_072),  # the first has layers of two kinds
    ):  # fmt: skip
        formula = published(ids, "parameters").formula
        assert name in formula and "one token" in formula and f"{n_bytes:,}" in formula.replace("{,}", ",")
    assert published((), "parameters").formula  # none is named


def test_by_year_every_model_stands_in_its_year_in_the_lane_of_its_kind():
    found, lanes = points("year"), {}
    for model in PRESETS.values():
        if model.name in found:
            x, y = found[model.name]
            assert round(x) == model.year and y == per_token(model)
            lanes.setdefault(kind_of(model), set()).add(round(x - model.year, 6))
    assert len(lanes) == 5 and all(len(each) == 1 for each in lanes.values())
    assert len(set.union(*lanes.values())) == 5


def test_the_title_by_year_has_the_medians_of_its_first_and_its_last_year():
    of = {year: [per_token(m) for m in PRESETS.values() if m.year == year and per_token(m)] for year in (2019, 2026)}
    numbers = numbers_in(published(by="year").title)
    first, last = (statistics.median(each) / 1024 for each in of.values())
    assert numbers == [pytest.approx(first, rel=0.005), 2019, pytest.approx(last, rel=0.005), 2026]


@pytest.mark.parametrize("by", ["parameters", "year"])
def test_chosen_models_of_one_size_have_names_apart_on_the_side_with_room(by):
    """DeepSeek-V3, V3.1 and Kimi K2 cache the same; each name leads to its own point."""
    ids = ("deepseek-v3", "deepseek-v3.1", "kimi-k2", "gpt2-small", "gemma-2b", "lfm2-350m")
    figure = published(ids, by).figure
    notes = {note.text.removeprefix("<b>").removesuffix("</b>"): note for note in figure.layout.annotations}
    low, high = figure.layout.xaxis.range
    assert notes.keys() == {figures.short_name(PRESETS[id]) for id in ids}
    plot, (bottom, top) = figure.layout.height - 100, figure.layout.yaxis.range
    for id in ids:
        x, y = points(by)[PRESETS[id].name]
        note = notes[figures.short_name(PRESETS[id])]
        assert (note.x, note.y) == pytest.approx((x if by == "year" else math.log10(x), math.log10(y)))
        assert note.xanchor == ("right" if note.x > (low + high) / 2 else "left")
    heights = sorted((note.y - bottom) / (top - bottom) * plot - (note.ay or 0) for note in notes.values())
    assert all(b - a >= 15 for a, b in itertools.pairwise(heights))


def test_a_model_that_is_not_chosen_is_faint_inside_a_full_outline():
    """Plotly would make all of them translucent, since their sizes differ."""
    kinds = {name: kind for kind, name in KINDS.items()}
    for trace in published().figure.data:
        kind = kind_style(kinds[trace.name])["colour"]
        chosen = [width == 2 for width in trace.marker.line.width]
        assert [colour == kind for colour in trace.marker.color] == chosen
        assert trace.marker.line.color == kind and trace.marker.opacity == 1 and min(trace.marker.line.width) == 1
    assert all(
        set(trace.marker.color) == {kind_style(kinds[trace.name])["colour"]} for trace in published(()).figure.data
    )


def test_chosen_models_are_named_on_the_plot():
    named = {note.text for note in published().figure.layout.annotations}
    assert {f"<b>{figures.short_name(m)}</b>" for m in CHOSEN} <= named


@given(st.lists(st.floats(0, 500), max_size=9))
def test_spread_keeps_order_and_distance(heights):
    moved = spread(heights, 15)
    pairs = itertools.combinations(range(len(heights)), 2)
    for i, j in pairs:
        assert abs(moved[i] - moved[j]) >= 15 - 1e-6
        assert heights[i] == heights[j] or (heights[i] < heights[j]) == (moved[i] < moved[j])


def test_lines_over_the_context_bend_at_the_window_and_are_dotted_beyond_what_a_model_was_made_for():
    mistral = [t for t in drawings()["totals"].figure.data if t.name == "Mistral 7B v0.1"]
    assert [t.line.dash for t in mistral] == ["solid", "dot"]
    assert [t.marker.symbol for t in mistral] == ["square", "square-open"] and mistral[1].marker.opacity is None
    assert (mistral[0].x[-1], mistral[1].x[0]) == (32_768, 32_768)
    assert mistral[0].y[-1] == mistral[1].y[-1] == 4096 * 131_072


def test_what_if_bars_are_the_caches_of_the_other_attentions():
    model = PRESETS["deepseek-v3"]
    drawing = figures.alternatives(model, 131_072)
    assert list(drawing.figure.data[0].x) == [kv_cache_bytes(m, 131_072) for m in what_if(model)]
    assert "MLA (as it is)" in drawing.table["attention"]
    own = 61 * 128 * (128 + 64 + 128) * 2 * 131_072 / 2**30  # GiB: keys of 192 and values of 128 in each of 128 heads
    assert {128, 192, own} <= {*numbers_in(drawing.note)}
    assert "head_dim 128, that of its values" in figures.cache(what_if(model), model, None, 131_072).note
    odd = figures.alternatives(PRESETS["qwen2.5-0.5b"], 1024)  # 2 KV heads are not among the four variants
    assert odd.table["attention"][0] == "GQA-2 (as it is)"


@pytest.mark.parametrize(
    "id, card, numbers, memories",
    [
        ("llama-3-8b", "h100-sxm", {56, 8, 464_692, 52}, [79.6, 80]),  # sequences, of K tokens, tokens, by data sheet
        ("llama-3.1-405b", "h100-sxm", {676}, [79.6, 80]),  # GiB too few
        ("mistral-7b-v0.1", "h100-sxm", set(), [79.6, 80]),
        ("llama-2-7b", "t4", {8, 4}, [15, 16]),  # K tokens asked for, and made for
        ("llama-2-7b", "tpu-v5e", {16}, [15.8, 16]),
        ("llama-2-7b", "gaudi-3", {8, 4}, [119, 128, 10]),  # 10⁹: no report is known
    ],
)
def test_the_verdict_on_a_memory_says_what_fits(id, card, numbers, memories):
    drawing = figures.filling(Serving(PRESETS[id], CARDS[card], 8192))
    said = drawing.title + " " + drawing.note + " " + drawing.more
    assert numbers <= {*numbers_in(said)} and ("any length" in said) == (id == "mistral-7b-v0.1")
    (memory,) = drawing.figure.layout.annotations
    assert numbers_in(memory.text) == memories
    if "more" not in drawing.title:
        assert sum(bar.x[0] for bar in drawing.figure.data) == CARDS[card].memory


def test_the_speed_lines_are_the_roofline_and_dotted_where_memory_ends():
    chosen = [t for t in drawings()["speed"].figure.data if t.name == "8 K tokens"]
    solid, dotted = chosen
    for x, y in zip(solid.x, solid.y, strict=True):
        assert y == decode_step(LLAMA, 8192, x).tokens_per_second(CARD)
    assert solid.x[-1] == dotted.x[0] == 56  # 57 · 1 GiB, the weights and a tenth are more than 81,559 MiB
    assert (solid.line.dash, dotted.line.dash) == ("solid", "dot")


def test_points_of_the_roofline_lie_on_the_roof():
    roof, points = drawings()["roof"].figure.data
    assert roof.x[1] == CARD.ridge and roof.y[1] == pytest.approx(CARD.flops)
    for x, y in zip(points.x, points.y, strict=True):
        assert y == pytest.approx(min(x * CARD.bandwidth, CARD.flops))


def test_measured_medians_and_middle_halves_are_those_of_the_repeats():
    trace = drawings()["measured"].figure.data[0]
    assert list(trace.x) == [16, 64] and list(trace.y) == [2.0, 2.0]
    assert trace.error_y.array[0] == pytest.approx(1.0) and trace.error_y.arrayminus[0] == pytest.approx(1.0)


def test_the_sentences_of_the_pairs_hold():
    said = {pair.name: pair.sentence for pair in instructive_pairs()}
    for name, numbers in (
        ("MHA and GQA", {524_288, 131_072, 25}), ("GQA and MLA", {4_997_120}), ("Windows", {10.4, 62})
    ):  # fmt: skip
        assert numbers <= {*numbers_in(said[name])}
    assert all(id in PRESETS for pair in instructive_pairs() for id in pair.ids)


SMALL = ModelConfig(n_layers=3, d_model=35, n_heads=6, n_kv_heads=2, head_dim=14, d_ff=41, vocab_size=101)


def test_no_table_of_published_models_holds_none():
    models = list(PRESETS.values())
    for drawing in (published(()), figures.totals(models, 4_096)):
        assert all(cell is not None for column in drawing.table.values() for cell in column)


@pytest.mark.parametrize(
    "id, n, copies",
    [("llama-3-8b", 1, ""), ("llama-3-8b", 8, ""), ("llama-3-8b", 16, "2"), ("llama-3-8b", 12, "2"),
     ("falcon-7b", 5, "5"), ("falcon-7b", 71, "71"), ("gpt2-small", 64, ""), ("deepseek-v3", 8, "8")],
)  # fmt: skip
def test_several_accelerators_say_what_tensor_parallelism_would_copy(id, n, copies):
    """Against the KV heads that n shares of the query heads read."""
    model = PRESETS[id]
    serving = Serving(model, CARDS["h100-sxm"].times(n), 8192)
    for drawing in (figures.filling(serving), figures.speed(serving)):
        assert ("are added up" in drawing.more) == (n > 1)
        assert re.findall(r"cache is held ([\d.]+) times", drawing.more) == ([copies] if copies else [])
    if copies and model.attention != "mla":
        shares = [[head for head in range(model.n_heads) if head * n // model.n_heads == i] for i in range(n)]
        read = [{head * model.n_kv_heads // model.n_heads for head in share} for share in shares]
        assert sum(map(len, read)) / model.n_kv_heads == float(copies)


def test_a_tokens_bytes_are_said_before_and_after_a_window_is_full():
    """3 layers, 2 KV heads of 5 numbers in bf16: 40 B a layer; with a window of 7 in two of them, 40 B a token then."""
    model = ModelConfig(3, 20, 4, 2, sliding_window=7, full_layers=(1,), max_context=100)
    said = figures.growth_text(model)
    assert numbers_in(said.replace("*", ""))[:3] == [7, 120, 40]
    for plain in (dict(full_layers=(0, 1, 2)), dict(sliding_window=100), dict(sliding_window=None)):
        assert numbers_in(figures.growth_text(replace(model, **plain)).replace("*", "")) == [120]


@pytest.mark.parametrize("id", [id for id, model in PRESETS.items() if model.mixed_layers])
def test_models_whose_layers_differ_have_every_figure_of_the_page(id):
    model = PRESETS[id]
    serving = Serving(model, CARDS["h100-sxm"].times(8), 1000)
    for draw in (figures.filling, figures.speed, figures.roof, figures.first_token):
        assert draw(serving).title
    assert figures.machines(list(CARDS.values()), serving).title
    (size,) = figures.totals([model], 1000).table["bytes at 1,000"]
    assert size == kv_cache_bytes(model, 1000)
    panel = figures.caches_panel([model, LLAMA], 1000, 1, "bf16")
    assert numbers_in(panel["rects"][0][6].split(":")[-1])[0] == size
