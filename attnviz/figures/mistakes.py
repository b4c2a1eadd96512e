"""Figures of a mistake beside the right version: a head's map in both, their difference, or counts as bars.

T query tokens, S key tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing
from attnviz.figures.head_captions import LOWEST_TOP
from attnviz.figures.heads import HOVER, matrix_table
from attnviz.figures.numbers import DIGITS, printed
from attnviz.figures.theme import DIVERGING, NEUTRAL, SEQUENTIAL, base_figure, kv_colour, kv_scale, signed_scale
from attnviz.figures.token_maps import (
    add_cells,
    add_colourbar,
    add_masked,
    blocks,
    few_ticks,
    room_for,
    token_map_figure,
)
from attnviz.mistakes import Symptom
from attnviz.mistakes.runs import format_number
from attnviz.phrases import count, written

MAX_CELLS = 64  # per side: three maps stand side by side
MAX_TICKS = 15
HEIGHT = 400  # pixels
RIGHT, MISTAKEN = "right", "mistaken"


def how_to_read(symptom: Symptom) -> str:
    """Say what the three maps draw."""
    grey = "Effective weights may be negative (grey). " if symptom.signed else ""
    return (
        f"Each row is a query, each column a key. {grey}Faint grey: weight 0 in the right version; solid grey: NaN. In "
        "the difference (mistaken − right), blue-green means more weight and brown less."
    )


def version_map(
    symptom: Symptom, labels: Sequence[str], hue: tuple[int, int] | None, version: str, *, ground: str | None = None
) -> Drawing:
    """Draw the head's weights in one version; faint grey where the right version gives 0, solid grey for NaN.

    hue: the head's KV head and the number of KV heads; None for a mean of heads. ground: as for `heads.head_map`.
    """
    weights = symptom.right if version == RIGHT else symptom.wrong
    assert weights is not None
    figure, top = _axes(labels), _top(symptom)
    add_masked(figure, symptom.right != 0, MAX_CELLS)
    scale_of, lowest = (signed_scale, -top) if symptom.signed else (kv_scale, 0.0)
    scale = scale_of(*hue, ground=ground) if hue else SEQUENTIAL
    shown = np.where((weights == 0) & (symptom.right == 0), np.float32(np.nan), weights)
    add_cells(figure, blocks(shown, MAX_CELLS, signed=symptom.signed), scale, (lowest, top), HOVER)
    _add_nan(figure, weights)
    add_colourbar(figure, scale, top, "effective weight" if symptom.signed else "weight", lowest=lowest)
    title, note = f"{version.capitalize()}: {_sums(weights)}", f"{symptom.picture}."
    return Drawing(figure, title, note, f"{note} {title}.", matrix_table(weights, labels), missing="NaN")


def _top(symptom: Symptom) -> float:
    """Return the end of the colour scale of both versions: 1, or the largest size of an effective weight."""
    if not symptom.signed or symptom.wrong is None:
        return 1.0
    sizes = np.abs(np.nan_to_num([symptom.right, symptom.wrong], posinf=0, neginf=0))
    return max(float(sizes.max()), LOWEST_TOP)


def _axes(labels: Sequence[str]) -> Chart:
    """Return a figure with token axes that have fewer labels than those of a single map."""
    figure, ticks = token_map_figure(labels, HEIGHT, MAX_CELLS), few_ticks(labels, MAX_TICKS)
    room = room_for(ticks)
    figure.update_layout(xaxis=ticks, yaxis=ticks, margin={"l": room, "t": room})
    return figure


def _add_nan(figure: Chart, weights: np.ndarray) -> None:
    if np.isnan(weights).any():
        cells = blocks(np.where(np.isnan(weights), np.float32(1), np.float32(np.nan)), MAX_CELLS)
        add_cells(figure, cells, [[0, NEUTRAL], [1, NEUTRAL]], (0.0, 1.0), "NaN")


def _sums(weights: np.ndarray) -> str:
    """State how many rows of a map are NaN, or what its rows sum to."""
    n_nan = int(np.isnan(weights).any(-1).sum())
    if n_nan:
        return f"{n_nan} of {count(len(weights), 'row')} {'is' if n_nan == 1 else 'are'} NaN"
    low, high = (written(each, ".2f") for each in (weights.sum(-1).min(), weights.sum(-1).max()))
    return f"rows sum to {low}" if low == high else f"rows sum to between {low} and {high}"


def difference_map(symptom: Symptom, labels: Sequence[str]) -> Drawing:
    """Draw the mistaken weights minus the right ones."""
    difference = symptom.difference
    assert difference is not None
    finite = np.nan_to_num(difference)
    at = np.unravel_index(np.abs(finite).argmax(), finite.shape)
    top = float(np.abs(finite).max())
    figure = _axes(labels)
    cells = blocks(np.abs(difference), MAX_CELLS)
    signed = np.where(blocks(difference, MAX_CELLS)["z"] == cells["z"], cells["z"], -cells["z"])
    end = max(_top(symptom), top) if symptom.signed else 1.0
    add_cells(figure, {**cells, "z": signed}, DIVERGING, (-end, end), f"difference %{{z:+.{DIGITS}f}}")
    _add_nan(figure, difference)
    add_colourbar(figure, DIVERGING, end, "difference", lowest=-end)
    title = f"Difference: up to {printed(top)}" if top else "Difference: 0"
    if n_nan := int(np.isnan(difference).sum()):
        title = f"Difference: {count(n_nan, 'cell')} {'is' if n_nan == 1 else 'are'} NaN"
    note = f"The largest{' finite one' if n_nan else ''} is at query {at[0]}, key {at[1]}."
    note = note if top or n_nan else "Both maps are equal."
    return Drawing(figure, title, note, f"{title}. {note}", matrix_table(difference, labels), missing="NaN")


def counts(symptom: Symptom, hue: str | None = None) -> Drawing:
    """Draw two bars for each column, such as a count: right and mistaken."""
    right, wrong = symptom.right[0].tolist(), [] if symptom.wrong is None else symptom.wrong[0].tolist()
    figure = base_figure(300, barmode="group", legend={"orientation": "h", "y": 1.12})
    for name, values, colour in ((RIGHT, right, hue or kv_colour(0, 1)), (MISTAKEN, wrong, NEUTRAL)):
        figure.add_bar(
            x=list(symptom.columns), y=values, name=name, marker={"color": colour, "line": {"width": 0}},
            hovertemplate=f"%{{x}}, {name}: %{{y:,.3~f}}<extra></extra>",
        )  # fmt: skip
    title = f"{symptom.measure}: {format_number(symptom.number)}, right: {format_number(symptom.expected)}"
    table = {"": list(symptom.columns), RIGHT: right, MISTAKEN: wrong}
    return Drawing(figure, title, f"{symptom.picture}.", f"{symptom.picture}. {title}.", table)
