"""The RoPE figures: the numbers in titles and tables are recomputed here in another way."""

import json
import math

import numpy as np
import pytest
import torch

from attnviz.analysis.rope import DecayBound, decay_bound, score_parts
from attnviz.equations import Equation, Value, tex_lines
from attnviz.experiments.rope_equalities import (
    ShiftedOutputs,
    ShiftedScores,
    compare_layouts,
    scaled_frequencies,
    shifted_scores,
    standard_scalings,
)
from attnviz.figures import rope, rope_layouts, rope_scores
from attnviz.figures.theme import FAINT, NEUTRAL, kv_colour, kv_scale
from attnviz.modules.rope import apply_rope, rope_frequencies
from attnviz.modules.rope_scaling import RopeScaling
from attnviz.ui.components.rope_clocks import pack
from tests.arithmetic import results
from tests.reading import numbers_in, numbers_where, value

HEAD = rope_scores.Head(1, 5, 2, 4, "untrained, seed 7")
FREQUENCIES = rope_frequencies(14).numpy()
LABELS = ["·a", "<b>", "·a", "$x$", "*"]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_what_is_defined_stands_beside_its_definition_and_the_rest_below():
    a, b = Value(2, "a"), Value(3, "b")
    assert tex_lines(Equation(a * b, "c"), Equation(a + b)) == ("c = a\\cdot b\n= 2\\cdot 3\n= 6\na + b\n= 2 + 3\n= 5")


def test_a_false_equation_is_found():
    drawn = score_drawn(16, 5)
    assert results(drawn.formula)[-1] == pytest.approx(numbers_where("score #", drawn.title)[0], abs=1e-9)
    with pytest.raises(AssertionError):
        results(drawn.formula.replace(f"= {results(drawn.formula)[-1]:.2f}", "= 8.71"))


def score_drawn(m: int, n: int, rotary_dim: int = 14, head_dim: int = 22) -> rope_scores.Drawing:
    """Draw the score of a query at m and a key at n, 8 of whose 22 dimensions are not rotated."""
    q, k = random(2, head_dim)
    frequencies = rope_frequencies(rotary_dim).numpy()
    distances = np.arange(40) * (1 if m >= n else -1)
    parts = score_parts(q, k, frequencies, distances)
    return rope_scores.moved_apart(parts, m, n, "·a", "$x$", head_dim, head_dim - rotary_dim, HEAD)


@pytest.mark.parametrize("m, n", [(16, 5), (4, 10), (3, 3)])
@pytest.mark.parametrize("rotary_dim, head_dim", [(14, 22), (22, 22), (2, 3), (34, 34)])
def test_the_formula_of_a_score_is_its_sum_of_rotated_and_unrotated_parts(rotary_dim, head_dim, m, n):
    drawing = score_drawn(m, n, rotary_dim, head_dim)
    q, k = (torch.tensor(x)[None].double() for x in random(2, head_dim))
    frequencies = rope_frequencies(rotary_dim)
    rotated = [apply_rope(x, torch.tensor([at]), frequencies)[0] for x, at in ((q, m), (k, n))]
    score = float(rotated[0] @ rotated[1]) / head_dim**0.5
    distance, pairs, printed = results(drawing.formula)
    assert (distance, printed) == (m - n, pytest.approx(score, abs=0.006))
    assert pairs == pytest.approx(float(rotated[0][:rotary_dim] @ rotated[1][:rotary_dim]), abs=0.006)
    assert drawing.table["score"][abs(m - n)] == pytest.approx(score)
    assert f"s_{{{m},{n}}}" in drawing.formula and ("+ c" in drawing.formula) == (rotary_dim < head_dim)


@pytest.mark.parametrize(("rotary_dim", "head_dim"), [(14, 22), (22, 22)])
def test_the_formula_of_the_bound_is_the_bound_that_is_drawn(rotary_dim, head_dim):
    (q, k), frequencies, distances = random(2, head_dim), rope_frequencies(rotary_dim).numpy(), np.arange(40)
    scores = score_parts(q, k, frequencies, distances).sum(0) / head_dim**0.5
    bound = decay_bound(q, k, frequencies, distances)
    drawing = rope_scores.decay(scores, bound, 7, head_dim, head_dim - rotary_dim, HEAD)
    assert results(drawing.formula) == [pytest.approx(drawing.table["bound"][7], abs=0.006)]
    assert drawing.table["bound"][7] > abs(float(q[rotary_dim:] @ k[rotary_dim:])) / head_dim**0.5
    share = max(s / b for s, b in zip(drawing.table["|score|"], drawing.table["bound"], strict=True))
    assert numbers_where("#% of its bound", drawing.title) == [pytest.approx(100 * share, abs=0.051)]


