"""What the RoPE figures draw and say: the numbers in titles and tables are recomputed here, by other means."""

import json
import struct

import numpy as np
import pytest

from attnviz.experiments.rope_equalities import (
    ShiftedOutputs,
    compare_layouts,
    scaled_frequencies,
    shifted_scores,
    standard_scalings,
)
from attnviz.figures import rope, rope_scores
from attnviz.figures.theme import kv_colour
from attnviz.modules.rope import rope_frequencies
from attnviz.ui.components.rope_clocks import pack

HEAD = rope_scores.Head(1, 5, 2, 4, "untrained, seed 7")
FREQUENCIES = rope_frequencies(14).numpy()
LABELS = ["·a", "<b>", "·a", "$x$", "*"]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_wavelengths_count_the_pairs_that_turn():
    drawing = rope.wavelengths(FREQUENCIES, n_tokens=24, context=256, theta=10000.0)
    lengths = [2 * np.pi * 10000 ** (i / 7) for i in range(7)]  # 6.3, 23.4, 87.3, 326, 1213, …
    np.testing.assert_allclose(drawing.figure.data[0].x, lengths)
    np.testing.assert_allclose(drawing.table["tokens in one turn"], lengths)
    assert drawing.title == ("2 of 7 pairs turn fully inside this text, 4 not even inside the 256 tokens of training")
    assert list(drawing.figure.data[0].marker.opacity) == [1, 1, 0.4, 0.4, 0.4, 0.4, 0.4]
    assert {shape.x0 for shape in drawing.figure.layout.shapes} == {24, 256}
    assert r"10{,}000^{-2i/14}" in drawing.formula


def test_wavelengths_without_a_training_context_mark_only_the_text():
    drawing = rope.wavelengths(FREQUENCIES, n_tokens=1, context=None, theta=10000.0)
    assert drawing.title == "0 of 7 pairs turn fully inside this text"
    assert [shape.x0 for shape in drawing.figure.layout.shapes] == [1]


def test_no_line_runs_through_a_number_beside_a_bar():
    """23.4 stands where the text's 24 tokens are; every other row is crossed, whatever its number."""
    layout = rope.wavelengths(FREQUENCIES, n_tokens=24, context=None, theta=10000.0).figure.layout
    crossed = {row for s in layout.shapes for row in range(7) if s.y0 <= row - 0.5 and row + 0.5 <= s.y1}
    assert crossed == {0, 2, 3, 4, 5, 6}
    assert {s.x0 for s in layout.shapes} == {24} and list(layout.yaxis.range) == [6.5, -0.5]


@pytest.mark.parametrize("n_pairs", [1, 7, 64, 128])
def test_wavelengths_are_drawn_for_any_number_of_pairs(n_pairs):
    drawing = rope.wavelengths(rope_frequencies(2 * n_pairs).numpy(), 30, 256, 10000.0)
    assert len(drawing.figure.data[0].y) == n_pairs and drawing.figure.layout.height <= 1400


def test_rotation_maps_are_cos_and_sin_of_position_times_frequency():
    drawing = rope.rotation_maps(FREQUENCIES, n_tokens=80)
    cos, sin = (trace.z for trace in drawing.figure.data)
    assert cos.shape == sin.shape == (7, 80) and cos.dtype == np.float32
    assert cos[3, 50] == pytest.approx(np.cos(50 * 10000 ** (-3 / 7)), abs=1e-6)
    assert sin[0, 79] == pytest.approx(np.sin(79), abs=1e-6)
    assert not drawing.figure.layout.shapes
    short = rope.rotation_maps(FREQUENCIES, n_tokens=5)
    assert short.figure.data[0].z.shape == (7, 64) and short.figure.layout.shapes[0].x0 == 4.5
    row = short.table["position"].index(2) + 1
    assert (short.table["position"][row], short.table["pair"][row]) == (2, 1)
    assert short.table["sin"][row] == pytest.approx(np.sin(2 * FREQUENCIES[1]))


