"""Figures of one head: its map of weights, and the three stages from score to weight.

T query tokens, S key tokens, D head_dim; T x S is pooled to N x M cells. Each row is a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnviz.figures.blocks import block_size
from attnviz.figures.chart import Chart, numbered
from attnviz.figures.drawing import Drawing
from attnviz.figures.head_captions import LOWEST_TOP, largest_but_first, map_caption, share_at, stages_of, sums
from attnviz.figures.numbers import DIGITS, printed
from attnviz.figures.theme import DIVERGING, RAMP_STEPS, SEQUENTIAL, base_figure, kv_scale, signed_scale
from attnviz.figures.token_maps import (
    FIXED,
    add_cells,
    add_colourbar,
    add_frames,
    add_masked,
    block_ticks,
    blocks,
    few_ticks,
    room_for,
    token_map_figure,
)
from attnviz.phrases import count, span

if TYPE_CHECKING:
    from attnviz.trace import Trace

MAX_CELLS = 256  # per side; in larger maps neighbouring cells are joined
MAX_STAGE_CELLS = 96
MAX_STAGE_TICKS = 15
BY_TOKEN = " Here each row and column is a token: nothing is merged."
STACKED_SIDE = 270  # pixels of a map as wide as a phone
HOVER = f"weight %{{z:.{DIGITS}f}}"


def head_map(
    trace: Trace,
    labels: Sequence[str],
    layer: int,
    head: int,
    *,
    scale: str = "root",
    exclude_first: bool = False,
    query: int | None = None,
    key: int | None = None,
    ground: str | None = None,
    unmerged: bool = False,
    key_labels: Sequence[str] | None = None,
) -> Drawing:
    """Draw the weights of one head, tokens on both axes; masked cells are grey, also named in the hover text.

    labels: T token labels. scale: of colour, one of SCALES. exclude_first: draw the first key, the usual attention
    sink, in grey and outside the scale, so that the rest is visible. query, key: a row or a column to frame.
    ground: "light" or "dark", for the canvas colours on such a page; None: a scale that suits both.
    unmerged: the page's other maps merge the tokens of a character, so say that this one does not. key_labels: S labels
    if the keys are another text's.
    """
    one, mixer = trace.layers[layer], trace.layers[layer].mixer
    weights, allowed = one.weights[head], one.allowed  # (T, S) each
    drawn = np.where(allowed, weights, np.float32(np.nan))
    top = 1.0 if mixer.attends else max(float(np.abs(weights).max()), LOWEST_TOP)
    if exclude_first:
        drawn[:, 0] = np.nan
        top = largest_but_first(weights)
    kv_head, n_kv_heads = mixer.kv_head_of[head], trace.config.n_kv_heads
    figure = token_map_figure(labels, map_height(len(labels)), MAX_CELLS, key_labels)
    add_masked(figure, allowed, MAX_CELLS)
    at = share_at(scale, np.linspace(0, 1, RAMP_STEPS), top)
    scale_of, lowest = (kv_scale, 0.0) if mixer.attends else (signed_scale, -top)
    colours = scale_of(kv_head, n_kv_heads, ground, at=at)
    add_cells(figure, blocks(drawn, MAX_CELLS, signed=not mixer.attends), colours, (lowest, top), HOVER)
    if exclude_first:
        first = np.where(allowed, weights, np.float32(np.nan))[:, :1]
        add_cells(figure, blocks(first, MAX_CELLS), SEQUENTIAL, (0.0, 1.0), f"outside the colour scale, {HOVER}")
    if mixer.attends:
        add_colourbar(figure, kv_scale(kv_head, n_kv_heads, ground), top, scale=scale)
    else:
        add_colourbar(figure, colours, top, mixer.maps, lowest=-top)
    add_frames(figure, len(labels), query, key, allowed.shape[1])
    caption = map_caption(trace, labels, layer, head, scale=scale, exclude_first=exclude_first, key_labels=key_labels)
    return Drawing(
        figure,
        title=caption.title,
        note=f"{caption.note}{joined(labels, MAX_CELLS, 'weights')}{BY_TOKEN * unmerged}",
        more="" if allowed.all() else "In the table, masked cells are blank.",
        alt=caption.alt,
        table=matrix_table(np.where(allowed, weights, np.nan), labels, key_labels),
        formula=caption.formula,
        legend=caption.legend,
    )


def joined(labels: Sequence[str], most_cells: int, what: str) -> str:
    """State what one cell of a long text's map stands for; "" if it is one pair."""
    block = block_size(len(labels), most_cells)
    return f" A cell is the largest of {block} × {block} {what}." if block > 1 else ""


def map_height(n: int) -> int:
    return int(min(max(140 + 20 * n, 320), 640))


def matrix_table(
    values: np.ndarray, labels: Sequence[str], key_labels: Sequence[str] | None = None
) -> dict[str, Sequence]:
    """Return one row per query and one column per key, NaN for masked cells, unrounded (the page shows four digits)."""
    named = labels if key_labels is None else key_labels
    columns = values.astype(np.float64).T  # arrays: converting to lists takes longer than all the rest
    keys = {f"{k} {label}": column for k, (label, column) in enumerate(zip(named, columns, strict=True))}
    return {"query": [f"{q} {label}" for q, label in enumerate(labels)], **keys}