def test_a_small_share_of_the_bound_is_not_called_none():
    """SmolLM2-135M's keys are long: a score of 2.95 beside a bound of 2,220.8 was “0%”, and the bound 2.22e+03."""
    (q, k), frequencies, distances = 40 * random(2, 22), rope_frequencies(22).numpy(), np.arange(40)
    bound = decay_bound(q, k, frequencies, distances)
    drawing = rope_scores.decay(np.full(40, 0.003 * bound.values.min() / 22**0.5), bound, 7, 22, 0, HEAD)
    assert numbers_where("#% of its bound", drawing.title) == [0.3] and "e+0" not in drawing.note


def test_a_text_spans_one_step_less_than_it_has_tokens():
    seven = rope.wavelengths(FREQUENCIES, n_tokens=7, context=7, theta=10000.0)  # 6 steps of 1 radian: 344 degrees
    assert numbers_in(seven.title) == [0, 7, 0, 7]
    assert seven.table["turns in this text"][0] == pytest.approx(6 / (2 * np.pi))
    assert results(seven.formula) == pytest.approx([1, 6.28, 0.955])
    eight = rope.wavelengths(FREQUENCIES, n_tokens=8, context=None, theta=10000.0)
    assert numbers_in(eight.title) == [1, 7]


def test_the_formulas_of_a_pair_are_its_frequency_wavelength_and_rotation():
    drawing = rope.wavelengths(FREQUENCIES, 100, None, 10000.0)  # pair 2 is the last to complete a turn
    frequency = 10000 ** (-2 / 7)
    expected = [frequency, 2 * np.pi / frequency, 99 * frequency / (2 * np.pi)]
    assert results(drawing.formula) == pytest.approx(expected, rel=0.005)
    rotation = rope.rotation_maps(FREQUENCIES, 100, 53, 10000.0)
    assert results(rotation.formula) == pytest.approx([np.cos(53 * frequency), np.sin(53 * frequency)], abs=0.001)
    for pair, text in enumerate(rope.pair_in_numbers(7, 10000.0)):
        theta, length = (value(line.rpartition("= ")[2].split()[0]) for line in text.split("\n")[:2])
        assert (theta, length) == (
            pytest.approx(FREQUENCIES[pair], rel=1e-5),
            pytest.approx(2 * np.pi / theta, rel=0.005),
        )


def test_wavelengths_count_the_pairs_that_turn():
    drawing = rope.wavelengths(FREQUENCIES, n_tokens=25, context=256, theta=10000.0)
    lengths = [2 * np.pi * 10000 ** (i / 7) for i in range(7)]  # 6.3, 23.4, 87.3, 326, 1213, …
    np.testing.assert_allclose(drawing.figure.data[0].x, lengths)
    np.testing.assert_allclose(drawing.table["tokens per turn"], lengths)
    assert numbers_in(drawing.title) == [2, 7, 3, 256]
    marker = drawing.figure.data[0].marker
    assert list(marker.color) == [NEUTRAL] * 2 + [FAINT] * 5 and marker.line.color == NEUTRAL
    assert {shape.x0 for shape in drawing.figure.layout.shapes} == {24, 255}


def test_every_built_in_method_has_a_colour_dash_and_symbol_of_its_own():
    drawn = [style for name, style in rope.METHODS.items() if name != "pasted"]  # none and pasted are neutral
    assert len({colour for *_, colour in drawn}) == len({symbol for _, symbol, _ in drawn}) == len(drawn)


def test_wavelengths_without_a_training_context_mark_only_the_text():
    drawing = rope.wavelengths(FREQUENCIES, n_tokens=1, context=None, theta=10000.0)
    assert numbers_in(drawing.title) == [0, 7]
    assert [shape.x0 for shape in drawing.figure.layout.shapes] == [1]


