"""Parts of a query x key map: token axes, cells, grey masked cells, a colour bar.

T query tokens, S key tokens; T x S is pooled to N x M cells. The axes are positions with labels as tick texts, since
plotly merges equal labels into one position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from attnviz.characters import axis_labels
from attnviz.figures.blocks import block_size, largest_size, pool
from attnviz.figures.chart import Chart, numbered
from attnviz.figures.head_captions import decades, share_at, shortened
from attnviz.figures.label_width import label_width
from attnviz.figures.numbers import DIGITS, significant
from attnviz.figures.theme import CHEQUERED, LABEL, MASKED, NEUTRAL, base_figure

MAX_X_TICKS, MAX_Y_TICKS = 24, 36  # as many as fit on a phone
LONGEST_LABEL = 14  # characters
BARE = {"showgrid": False, "zeroline": False, "ticks": ""}
FIXED = {**BARE, "automargin": False}  # for figures with given margins: plotly draws twice to compute them
BAR_STEPS = 64
BAR_ROOM, BAR_BOTTOM, BAR_HEIGHT = 62, 22, 10  # pixels below a map: in all, from the edge up to the bar, of the bar


def token_map_figure(
    labels: Sequence[str], height: int, most_cells: int, key_labels: Sequence[str] | None = None
) -> Chart:
    """Return a figure with token axes: x and y have few tick labels; x2 and y2, overlaid, have all, for hover texts.

    key_labels: S labels of the columns, if the keys are another text's.
    """
    keys = labels if key_labels is None else key_labels
    x_ticks, y_ticks = few_ticks(keys, MAX_X_TICKS), few_ticks(labels, MAX_Y_TICKS)
    margin = {"l": room_for(y_ticks), "r": 8, "t": room_for(x_ticks), "b": 8, "autoexpand": False}
    figure = base_figure(height, showlegend=False, hovermode="closest", margin=margin)
    figure.update_layout(
        xaxis={**FIXED, **x_ticks, "range": [-0.5, len(keys) - 0.5], "side": "top", "tickangle": -90},
        yaxis={**FIXED, **y_ticks, "range": [len(labels) - 0.5, -0.5]},
        xaxis2={
            **FIXED, **block_ticks(keys, most_cells), "matches": "x", "overlaying": "x", "showticklabels": False,
        },
        yaxis2={
            **FIXED, **block_ticks(labels, most_cells), "matches": "y", "overlaying": "y", "showticklabels": False,
        },
    )  # fmt: skip
    figure.add_scatter(x=[None], y=[None], mode="markers", hoverinfo="skip")  # plotly does not label empty axes
    return figure


def room_for(ticks: dict) -> int:
    """Return the pixels that the longest of these tick labels takes."""
    return 12 + round(max(map(label_width, ticks["ticktext"]), default=0))


def few_ticks(labels: Sequence[str], most: int) -> dict:
    """Return at most `most` ticks at round distances, labelled with token and position."""
    step = _round_step(len(labels) / most)
    at = list(range(0, len(labels), step))
    named = zip(axis_labels(labels, at), at, strict=True)
    return {"tickvals": at, "ticktext": [f"{token_text(label)} {i}" for label, i in named], "tickfont": LABEL}


def _round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50, … that is at least `least`."""
    return next(step * 10**e for e in range(9) for step in (1, 2, 5) if step * 10**e >= least)


def block_ticks(labels: Sequence[str], most_cells: int) -> dict:
    """Return a tick for every cell of a map of at most `most_cells` per side; plotly shows them as hover text."""
    block = block_size(len(labels), most_cells)
    firsts = range(0, len(labels), block)
    lasts = [min(first + block, len(labels)) - 1 for first in firsts]
    text = [span_text(labels, first, last) for first, last in zip(firsts, lasts, strict=True)]
    return {"tickvals": [first + (block - 1) / 2 for first in firsts], "ticktext": text}


def span_text(labels: Sequence[str], first: int, last: int) -> str:
    if first == last:
        return f"{first} “{token_text(labels[first], 40)}”"
    return f"{first}–{last} “{token_text(labels[first])}” … “{token_text(labels[last])}”"


def token_text(label: str, longest: int = LONGEST_LABEL) -> str:
    """Format a token for plotly: shortened, markup escaped, and isolated from its neighbours' writing direction."""
    return f"\u2068{escape(shortened(label, longest), quote=False)}\u2069"


def blocks(values: np.ndarray, most_cells: int, *, signed: bool = False) -> dict:
    """Pool values (T, S) to z (N, M) with its cells' positions; a cell is its block's maximum, NaN if all are NaN.

    signed: it is the value with the largest absolute value instead.
    """
    values = values.astype(np.float32, copy=False)
    z = largest_size(values, most_cells) if signed else pool(values, np.fmax, most_cells)
    return {"z": z, **places(values.shape, most_cells)}


def places(shape: tuple[int, ...], most_cells: int) -> dict:
    at: dict[str, float] = {}
    for axis, n in zip("yx", shape, strict=True):
        block = block_size(n, most_cells)
        at |= {f"{axis}0": (block - 1) / 2, f"d{axis}": block}
    return at