def test_slowing_is_the_ratio_to_no_scaling():
    by_method = scaled_frequencies(14, 10000.0, standard_scalings(4.0, 256), 1024)
    drawing = rope.slowed(by_method, 4.0, 256, 1024)
    lines = {trace.name: trace.y for trace in drawing.figure.data}
    np.testing.assert_allclose(lines["none"], 1)
    np.testing.assert_allclose(lines["linear"], 4)
    assert lines["NTK-aware"][0] == pytest.approx(1) and lines["NTK-aware"][-1] == pytest.approx(4)
    assert "linear 7, NTK-aware 6" in drawing.title
    styles = {(t.line.dash, t.marker.symbol) for t in drawing.figure.data}
    assert len(styles) == len(lines)  # told apart without their colour


def test_loss_names_the_best_method_beyond_the_training_context():
    flat, rising = np.full(99, 2.0), np.r_[np.full(63, 1.0), np.full(36, 5.0)]
    drawing = rope.loss_by_position({"none": rising, "linear": flat, "YaRN": flat + 1}, 64, "GQA-4", "trained")
    assert drawing.title == "Beyond 64 tokens the loss is 5.00 without scaling, 2.00 with linear"
    assert drawing.table["nats a token up to 64"] == [1.0, 2.0, 3.0]
    assert list(drawing.figure.data[0].x) == [16.5, 48.5, 80.5, 98.0]  # the middles of positions 1-32, 33-64, …, 97-99
    np.testing.assert_allclose(drawing.figure.data[0].y, [1, (31 * 1 + 5) / 32, 5, 5])
    worse = rope.loss_by_position({"none": flat, "linear": flat + 1}, 64, "GQA-4", "trained")
    assert worse.title.endswith("2.00 without scaling, no method lowers it")


def test_a_score_moved_apart_is_marked_where_it_stands():
    scores = np.array([0.5, -1.25, 3.0])
    drawing = rope_scores.moved_apart(scores, 1, "·a", "$x$", HEAD)
    assert drawing.title == "“·a” and “\\$x\\$” score -1.25, 1 token apart; farther or nearer, from -1.25 to 3.00"
    assert "$x$" in drawing.alt and "\\$" not in drawing.alt
    line, mark = drawing.figure.data
    assert (mark.x[0], mark.y[0]) == (1, -1.25) and line.line.color == kv_colour(2, 4)


def test_decay_says_where_the_bound_is_lowest_and_would_say_if_it_failed():
    drawing = rope_scores.decay(np.array([-1.0, 2.0, 0.5]), np.array([8.0, 4.0, 5.0]), HEAD)
    assert drawing.title == "The bound falls from 8 to 4 at distance 1; the score keeps below it"
    assert drawing.table["|score|"] == [1.0, 2.0, 0.5]
    broken = rope_scores.decay(np.array([9.0, 2.0]), np.array([8.0, 4.0]), HEAD)
    assert "exceeds" in broken.title


def test_scores_by_distance_leave_out_distances_that_never_occur():
    nothing = np.array([1.0, np.nan, -2.0])
    drawing = rope_scores.by_distance(nothing, nothing - 1, nothing + 1, HEAD)
    assert drawing.title == "On this text the head scores highest 0 tokens back: 1.00 on average"
    assert drawing.table == {"distance": [0, 2], "mean": [1.0, -2.0], "lowest": [0.0, -3.0], "highest": [2.0, -1.0]}


def test_shifts_draw_the_largest_change_so_far():
    q, k = random(2, 14)
    shifted = shifted_scores(q, k, 9, 4, FREQUENCIES)
    drawing = rope_scores.shifts(shifted)
    naive, run_here, exact = (trace.y for trace in drawing.figure.data)
    changes = np.abs(shifted.float32_angles - shifted.float32_angles[0])[1:]
    assert naive[-1] == changes.max() and (np.diff(naive[~np.isnan(naive)]) >= 0).all()
    assert exact[-1] < run_here[-1] < naive[-1]
    assert f"{np.abs(shifted.float32 - shifted.float32[0]).max():.1e} in float32" in drawing.title
    assert len(drawing.table["shift"]) == 12