def test_no_line_runs_through_a_number_beside_a_bar():
    """The number 23.4 stands where the line of 24 steps runs; the line crosses the other rows."""
    layout = rope.wavelengths(FREQUENCIES, n_tokens=25, context=None, theta=10000.0).figure.layout
    crossed = {row for s in layout.shapes for row in range(7) if s.y0 <= row - 0.5 and row + 0.5 <= s.y1}
    assert crossed == {0, 2, 3, 4, 5, 6}
    assert {s.x0 for s in layout.shapes} == {24} and list(layout.yaxis.range) == [6.5, -0.5]


@pytest.mark.parametrize("theta", [1e4, 5e5, 1e7])
def test_the_number_of_the_slowest_pair_fits_into_the_chart(theta):
    """On a phone, where the plot is 260 pixels wide and a digit 6."""
    drawing = rope.wavelengths(theta ** (-np.arange(12) / 12), 29, 256, theta)
    bars, (_, decades) = drawing.figure.data[0], drawing.figure.layout.xaxis.range
    ends = 260 * np.log10(bars.x) / decades + 6 * np.char.str_len(bars.text)
    assert ends.max() <= 260.01


@pytest.mark.parametrize("n_pairs", [1, 7, 64, 128])
def test_wavelengths_are_drawn_for_any_number_of_pairs(n_pairs):
    drawing = rope.wavelengths(rope_frequencies(2 * n_pairs).numpy(), 30, 256, 10000.0)
    assert len(drawing.figure.data[0].y) == n_pairs and drawing.figure.layout.height <= 1400


def test_rotation_maps_are_cos_and_sin_of_position_times_frequency():
    drawing = rope.rotation_maps(FREQUENCIES, 80, 21, 10000.0)
    cos, sin = (trace.z for trace in drawing.figure.data)
    assert cos.shape == sin.shape == (7, 80) and cos.dtype == np.float32
    assert cos[3, 50] == pytest.approx(np.cos(50 * 10000 ** (-3 / 7)), abs=1e-6)
    assert sin[0, 79] == pytest.approx(np.sin(79), abs=1e-6)
    assert not drawing.figure.layout.shapes
    short = rope.rotation_maps(FREQUENCIES, 5, 3, 10000.0)
    assert short.figure.data[0].z.shape == (7, 64) and short.figure.layout.shapes[0].x0 == 4.5
    row = short.table["position"].index(2) + 1
    assert (short.table["position"][row], short.table["pair"][row]) == (2, 1)
    assert short.table["sin"][row] == pytest.approx(np.sin(2 * FREQUENCIES[1]))


def test_slowing_is_the_ratio_to_no_scaling():
    by_method = scaled_frequencies(14, 10000.0, standard_scalings(4.0, 256), 1024)
    drawing = rope.slowed(by_method, by_method["none"], 256, 1024)
    lines = {trace.name: trace.y for trace in drawing.figure.data}
    np.testing.assert_allclose(lines["none"], 1)
    np.testing.assert_allclose(lines["linear"], 4)
    assert lines["NTK-aware"][0] == pytest.approx(1) and lines["NTK-aware"][-1] == pytest.approx(4)
    styles = {(t.line.dash, t.marker.symbol) for t in drawing.figure.data}
    assert len(styles) == len(lines)  # distinct without colour


@pytest.mark.parametrize(("factor", "n_tokens"), [(2.0, 512), (4.0, 1024), (2.0, 700), (1.0, 300)])
def test_pairs_that_pass_their_trained_angle_are_counted_per_method(factor, n_tokens):
    by_method = scaled_frequencies(24, 10000.0, standard_scalings(factor, 256), n_tokens)
    drawing = rope.slowed(by_method, by_method["none"], 256, n_tokens)
    counts = {name: sum(drawing.table[f"passes its trained angle, {name}"]) for name in by_method}
    for name, frequencies in by_method.items():
        passing = 0
        for plain, frequency in zip(by_method["none"], frequencies, strict=True):
            trained = {m * plain for m in range(256)}  # radians at the positions of a training row
            turned = max(trained) >= 2 * math.pi
            passing += not turned and (n_tokens - 1) * frequency >= 256 * plain
        assert counts[name] == passing and numbers_where(f"{name} #", drawing.more) == [passing]
    if (factor, n_tokens) == (2.0, 512):
        assert (counts["none"], counts["NTK-aware"], counts["dynamic NTK"], counts["linear"]) == (7, 6, 2, 0)
    assert numbers_in(drawing.title)[:2] == [counts["none"], 12]