def add_cells(figure: Chart, cells: dict, scale: list, bounds: tuple[float, float], hover: str, axes: int = 2) -> None:
    """Add a heatmap of the cells from `blocks`; `hover` is the hover text of a cell. NaN is a gap."""
    figure.add_heatmap(
        **cells, xaxis=numbered("x", axes), yaxis=numbered("y", axes), colorscale=scale, zmin=bounds[0], zmax=bounds[1],
        showscale=False, hoverongaps=False,
        xgap=_gap(cells["z"]), ygap=_gap(cells["z"]),
        hovertemplate=f"query %{{y}}<br>key %{{x}}<br>{hover}<extra></extra>",
    )  # fmt: skip


def _gap(z: np.ndarray) -> float:
    return 1 if max(z.shape) <= 40 else 0


def add_masked(figure: Chart, allowed: np.ndarray, most_cells: int, axes: int = 2, *, chequered: bool = False) -> None:
    """Add grey for cells without any allowed pair; it lies below the weights, which have gaps there.

    chequered: in two greys by turns, which no value has, for a scale that is pale around 0.
    """
    masked = 1 - pool(allowed, np.logical_or, most_cells).astype(np.uint8)  # (N, M), one byte per cell
    if chequered:
        masked *= 1 + np.add.outer(*map(np.arange, masked.shape)).astype(np.uint8) % 2
    grey = [[0, "rgba(128, 128, 128, 0)"], [0.5, MASKED], [1, CHEQUERED]] if chequered else _ONE_GREY
    add_cells(figure, {"z": masked, **places(allowed.shape, most_cells)}, grey, (0, 1 + chequered), "masked", axes)


_ONE_GREY = [[0, "rgba(128, 128, 128, 0)"], [1, MASKED]]


def add_colourbar(
    figure: Chart, colours: list, top: float, title: str = "weight", *, lowest: float = 0.0, scale: str = "linear"
) -> None:
    """Add the colour scale as a map of one row with its own axes: plotly's colour bar takes as long as all the rest.

    colours: at equal distances along the bar. lowest, top: the values at its ends, lowest of a linear scale only.
    """
    marks = _bar_marks(scale, lowest, top)
    figure.add_heatmap(
        z=np.linspace(0, 1, BAR_STEPS)[None], x0=0.5 / BAR_STEPS, dx=1 / BAR_STEPS, xaxis="x3", yaxis="y3",
        colorscale=colours, zmin=0, zmax=1, showscale=False, hoverinfo="skip",
    )  # fmt: skip
    margin = figure.layout["margin"]
    pixel = 1 / (figure.layout["height"] - margin["t"] - margin["b"])
    plain = {**FIXED, "fixedrange": True}
    ticks = {"tickvals": list(marks), "ticktext": list(marks.values()), "tickfont": LABEL}
    figure.foot = BAR_ROOM
    figure.update_layout(
        yaxis={"domain": [BAR_ROOM * pixel, 1]},
        xaxis3={**plain, **ticks, "domain": [0.15, 0.85], "anchor": "y3", "range": [0, 1]},
        yaxis3={
            **plain, "domain": [BAR_BOTTOM * pixel, (BAR_BOTTOM + BAR_HEIGHT) * pixel], "anchor": "x3",
            "showticklabels": False,
        },
    )  # fmt: skip
    figure.add_annotation(text=title, x=0.5, y=1, xref="x3 domain", yref="y3 domain", yanchor="bottom", showarrow=False)


def _bar_marks(scale: str, lowest: float, top: float) -> dict[float, str]:
    """Return the values printed below a colour bar, by their place along it from 0 to 1."""
    if scale == "log":  # the powers of ten; those beyond the top are outside the bar
        return {1 + (e - math.log10(top)) / decades(top): f"{10.0**e:g}" for e in range(-DIGITS, 1)}
    if scale == "root":
        along = np.linspace(0, 1, 5)
        return dict(zip(along.tolist(), map(significant, top * share_at(scale, along, top)), strict=True))
    return {at: bar_number(lowest + (top - lowest) * at) for at in (0.0, 0.5, 1.0)}


def bar_number(value: float) -> str:
    """Format a value below a linear colour bar, and in the sentence that says where the bar ends."""
    return f"{value:.3g}".replace("-", "−")


def add_frames(figure: Chart, n: int, query: int | None, key: int | None, n_keys: int | None = None) -> None:
    """Frame the row of a query and the column of a key in a map of n tokens, or of n queries and n_keys keys."""
    across = n if n_keys is None else n_keys
    line = {"color": NEUTRAL, "width": 2}
    if query is not None:
        figure.add_shape(type="rect", x0=-0.5, x1=across - 0.5, y0=query - 0.5, y1=query + 0.5, line=line)
    if key is not None:
        figure.add_shape(type="rect", x0=key - 0.5, x1=key + 0.5, y0=-0.5, y1=n - 0.5, line=line)