def stage_maps(
    trace: Trace, labels: Sequence[str], layer: int, head: int, *, ground: str | None = None, stacked: bool = False,
    key_labels: Sequence[str] | None = None,
) -> Drawing:  # fmt: skip
    """Draw the whole head at each stage, with its range below: scores, masked scores if any is masked, weights.

    ground, key_labels: as for `head_map`. stacked: below each other, for a phone, on which three maps side by side are
    too small.
    """
    one, mixer = trace.layers[layer], trace.layers[layer].mixer
    scores, weights, allowed = one.scores_of(head), one.weights[head], one.allowed  # (T, S) each
    far = max(float(np.abs(scores).max()), 1e-6)
    hue = kv_scale(mixer.kv_head_of[head], trace.config.n_kv_heads, ground=ground)
    names, unmasked = stages_of(allowed), bool(allowed.all())
    figure = _stage_axes(names, labels, labels if key_labels is None else key_labels, stacked)
    _add_stage(figure, 1, scores, np.ones_like(allowed), DIVERGING, (-far, far))
    if not unmasked:
        _add_stage(figure, 2, scores, allowed, DIVERGING, (-far, far))
    _add_stage(figure, len(names), weights, allowed, hue, (0.0, 1.0))
    low, high, most = scores.min(), scores.max(), weights.max()
    return Drawing(
        figure,
        title=_stages_title(printed(low), printed(high), printed(most)),
        note="Each row is a query, each column a key. Scores are brown below zero and blue-green above"
        f"{'' if unmasked else ', on the same scale in both maps; masked cells are chequered'}. "
        f"{sums(weights, allowed)}"
        f"{joined(labels, MAX_STAGE_CELLS, 'numbers')}",
        alt=f"{'Two' if unmasked else 'Three'} maps of layer {layer}, head {head}: scores "
        f"{span(printed(low), printed(high))}; "
        + ("" if unmasked else f"the same with {count(int((~allowed).sum()), 'cell')} masked; ")
        + f"weights of at most {printed(most)}.",
        table=matrix_table(scores, labels, key_labels),
    )


def _stages_title(low: str, high: str, most: str) -> str:
    if low == high:
        return f"The only score, {low}, becomes a weight of {most}"
    return f"Scores from {low} to {high} become weights of at most {most}"


def _add_stage(
    figure: Chart, column: int, values: np.ndarray, allowed: np.ndarray, scale: list, bounds: tuple[float, float]
) -> None:
    """Add one map, and below it its smallest and largest number."""
    shown = np.where(allowed, values, np.float32(np.nan))
    add_masked(figure, allowed, MAX_STAGE_CELLS, axes=column, chequered=True)
    add_cells(figure, blocks(shown, MAX_STAGE_CELLS), scale, bounds, f"%{{z:.{DIGITS}f}}", axes=column)
    if allowed.any():
        _write(figure, column, span(printed(np.nanmin(shown)), printed(np.nanmax(shown))), y=0.0, yanchor="top")


def _stage_axes(names: Sequence[str], labels: Sequence[str], key_labels: Sequence[str], stacked: bool) -> Chart:
    """Return two or three square maps: query labels on the left, key labels above each, all in the hover text."""
    hidden = {**FIXED, "showticklabels": False}
    all_keys, all_queries = ({**hidden, **block_ticks(each, MAX_STAGE_CELLS)} for each in (key_labels, labels))
    few_keys, few = (few_ticks(each, MAX_STAGE_TICKS) for each in (key_labels, labels))
    room = max(room_for(few), room_for(few_keys))
    above, below, n = room + 24, 28, len(names)
    height = n * STACKED_SIDE + (n - 1) * (above + below) if stacked else 248
    margin = {"l": room, "r": 8, "t": above, "b": below, "autoexpand": False}
    figure = base_figure(height + above + below, showlegend=False, hovermode="closest", margin=margin)
    for column, name in enumerate(names, 1):
        left, side = (column - 1) * 0.345, STACKED_SIDE / height
        top = 1 - (column - 1) * (1 - side) / (n - 1)
        across, down = ([0, 1], [max(0.0, top - side), top]) if stacked else ([left, left + 0.31], [0, 1])
        x, y = numbered("x", column), numbered("y", column)
        figure.update_layout(**{
            numbered("xaxis", column): {
                **all_keys, "range": [-0.5, len(key_labels) - 0.5], "domain": across, "anchor": y,
            },
            numbered("yaxis", column): {
                **all_queries, "range": [len(labels) - 0.5, -0.5], "domain": down, "anchor": x,
            },
            # overlaid, with the visible labels
            numbered("xaxis", column + 3): {
                **FIXED, **few_keys, "overlaying": x, "matches": x, "side": "top", "tickangle": -90, "anchor": y,
            },
            numbered("yaxis", column + 3): {
                **FIXED, **few, "overlaying": y, "matches": y, "anchor": x, "showticklabels": stacked or column == 1,
            },
        })  # fmt: skip
        axes = {"xaxis": numbered("x", column + 3), "yaxis": numbered("y", column + 3)}
        figure.add_scatter(x=[None], y=[None], mode="markers", hoverinfo="skip", **axes)  # plotly labels no empty axes
        _write(figure, column, name, y=1.0, yanchor="bottom", yshift=room)
    return figure


def _write(figure: Chart, column: int, text: str, **place: Any) -> None:
    xref, yref = (f"{numbered(axis, column)} domain" for axis in "xy")
    figure.add_annotation(text=text, x=0.5, xref=xref, yref=yref, showarrow=False, **place)
