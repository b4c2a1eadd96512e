"""Captions of maps in which no cell is masked, as an encoder's: nothing of masks, nor of a special first row."""

import numpy as np
import pytest

from attnviz.figures import head_values, heads, rollout
from attnviz.figures.head_captions import map_caption, path_caption, stages_of
from attnviz.recorded import RecordedTrace
from attnviz.runs.run import run_of
from attnviz.ui.components.head_view import Cell, path_of
from tests import saved_runs

T = 11
ALL, CAUSAL = np.ones((T, T), bool), np.tri(T, dtype=bool)
LABELS = saved_runs.BERT
NEVER = ("mask", "expanded", "Grey", "first row", "KV", "chequered", "blank")


def encoder() -> RecordedTrace:
    """Three layers of five heads with the q and k that lead to their weights; the largest weight is in row 0."""
    rng = np.random.default_rng(3)
    q, k = (rng.normal(scale=2, size=(3, 5, T, 7)).astype(np.float32) for _ in range(2))
    q[:, :, 0] *= 5
    weights = saved_runs.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(7), ALL)
    run = run_of(weights, LABELS, q=q, k=k)
    return RecordedTrace(run, run.kinds[0])


def said(drawing) -> str:
    return " ".join(str(getattr(drawing, part, "")) for part in ("title", "note", "more", "alt", "legend"))


@pytest.mark.parametrize("name", ["map", "path", "zoom", "stages", "average", "difference", "rollout"])
def test_nothing_is_said_of_masks(name):
    trace = encoder()
    maps = trace.layers[1].weights
    drawn = {
        "map": lambda: map_caption(trace, LABELS, 1, 2),
        "path": lambda: path_caption(trace, LABELS, 1, 2, 3, 5),
        "zoom": lambda: heads.head_map(trace, LABELS, 1, 2),
        "stages": lambda: heads.stage_maps(trace, LABELS, 1, 2),
        "average": lambda: head_values.average_map(maps, ALL, LABELS, "5 heads", 3),
        "difference": lambda: head_values.difference_map(maps[0], maps[1], ALL, LABELS, ("one", "two"), "What."),
        "rollout": lambda: rollout.rollout_map(maps, np.stack([ALL] * 5), LABELS, 1, 3),
    }[name]()
    assert [word for word in NEVER if word in said(drawn)] == [], said(drawn)


def test_the_largest_weight_may_be_in_the_first_row():
    maps = np.full((2, T, T), 0.05)
    maps[:, 0, 7], maps[:, 4, 2] = 0.5, 0.25
    drawing = head_values.average_map(maps, ALL, LABELS, "2 heads", 3)
    assert drawing.title == "Mean over 2 heads: at most 0.5000" and "from query 0" in drawing.note
    causal = head_values.average_map(maps * CAUSAL, CAUSAL, LABELS, "2 heads", 3)
    assert causal.title == "Mean over 2 heads: at most 0.2500 after the first row" and "grey" in causal.note


def test_stages_are_two_without_a_mask_and_their_numbers_those_of_the_trace():
    trace = encoder()
    drawing = heads.stage_maps(trace, LABELS, 1, 2)
    assert [a.text for a in drawing.figure.layout.annotations if " · " in a.text] == ["1 · scores", "2 · weights"]
    path = path_of(trace, LABELS, Cell(1, 2, 3, 5, 5), path_caption(trace, LABELS, 1, 2, 3, 5))
    weights = trace.layers[1].weights[2, 3]
    assert path["stages"] == ("1 · scores", "2 · weights") and np.allclose(path["weights"], weights, atol=1e-4)
    assert len(stages_of(CAUSAL)) == 3 and path["legend"][0][1] == "H2"


def test_the_scale_of_a_difference_ends_at_the_largest():
    first, second = np.zeros((T, T)), np.zeros((T, T))
    first[3, 5], second[4, 1] = 0.0125, 0.01
    drawing = head_values.difference_map(first, second, ALL, LABELS, ("one", "two"), "What.")
    scales = [trace.zmax for trace in drawing.figure.data if trace.type == "heatmap" and trace.zmin < 0]
    assert scales and np.allclose(scales, 0.0125) and "+0.0125 from query 3" in drawing.note


def test_equal_maps_are_said_to_be_equal():
    maps = np.full((T, T), 1 / T)
    drawing = head_values.difference_map(maps, maps, ALL, LABELS, ("one", "two"), "What.")
    assert drawing.title == "one and two are equal: 121 weights, no difference"
    assert "argest" not in said(drawing) and "from" not in said(drawing)