def test_trained_angles_are_those_of_the_base_in_training():
    """Base 500,000 on a checkpoint of base 10,000: the slowest pairs do not reach their angles of training."""
    learned, larger, smaller = (base ** (-np.arange(12) / 12) for base in (1e4, 5e5, 1e3))
    drawing = rope.slowed({"none": larger}, learned, 256, 512)
    assert numbers_in(drawing.title)[:2] == [0, 12] and "another base" in drawing.note
    reached = [255 * w < 2 * math.pi and 511 * f >= 256 * w for w, f in zip(learned, smaller, strict=True)]
    assert rope.slowed({"none": smaller}, learned, 256, 512).table["passes its trained angle, none"] == reached
    assert sum(reached) == 7 and "another base" not in rope.slowed({"none": learned}, learned, 256, 512).note


def near(number: float):
    """Return what equals a number printed with four decimals."""
    return pytest.approx(number, abs=5.1e-5)


def test_what_multiplies_scores_besides_the_frequencies_is_said_of_the_part_it_multiplies():
    yarn = RopeScaling("yarn", factor=2.0, original_max_position_embeddings=256)
    squared = (0.1 * math.log(2) + 1) ** 2
    assert numbers_where("score by #", rope.scores_scaled("YaRN", yarn, 24, 24, latent=False)) == [near(squared)]
    partial = numbers_in(rope.scores_scaled("YaRN", yarn, 16, 32, latent=True))
    assert {16, 32} <= {*partial} and any(number == near(squared) for number in partial)
    deepseek = RopeScaling("yarn", factor=40.0, original_max_position_embeddings=256, mscale=1.0, mscale_all_dim=1.0)
    said, squared = rope.scores_scaled("pasted", deepseek, 16, 32, latent=True), (0.1 * math.log(40) + 1) ** 2
    assert any(number == near(squared) for number in numbers_in(said))
    assert rope.scores_scaled("pasted", deepseek, 24, 24, latent=False) == ""


def test_the_loss_beyond_training_begins_after_the_last_prediction_of_a_training_row():
    """A row of 65 ids has 64 inputs and 64 predictions; the 65th prediction is the first beyond training."""
    losses = np.r_[np.full(63, 1.0), 100.0, np.full(35, 5.0)]
    drawing = rope.loss_by_position({"none": losses}, 64, "GQA-4", "trained")
    assert drawing.table["nats per token beyond 64"] == [5.0]
    assert drawing.table["nats per token up to 64"] == [pytest.approx(163 / 64)]
    assert 35 in numbers_in(drawing.more)


def test_loss_names_the_best_method_beyond_the_training_context():
    flat, rising = np.full(99, 2.0), np.r_[np.full(64, 1.0), np.full(35, 5.0)]
    drawing = rope.loss_by_position({"none": rising, "linear": flat, "YaRN": flat + 1}, 64, "GQA-4", "trained")
    assert numbers_in(drawing.title) == [64, 5, 2] and "linear" in drawing.title
    assert drawing.table["nats per token up to 64"] == [1.0, 2.0, 3.0]
    assert list(drawing.figure.data[0].x) == [16.5, 48.5, 80.5, 98.0]  # the middles of positions 1-32, 33-64, …, 97-99
    np.testing.assert_allclose(drawing.figure.data[0].y, [1, 1, 5, 5])
    worse = rope.loss_by_position({"none": flat, "linear": flat + 1}, 64, "GQA-4", "trained")
    assert numbers_in(worse.title) == [64, 2]


def test_a_score_moved_apart_is_marked_where_it_stands():
    parts = np.array([[0.5, -3.0, 5.0], [0.5, 0.5, 1.0]])
    drawing = rope_scores.moved_apart(parts, 4, 3, "·a", "$x$", 4, 2, HEAD)
    assert numbers_in(drawing.title) == [-1.25, 1] and numbers_where("from # to #", drawing.note) == [-1.25, 3]
    assert "“·a”" in drawing.title and "“\\$x\\$”" in drawing.title
    assert "$x$" in drawing.alt and "\\$" not in drawing.alt
    line, mark = drawing.figure.data
    assert (mark.x[0], mark.y[0]) == (1, -1.25) and line.line.color == kv_colour(2, 4)


