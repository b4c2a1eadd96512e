"""The captions of the figures of all heads, read back and counted by hand."""

import re

import numpy as np
import pytest

from attnviz.analysis.heads import statistics
from attnviz.analysis.roles import BROAD, COLUMN, KEYED, NO_ROLE, UNIFORM, largest_columns, role_of, score
from attnviz.config import ModelConfig
from attnviz.figures.head_studies import STATISTICS, probe_scores, statistic_map, text_scores
from attnviz.figures.role_captions import Probes
from attnviz.figures.theme import NEUTRAL, TEXT
from tests.reading import numbers_in, numbers_where

L, H, T = 3, 5, 7
ALLOWED = np.broadcast_to(np.tri(T, dtype=bool), (L, T, T))
PROBES = Probes(3, 13, ModelConfig(n_layers=3, d_model=40, n_heads=5, n_kv_heads=5), trained=True)


def uniform_and_sinks() -> np.ndarray:
    """Return (L, H, T, T): uniform causal rows, except that heads (0, 1) and (2, 4) attend only to the first token."""
    weights = np.broadcast_to(np.tri(T) / np.arange(1, T + 1)[:, None], (L, H, T, T)).copy()
    for layer, head in ((0, 1), (2, 4)):
        weights[layer, head] = np.eye(T)[np.zeros(T, int)]
    return weights


@pytest.mark.parametrize("name", STATISTICS)
def test_every_number_is_drawn_and_written(name):
    values = getattr(statistics(uniform_and_sinks(), ALLOWED), name)
    drawing = statistic_map(statistics(uniform_and_sinks(), ALLOWED), name, 1, 3)
    cells, texts = drawing.figure.data
    np.testing.assert_allclose(cells.z, values, atol=1e-6)
    written = np.zeros((L, H))
    assert texts.textfont.color == TEXT  # the page's own, in either theme
    written[texts.y, texts.x] = [float(t) for t in texts.text]
    np.testing.assert_allclose(written, values, atol=0.051)
    *_, column = drawing.table.values()
    assert np.reshape(column, (L, H)) == pytest.approx(values, abs=1e-6)
    assert drawing.table["layer"][5:10] == [1] * 5 and drawing.table["head"][5:10] == [0, 1, 2, 3, 4]
    decimals = STATISTICS[name][1]
    ends = numbers_where("lowest, #, .*highest, #,", drawing.alt)
    assert ends == pytest.approx([values.min(), values.max()], abs=0.51 * 10**-decimals)


def test_sinks_are_counted():
    drawing = statistic_map(statistics(uniform_and_sinks(), ALLOWED), "first_token", 0, 0)
    assert numbers_in(drawing.title) == [2, 15]
    assert numbers_where("highest, #, layer #, head #", drawing.alt)[1:] == [0, 1]


def test_the_selected_head_is_framed():
    (frame,) = statistic_map(statistics(uniform_and_sinks(), ALLOWED), "entropy", 2, 1).figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (0.5, 1.5, 1.5, 2.5) and frame.line.color == TEXT


def heads_of_every_kind() -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return (1, 4, 26, 26) on repeated tokens: induction, previous token, uniform, and an unclear mixture."""
    n, period = 26, 13
    allowed = np.tri(n, dtype=bool)
    even = allowed / allowed.sum(-1, keepdims=True)
    induction, previous = (np.eye(n, k=-back) for back in (period - 1, 1))
    induction[: period - 1, 0], previous[0, 0] = 1, 1
    mixture = 0.8 * even
    mixture[np.arange(n), np.arange(n) // 3] += 0.2
    return np.stack([induction, previous, even, mixture])[None], allowed[None], [*range(period)] * 2


@pytest.mark.parametrize(("head", "name"), [(0, "induction"), (1, "previous token"), (2, BROAD), (3, NO_ROLE)])
def test_the_bars_are_the_scores_beside_chance_and_what_is_needed(head, name):
    scores = score(*heads_of_every_kind()).of(0, head)
    role = role_of(scores)
    assert role.name == name
    drawing = probe_scores(scores, role, PROBES, 1, 2, "#123456")
    bars, chance, needed, written = drawing.figure.data
    assert dict(zip(bars.y[:-1], bars.x[:-1], strict=True)) == {n: s.weight for n, s in scores.shares.items()}
    assert bars.x[-1] == scores.entropy and list(bars.y[:-1]) == [n for n in KEYED if n in scores.shares]
    assert list(chance.x) == [*(s.chance for s in scores.shares.values()), 1]
    assert list(needed.x) == [*(s.chance + 0.3 for s in scores.shares.values()), UNIFORM]
    assert list(written.text) == [f"{value:.2f}" for value in bars.x]
    assert set(bars.marker.line.color) <= {NEUTRAL, "#123456"} and bars.marker.line.width == 1
    coloured = [y for y, c in zip(bars.y, bars.marker.color, strict=True) if c == "#123456"]
    assert coloured == {BROAD: ["normalised entropy"], NO_ROLE: []}.get(name, [name])
    numbers = [float(n) for n in re.findall(r"\d\.\d+", drawing.title)]
    reached = {BROAD: [scores.entropy, UNIFORM], NO_ROLE: []}.get(name)
    expected = reached if reached is not None else [role.score, scores.shares[name].needed]
    assert numbers == pytest.approx(expected, abs=0.005)


def test_an_untrained_head_is_given_no_role_whatever_its_scores():
    scores = score(*heads_of_every_kind()).of(0, 0)
    untrained = Probes(3, 13, PROBES.config, trained=False)
    drawing = probe_scores(scores, role_of(scores), untrained, 1, 2, "#123456")
    assert "untrained" in drawing.title and "induction" not in drawing.title
    assert "#123456" not in drawing.figure.data[0].marker.color


def test_on_a_text_the_key_with_most_weight_is_drawn_too():
    weights, allowed, tokens = heads_of_every_kind()
    weights = weights[0, 2] * 0.5
    weights[:, 4] += 0.5
    weights[:5] = np.eye(26)[0]
    scores, column = score(weights[None, None], allowed, tokens).of(0, 0), largest_columns(weights[None], allowed[0])[0]
    drawing = text_scores(scores, column, [f"·w{i}" for i in range(26)], "#123456")
    bars = drawing.figure.data[0]
    by_hand = weights[4:, 4].mean()
    assert bars.x[list(bars.y).index("token 4")] == pytest.approx(by_hand)
    assert drawing.table["queries"][-2] == 22 and COLUMN not in drawing.table["share"]
    assert {round(by_hand, 2), 4} <= {*numbers_in(drawing.title)}
