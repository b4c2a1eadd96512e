"""A cell is printed as the same number in the grid, the head view, lines, titles, tables and equations of the Heads
page, for any settings.
"""

import math

import numpy as np
import pytest

from attnviz.compute import models
from attnviz.figures import head_detail, heads
from attnviz.figures.head_captions import map_caption, path_caption, path_numbers
from attnviz.figures.numbers import DIGITS, printed
from attnviz.session.settings import Settings
from attnviz.ui.components import head_grid, head_view, line_view
from tests.arithmetic import results
from tests.reading import numbers_where
from tests.ui.test_head_grid import read

pytestmark = pytest.mark.slow

OWN = {"model": "own", "n_layers": 2, "n_heads": 6, "n_kv_heads": 3, "d_model": 42}
INVENTED = {  # settings, tokens
    "causal": (OWN, 13),
    "trained": ({"model": "gqa-4"}, 29),
    "window": ({**OWN, "window": 3}, 17),
    "window and sinks": ({"model": "mha", "window": 5, "n_sinks": 2}, 23),
    "padding": ({**OWN, "padding": 4}, 11),
    "padding and window": ({"model": "mqa", "padding": 7, "window": 2}, 19),
    "bidirectional": ({**OWN, "causal": False}, 7),
    "bidirectional, padding": ({"model": "gqa-2", "causal": False, "padding": 3}, 11),
    "no RoPE": ({**OWN, "rope": False, "seed": 5}, 13),
    "one token": (OWN, 1),
    "latent": ({"model": "mla"}, 23),
    "latent, window": ({"model": "mla", "window": 4, "n_sinks": 1}, 13),
}


@pytest.fixture(params=INVENTED.values(), ids=INVENTED)
def trace(request):
    settings, n = request.param
    settings = Settings(**settings)
    ids = tuple(int(i) for i in np.random.default_rng(n).integers(0, 2003, n))
    return models.trace_of(settings, ids, min(settings.padding, n - 1))


@pytest.fixture
def labels(trace):
    return [f"·t{i}" for i in trace.tokens]


def cells(message):
    """Return the text of each cell as the browser prints it: divided by 10,000, with four decimals."""
    codes = read(message)[1]
    return np.where(codes > 10_000, "masked", np.where(codes, np.char.mod("%.4f", codes / 10_000), "< 0.0001"))


def tex(number):
    """Return a printed number with a power of ten as LaTeX writes it: "3.2·10⁻⁵"."""
    digits, _, power = number.partition("·10⁻")
    return rf"{digits}\cdot 10^{{-{power.translate(str.maketrans('⁰¹²³⁴⁵⁶⁷⁸⁹', '0123456789'))}}}" if power else number


def pairs(trace, most=12):
    """Return some (query, key) pairs of a map, including its corners."""
    T = len(trace.tokens)
    drawn = np.random.default_rng(0).integers(0, T, (most, 2)).tolist()
    return [(0, 0), (T - 1, 0), (T - 1, T - 1), (0, T - 1), *map(tuple, drawn)]


def test_every_part_of_the_page_prints_the_same_weight(trace, labels):
    layer, head = trace.config.n_layers - 1, min(3, trace.config.n_heads - 1)
    weights, allowed = trace.weights[layer, head], trace.allowed[layer]
    read_by = trace.config.mixer.kv_head_of
    grid = cells(head_grid.pack(trace.weights, trace.allowed, {"kv": list(read_by)}))[layer, head]
    lines = cells(
        line_view.pack(weights[None], allowed[None], labels, ["one"], [read_by[head]], trace.config.n_kv_heads, {})
    )[0, 0]
    drawing = heads.head_map(trace, labels, layer, head)
    hovered = next(t for t in drawing.figure.data if "weight" in (t.hovertemplate or ""))
    assert f".{DIGITS}f" in hovered.hovertemplate
    for query, key in pairs(trace):
        wanted = printed(weights[query, key]) if allowed[query, key] else "masked"
        in_cell = "< 0.0001" if allowed[query, key] and weights[query, key] < 5e-5 else wanted
        cell = head_view.Cell(layer, head, query, key, key)
        captions = (
            map_caption(trace, labels, layer, head),
            path_caption(trace, labels, layer, head, query, key),
        )
        message = head_view.pack(trace, labels, cell, captions[0])
        header = head_view.path_of(trace, labels, cell, captions[1])
        path = path_numbers(trace, labels, layer, head, query, key)
        one = head_detail.weight_by_steps(trace, labels, layer, head, query, key)
        assert grid[query, key] == lines[query, key] == cells(message)[0, 0, query, key] == in_cell
        assert captions[1].title.endswith(f": {wanted}") and path.title.endswith(f": {wanted}")
        assert wanted in one.title and wanted in one.alt
        score = trace.layers[layer].scores_of(head)[query, key]
        assert f"score {printed(score)}, " in one.title and printed(path.table["score"][key]) == printed(score)
        assert printed(header["scores"][key]) == printed(score)
        if wanted == "masked":
            assert captions[1].line == "" and "a_{" not in one.formula
            continue
        assert printed(header["weights"][key]) == printed(path.table["weight"][key]) == wanted
        assert printed(drawing.table[f"{key} {labels[key]}"][query]) == wanted
        assert printed(np.array(hovered.z)[query, key]) == wanted
        for formula in (path.formula, one.formula, captions[1].line):
            assert formula.endswith((f"= {wanted}", f"= {tex(wanted)}"))


def test_the_equations_evaluate_to_what_they_say(trace, labels):
    """Evaluated from the text alone, within the rounding error of four decimals."""
    for query, key in pairs(trace):
        line = path_caption(trace, labels, 0, 0, query, key).line
        if not line:
            assert not trace.allowed[0, query, key]
            continue
        assert len(results(line)) == 1
        score, largest, total, weight = numbers_where(r"= exp\(# - \(?#\)?\) / # = #$", line)
        assert math.exp(score - largest) / total == pytest.approx(weight, abs=2.1e-4)
        row = trace.layers[0].scores_of(0)[query][trace.allowed[0, query]]
        assert f"{largest:.4f}" == f"{row.max() + 0.0:.4f}" or abs(largest - row.max()) < 5.1e-5