def test_decay_says_where_the_bound_is_lowest_and_how_near_the_score_comes():
    bound = DecayBound(2.0, np.array([4.0, 2.0, 3.0]), -8.0)  # (8, 4, 6) + 8, over the root of 4
    drawing = rope_scores.decay(np.array([-1.0, 3.0, 0.5]), bound, 1, 4, 2, HEAD)
    assert numbers_where("#%", drawing.title) == [50]
    assert numbers_where("# at distance 0", drawing.note) == [8] and numbers_where(
        "#, at distance 1", drawing.note
    ) == [6]
    assert drawing.table["|score|"] == [1.0, 3.0, 0.5] and drawing.table["bound"] == [8.0, 6.0, 7.0]


def test_scores_by_distance_say_on_which_side_the_highest_mean_is():
    mean = np.array([1.0, -2.0])
    drawing = rope_scores.by_distance(np.array([0, 2]), mean, mean - 1, mean + 1, 3, HEAD)
    assert "itself" in drawing.title and numbers_in(drawing.title) == [1] and 3 in numbers_in(drawing.note)
    assert drawing.table == {"distance": [0, 2], "mean": [1.0, -2.0], "lowest": [0.0, -3.0], "highest": [2.0, -1.0]}
    both = rope_scores.by_distance(np.array([-3, 2]), mean, mean - 1, mean + 1, 7, HEAD)
    back = rope_scores.by_distance(np.array([-3, 2]), -mean, mean, mean, 7, HEAD).title
    assert "ahead" in both.title and numbers_in(both.title) == [3, 1] and "back" in back and numbers_in(back) == [2, 2]


def test_shifts_draw_the_change_of_each_shift_and_say_how_many_were_tried():
    q, k = random(2, 14)
    shifted = shifted_scores(q, k, 9, 4, FREQUENCIES)
    drawing = rope_scores.shifts(shifted, 9, 4, 14)
    naive, run_here, exact = (trace.y for trace in drawing.figure.data)
    changes = np.abs(shifted.float32_angles - shifted.float32_angles[0])[1:]
    np.testing.assert_array_equal(naive, np.where(changes > 0, changes, np.nan))
    assert exact[-1] < run_here[-1] < naive[-1]
    assert numbers_in(drawing.title) == [11, 100_000, pytest.approx(np.nanmax(run_here), rel=0.05)]
    assert len(drawing.table["shift"]) == 12
    assert results(drawing.formula) == pytest.approx([shifted.float64[0], shifted.float64[-1]], abs=1e-6)
    assert "s_{9,4}" in drawing.formula and "s_{100009,100004}" in drawing.formula


def test_no_change_is_said_to_be_none_in_the_shifts_tried():
    same = np.full(3, 1.5)
    drawing = rope_scores.shifts(ShiftedScores((0, 1, 10), same, same, same + [0, 0, 2e-7]), 9, 4, 14)
    assert numbers_in(drawing.title)[0] == 2 and "not change" in drawing.title
    assert numbers_where("none in float32, none in float64, #", drawing.more) == [2e-7]


def test_values_draw_both_runs_and_say_how_much_each_changes():
    moved = ShiftedOutputs((0, 1, 10), np.array([0, 2e-7, 1e-7]), np.array([0, 0.5, 1.25]), 2.0)
    drawing = rope_scores.values(moved, 5, 14, HEAD)
    assert numbers_in(drawing.title) == [2, 2e-7, 1.2]
    still, moving = (trace.y.tolist() for trace in drawing.figure.data)
    assert still == [2e-7, 1e-7] and moving == [0.5, 1.25]