def test_values_draw_both_runs_and_say_how_far_each_moves():
    moved = ShiftedOutputs((0, 1, 10), np.array([0, 2e-7, 1e-7]), np.array([0, 0.5, 1.25]), 2.0)
    drawing = rope_scores.values(moved, HEAD)
    assert "stays within 2.0e-07; were v turned too, it would move by 1.2" in drawing.title
    still, moving = (trace.y.tolist() for trace in drawing.figure.data)
    assert still == [2e-7, 2e-7] and moving == [0.5, 1.25]  # the largest so far


@pytest.mark.parametrize("rotary_dim", [14, 6])
def test_layout_pairs_show_each_dimension_with_its_pair(rotary_dim):
    compared = compare_layouts(random(5, 14), random(6, 14), rope_frequencies(rotary_dim).numpy())
    drawing = rope_scores.layout_pairs(compared.order, rotary_dim // 2)
    half, interleaved = drawing.table["pair, half-split"], drawing.table["pair, interleaved"]
    order = drawing.table["half-split dimension that goes there"]
    assert [half[d] for d in order] == interleaved  # a dimension keeps its pair wherever it goes
    assert interleaved[:4] == [0, 0, 1, 1] and half[:3] == [0, 1, 2]
    assert interleaved[rotary_dim:] == half[rotary_dim:] == [-1] * (14 - rotary_dim)
    assert len(drawing.figure.layout.shapes) == 14
    assert drawing.title == f"Half-split turns dimensions 0 and {rotary_dim // 2} together, interleaved 0 and 1"
    assert f"{compared.difference:.2f}" in rope_scores.layout_finding(compared)


def test_maps_show_what_is_not_allowed_as_gaps_and_escape_the_tokens():
    allowed, values = np.tri(5, dtype=bool), np.linspace(0, 1, 25).reshape(5, 5)
    drawing = rope_scores.weight_map(values, allowed, LABELS, 0.5, HEAD, "Run as half", "A note.")
    cells = next(t for t in drawing.figure.data if t.type == "heatmap" and t.zmax == 0.5 and np.isnan(t.z).any())
    np.testing.assert_array_equal(np.isnan(cells.z), ~allowed)
    np.testing.assert_allclose(cells.z[allowed], values[allowed])
    shown = " ".join(drawing.figure.layout.xaxis.ticktext) + " ".join(drawing.figure.layout.xaxis2.ticktext)
    assert "<b>" not in shown and "&lt;b&gt;" in shown
    assert "Layer 1, head 5 (KV head 2), untrained, seed 7" in drawing.note and "sums to 1" in drawing.note


def test_score_maps_share_one_symmetric_scale():
    allowed, scores = np.tri(5, dtype=bool), random(5, 5)
    drawing = rope_scores.score_map(scores, allowed, LABELS, 3.0, HEAD, "Content", "A note.")
    cells = next(t for t in drawing.figure.data if t.type == "heatmap" and t.zmax == 3)
    assert cells.zmin == -3 and "±3.0" in drawing.note
    assert drawing.table["highest score"][0] == scores[0, 0] == drawing.table["lowest score"][0]


def test_the_clocks_are_sent_every_number_the_browser_needs():
    q = random(5, 7, 2)
    sent = pack(FREQUENCIES, q, LABELS, 3, "#336699")
    size = struct.unpack("<I", sent[:4])[0]
    header = json.loads(sent[4 : 4 + size])
    assert header["frequencies"] == FREQUENCIES.tolist()  # every digit
    assert header["labels"] == LABELS and header["query"] == 3 and header["last"] == 63
    np.testing.assert_array_equal(np.frombuffer(sent[4 + size :], "<f4").reshape(5, 7, 2), q)
