"""pytest tests/test_head_studies.py: what the drawings of all heads say, read back and counted by hand."""

import re

import numpy as np
import pytest

from attnviz.analysis.heads import NEEDED, ROLES, Role, statistics
from attnviz.figures.head_studies import STATISTICS, role_scores, statistic_map

L, H, T = 3, 5, 7


def uniform_and_sinks() -> np.ndarray:
    """(L, H, T, T): even causal rows everywhere, but heads (0, 1) and (2, 4) look at the first token alone."""
    weights = np.broadcast_to(np.tri(T) / np.arange(1, T + 1)[:, None], (L, H, T, T)).copy()
    for layer, head in ((0, 1), (2, 4)):
        weights[layer, head] = np.eye(T)[np.zeros(T, int)]
    return weights


@pytest.mark.parametrize("name", STATISTICS)
def test_every_number_is_drawn_and_written(name):
    values = getattr(statistics(uniform_and_sinks()), name)
    drawing = statistic_map(statistics(uniform_and_sinks()), name, T, 1, 3)
    cells, texts = drawing.figure.data
    np.testing.assert_allclose(cells.z, values, atol=1e-6)
    written = np.zeros((L, H))
    written[texts.y, texts.x] = [float(t) for t in texts.text]
    np.testing.assert_allclose(written, values, atol=0.051)
    *_, column = drawing.table.values()
    assert np.reshape(column, (L, H)) == pytest.approx(values, abs=1e-6)
    assert drawing.table["layer"][5:10] == [1] * 5 and drawing.table["head"][5:10] == [0, 1, 2, 3, 4]
    decimals = STATISTICS[name][1]
    assert f"the lowest, {values.min():.{decimals}f}, is layer" in drawing.alt
    assert f"the highest, {values.max():.{decimals}f}, layer" in drawing.alt


def test_sinks_are_counted():
    drawing = statistic_map(statistics(uniform_and_sinks()), "first_token", T, 0, 0)
    assert drawing.title == "2 of 15 heads rest mostly on the first token"
    assert "normal" in drawing.note
    assert drawing.alt.startswith(drawing.title) and re.search("the highest, [\\d.]+, layer 0, head 1;", drawing.alt)


def test_what_an_even_spread_would_have_is_what_such_a_head_has():
    found = statistics(uniform_and_sinks())
    assert f"{found.entropy[1, 1]:.2f} bits where" in statistic_map(found, "entropy", T, 0, 0).note
    assert found.entropy[1, 1] == pytest.approx(sum(np.log2(n) for n in range(1, T + 1)) / T)


def test_the_selected_head_is_framed():
    (frame,) = statistic_map(statistics(uniform_and_sinks()), "entropy", T, 2, 1).figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (0.5, 1.5, 1.5, 2.5)


@pytest.mark.parametrize(("name", "says"), [("induction", "0.3 is needed"), ("broad", "nothing else reaches its mark")])
def test_a_roles_score_stands_beside_what_it_needs(name, says):
    scores = {role: np.full((L, H), 0.1 + 0.05 * i) for i, role in enumerate(ROLES)}
    scores[name][1, 2] = 0.77
    drawing = role_scores(scores, Role(name, 0.77), 1, 2, "#123456")
    assert drawing.title.startswith(f"Layer 1, head 2: {name} 0.77") and says in drawing.title
    bars, marks = drawing.figure.data
    assert dict(zip(bars.y, bars.x, strict=True)) == {role: values[1, 2] for role, values in scores.items()}
    assert [c == "#123456" for c in bars.marker.color] == [role == name for role in ROLES]
    assert dict(zip(marks.y, marks.x, strict=True)) == NEEDED