@pytest.mark.parametrize("rotary_dim", [14, 6])
def test_layout_pairs_show_each_dimension_with_its_pair(rotary_dim):
    compared = compare_layouts(random(5, 14), random(6, 14), rope_frequencies(rotary_dim).numpy())
    drawing = rope_layouts.layout_pairs(compared.order, rotary_dim // 2)
    half, interleaved = drawing.table["pair, half-split"], drawing.table["pair, interleaved"]
    order = drawing.table["half-split dimension that goes there"]
    assert [half[d] for d in order] == interleaved  # a dimension keeps its pair in the other layout
    assert interleaved[:4] == [0, 0, 1, 1] and half[:3] == [0, 1, 2]
    assert interleaved[rotary_dim:] == half[rotary_dim:] == [-1] * (14 - rotary_dim)
    assert len(drawing.figure.layout.shapes) == 14
    assert numbers_in(drawing.title) == [0, rotary_dim // 2, 1]
    shifted = rope_layouts.layout_pairs(compared.order, rotary_dim // 2, 16)
    assert numbers_in(shifted.title) == [16, 16 + rotary_dim // 2, 17]
    found = numbers_in(rope_layouts.layout_finding(compared))
    assert any(number == pytest.approx(compared.difference, abs=0.0051) for number in found)


@pytest.mark.parametrize(("head_dim", "numbered"), [(26, True), (34, False)])
def test_many_dimensions_have_no_numbers_and_none_are_said(head_dim, numbered):
    compared = compare_layouts(random(5, head_dim), random(6, head_dim), rope_frequencies(head_dim).numpy())
    drawing = rope_layouts.layout_pairs(compared.order, head_dim // 2)
    assert {"text" in t.mode for t in drawing.figure.data} == {"number" in drawing.note} == {numbered}


def test_maps_show_what_is_not_allowed_as_gaps_and_escape_the_tokens():
    allowed, values = np.tri(5, dtype=bool), np.linspace(0, 1, 25).reshape(5, 5)
    drawing = rope_scores.weight_map(values, allowed, LABELS, 0.5, HEAD, "Run as half", "A note.")
    cells = next(t for t in drawing.figure.data if t.type == "heatmap" and t.zmax == 0.5 and np.isnan(t.z).any())
    np.testing.assert_array_equal(np.isnan(cells.z), ~allowed)
    np.testing.assert_allclose(cells.z[allowed], values[allowed])
    shown = " ".join(drawing.figure.layout.xaxis.ticktext) + " ".join(drawing.figure.layout.xaxis2.ticktext)
    assert "<b>" not in shown and "&lt;b&gt;" in shown


@pytest.mark.parametrize("ground", [None, "light", "dark"])
def test_weight_maps_have_the_colours_of_the_maps_of_a_head(ground):
    drawing = rope_scores.weight_map(np.eye(5), np.tri(5, dtype=bool), LABELS, 0.5, HEAD, "Title", "A note.", ground)
    cells = next(t for t in drawing.figure.data if t.type == "heatmap" and t.zmax == 0.5 and np.isnan(t.z).any())
    assert [list(stop) for stop in cells.colorscale] == kv_scale(HEAD.kv_head, HEAD.n_kv_heads, ground=ground)


def test_a_head_of_latent_attention_reads_no_kv_head():
    head = rope_scores.Head(1, 3, 3, 8, "trained", latent=True)
    assert "KV" not in head.name and head.colour == kv_colour(3, 8)


def test_score_maps_share_one_symmetric_scale():
    allowed, scores = np.tri(5, dtype=bool), random(5, 5)
    drawing = rope_scores.score_map(scores, allowed, LABELS, 3.0, "Content", "A note.")
    cells = next(t for t in drawing.figure.data if t.type == "heatmap" and t.zmax == 3)
    assert (cells.zmin, cells.zmax) == (-3, 3)
    assert drawing.figure.layout.xaxis3.ticktext == ("−3", "0", "3") and drawing.figure.layout.xaxis3.tickvals == (
        0,
        0.5,
        1,
    )
    assert drawing.table["highest score"][0] == scores[0, 0] == drawing.table["lowest score"][0]


def test_the_clocks_are_sent_every_number_the_browser_needs():
    header = json.loads(pack(FREQUENCIES, LABELS, 3, 2, "#336699", rope.pair_in_numbers(7, 10000.0)))
    assert header["frequencies"] == FREQUENCIES.tolist()  # every digit
    assert header["equations"] == rope.pair_in_numbers(7, 10000.0)
    assert header["labels"] == LABELS and (header["query"], header["pair"], header["last"]) == (3, 2, 63)
