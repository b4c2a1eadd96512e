"""The figures of a head's output, recomputed from the arrays."""

import numpy as np
import pytest

from attnviz.analysis.values import writes
from attnviz.figures import head_values
from attnviz.figures.theme import kv_ramp, kv_scale
from tests.reading import numbers_in, numbers_where

T, S, D, C, V = 7, 7, 3, 5, 31
RNG = np.random.default_rng(17)
SEEN = np.tri(T, dtype=bool)
LABELS = [f"·w{i}" for i in range(T)]


def attention(*shape):
    exp = np.where(SEEN, np.exp(RNG.normal(size=(*shape, T, S))), 0)
    return exp / exp.sum(-1, keepdims=True)


def found():
    return writes(attention(), RNG.normal(size=(S, D)), RNG.normal(size=(C, D)))


def drawn(drawing):
    """Return the map's cells, without the mask and the colour bar."""
    return next(np.array(m.z) for m in drawing.figure.data if m.type == "heatmap" and "masked" not in m.hovertemplate)


def test_value_maps_show_the_norms_and_name_the_largest():
    of = found()
    for projected, values in ((False, of.weighted), (True, of.projected)):
        drawing = head_values.value_map(of, SEEN, LABELS, kv_scale(0, 2), 4, projected=projected)
        assert np.allclose(drawn(drawing)[SEEN], values[SEEN], atol=1e-6) and np.isnan(drawn(drawing)[~SEEN]).all()
        assert pytest.approx(values.max(), abs=5.1e-5) in numbers_in(drawing.title)


def test_the_bars_of_norms_and_logits_are_what_was_computed():
    of = found()
    norms = np.array([np.sqrt((row**2).sum()) for row in of.outputs])
    bars = head_values.output_norms(of, LABELS, 4, "L1 H2", "#123456").figure.data[0]
    assert np.allclose(bars.y, norms) and [c == "#123456" for c in bars.marker.color] == [i == 4 for i in range(T)]
    effects = RNG.normal(size=V)
    drawing = head_values.logit_bars(effects, [f"t{i}" for i in range(V)], LABELS, 4, "L1 H2")
    bars = drawing.figure.data[0]
    n = head_values.MAX_TOKENS
    assert np.allclose(bars.x, [*np.sort(effects)[::-1][:n], *np.sort(effects)[::-1][-n:]])


def test_average_and_difference():
    maps = attention(5)
    mean = sum(maps) / 5
    assert np.allclose(drawn(head_values.average_map(maps, SEEN, LABELS, "5 heads", 3))[SEEN], mean[SEEN], atol=1e-6)
    drawing = head_values.difference_map(maps[0], maps[1], SEEN, LABELS, ("A", "B"), "What.")
    change = maps[0] - maps[1]
    assert np.allclose(drawn(drawing)[SEEN], change[SEEN], atol=1e-6)
    most, mean = numbers_where("at most #, mean #", drawing.title)
    assert (most, mean) == pytest.approx((np.abs(change).max(), np.abs(change)[SEEN].mean()), abs=5.1e-5)


def test_the_zoomed_map_has_the_colours_of_the_canvas():
    for ground in ("light", "dark"):
        scale, ramp = kv_scale(1, 3, ground=ground), kv_ramp(1, 3, ground)
        for at, colour in scale:
            assert colour == "rgb({}, {}, {})".format(*ramp[round(255 * at)])
        logarithmic = dict(kv_scale(1, 3, ground, at=np.logspace(-4, 0, 33)))
        assert logarithmic[0.0] == logarithmic[1e-4] == scale[0][1] and logarithmic[1e-2] == scale[16][1]
