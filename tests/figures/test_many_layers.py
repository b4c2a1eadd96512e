"""Charts with a row per layer stay within a screen at 30 layers, with a label for each."""

import numpy as np
import pytest

from attnviz.analysis.heads import HeadStatistics
from attnviz.analysis.rollout import rollout
from attnviz.experiments.residual import Lens
from attnviz.figures.ablation import effect_map
from attnviz.figures.chart import TICK_ROOM, rows_height
from attnviz.figures.head_studies import statistic_map
from attnviz.figures.rollout import rollout_map, rollout_of_query
from attnviz.figures.steps import attribution, lens_map

L, H, T = 30, 9, 7
RANDOM = np.random.default_rng(5)
MAPS = RANDOM.dirichlet(np.ones(T), (L, H, T)).astype(np.float32)
HEADS = RANDOM.uniform(0, 1, (L, H))
PARTS = ["embedding", *(f"{part} {i}" for i in range(L) for part in ("attention", "feed-forward"))]
ADDED = RANDOM.normal(size=len(PARTS))
READ = Lens(np.ones((L + 1, T), int), np.full((L + 1, T), 0.5))
DRAWINGS = {
    "ablation": lambda: effect_map(HEADS, 0.5, "zero", 28, 7),
    "statistics": lambda: statistic_map(HeadStatistics(HEADS, HEADS, HEADS), "entropy", 28, 7),
    "rollout": lambda: rollout_of_query(rollout(MAPS), list("abcdefg"), 3),
    "lens": lambda: lens_map(
        Lens(np.ones((L + 1, T), int), np.full((L + 1, T), 0.5)), ["ab"] * T, list("abcdefg"), 3, 11
    ),
    "attribution": lambda: attribution(ADDED, PARTS, "a", float(ADDED.sum()), "b"),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_thirty_layers_fit_a_screen_with_a_label_each(name):
    layout = DRAWINGS[name]().chart.layout
    ticks = layout["yaxis"]["ticktext"]
    assert len(ticks) >= L and layout["height"] < 960 and layout["height"] >= TICK_ROOM * len(ticks)


def test_the_note_says_where_the_bar_ends_as_the_bar_does():
    rolled = np.array([[[1.0, 0.0, 0.0], [0.9968, 0.0032, 0.0], [0.5, 0.25, 0.25]]])
    drawing = rollout_map(rolled, np.tri(3, dtype=bool)[None], list("abc"), 0, 1)
    assert drawing.chart.layout["xaxis3"]["ticktext"] == ["0", "0.498", "0.997"]
    assert "Colour ends at 0.997," in drawing.note
    assert "Colour ends at 0.997." in rollout_of_query(rolled, list("abc"), 1).note


def test_few_rows_are_as_high_as_usual():
    assert [rows_height(n, 44) for n in (1, 4, 12)] == [44, 176, 528]
    assert rows_height(30, 44) == 560 and rows_height(61, 24) == 61 * TICK_ROOM
