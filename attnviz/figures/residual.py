"""Figures of the residual stream: its norm after each part of the model, and what each part writes into it.

The first token is left out of means and of the colour scale: in trained models its norm is often a hundred times that
of the others. L layers, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from attnviz.equations import Equation, Value, function
from attnviz.figures.chart import Chart, rows_height
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.markup import meanings
from attnviz.figures.theme import FAINT, NEUTRAL, OUTLINE, SEQUENTIAL, base_figure
from attnviz.figures.token_maps import BARE, token_text
from attnviz.mechanisms import letter
from attnviz.phrases import count

MAX_TICKS = 6  # of the colour bar, above which only powers of ten are named


def stream(
    norms: np.ndarray, names: Sequence[str], labels: Sequence[str], query: int, d_model: int, rms_norm: bool = True
) -> Drawing:
    """Draw the residual stream's norm after each part: norms (1 + 2 L, T). rms_norm: False for LayerNorm."""
    n_rows, n_tokens = norms.shape
    usual = _without_first(norms)
    figure = base_figure(80 + rows_height(n_rows, 26), showlegend=False, hovermode="closest")
    _add_norms(figure, norms, usual, labels)
    figure.add_vline(query, line={"color": NEUTRAL, "width": 1, "dash": "dot"})
    figure.update_layout(
        xaxis={**BARE, "title": {"text": "token"}, "nticks": 12, "showticklabels": True},
        yaxis={
            **BARE, "tickvals": list(range(n_rows)), "ticktext": [f"+ {n}" if i else n for i, n in enumerate(names)],
            "range": [n_rows - 0.5, -0.5],
        },
    )  # fmt: skip
    rms = Equation(
        Value(float(norms[-1, query]), "‖x‖", "norm of the stream, last row", digits=3, latex=r"\lVert x \rVert")
        / function("√", letter("C", d_model)),
        name="rms", name_tex=r"\operatorname{rms}", digits=3,
    )  # fmt: skip
    of = "mean without token 0" if n_tokens > 1 else "1 token"
    title = f"The stream's norm goes from {usual[0].mean():,.1f} to {usual[-1].mean():,.1f} ({of})"
    beyond = ""
    if norms[:, 0].max() > usual.max():
        beyond = f" Token 0, {quoted(labels[0])}, reaches {norms[:, 0].max():,.1f}, beyond the colours."
    return Drawing(
        figure,
        title=title,
        note=f"Norm of the residual stream after each part was added, per token, on a log scale.{beyond} "
        + ("RMSNorm divides the stream by its norm / √C before each part reads it." if rms_norm else
           "LayerNorm subtracts the mean and divides by the standard deviation before each part reads the stream."),
        alt=f"{title}. A map of {n_rows} rows and {count(n_tokens, 'token')}.{beyond}",
        formula=rms.tex() if rms_norm else "",
        legend="" if not rms_norm else f"{meanings(rms)} The last RMSNorm divides token {query}'s vector by it.",
        table={"token": [f"{i} {label}" for i, label in enumerate(labels)],
               **{name: norms[i].astype(float).round(4).tolist() for i, name in enumerate(names)}},
    )  # fmt: skip


def _without_first(norms: np.ndarray) -> np.ndarray:
    """Return the norms (N, T) of all tokens but the first, or of the only one."""
    return norms[:, 1:] if norms.shape[1] > 1 else norms


def _add_norms(figure: Chart, norms: np.ndarray, usual: np.ndarray, labels: Sequence[str]) -> None:
    """Add the map of norms on a log scale that ends at the smallest and the largest of `usual`."""
    positive = usual[usual > 0]
    low, high = (float(positive.min()), float(positive.max())) if positive.size else (1.0, 10.0)
    ticks = [low, *_ticks(low, high), high]
    figure.add_heatmap(
        z=np.log10(norms.clip(low)).astype(np.float32), colorscale=SEQUENTIAL, zmin=math.log10(low),
        zmax=max(math.log10(high), math.log10(low) + 1e-3), customdata=norms.round(2).astype(float),
        text=[[token_text(label) for label in labels]] * len(norms), colorbar={
            "thickness": 10, "outlinewidth": 0, "title": {"text": "norm"}, "tickmode": "array",
            "tickvals": [math.log10(tick) for tick in ticks], 
            "ticktext": [f"{float(f'{tick:.2g}'):,g}" for tick in ticks],
        },
        hovertemplate="%{text} (%{x}): %{customdata:,.2f}<extra></extra>",
    )  # fmt: skip


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers on a log scale from low to high that are not close to an end."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [float(f"{first}e{power}") for power in powers for first in (1, 2, 5)]
    inside = [tick for tick in found if 1.2 * low < tick < high / 1.2]
    if len(inside) > MAX_TICKS:
        inside = [tick for tick in inside if math.log10(tick).is_integer()]
    return inside


def written(norms: np.ndarray, names: Sequence[str], query: int, label: str) -> Drawing:
    """Draw the norms (1 + 2 L, T) of what each part added, for the selected token and as a mean over the others."""
    mean, of = _without_first(norms).mean(1), "mean without token 0" if norms.shape[1] > 1 else "mean of 1 token"
    legend = {"orientation": "h", "y": 1, "yanchor": "bottom"}
    figure = base_figure(70 + rows_height(len(names), 30), showlegend=True, barmode="group", legend=legend)
    for name, values, colour in (
        (f"token {query}", norms[:, query], NEUTRAL), (of, mean, FAINT)
    ):  # fmt: skip
        figure.add_bar(
            x=values.astype(float), y=list(range(len(names))), orientation="h", name=name,
            marker={"color": colour, "line": OUTLINE}, hovertemplate="%{x:.2f}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        xaxis={"rangemode": "tozero", "showticklabels": True},
        yaxis={**BARE, "tickvals": list(range(len(names))), "ticktext": list(names), "range": [len(names) - 0.5, -0.5]},
    )  # fmt: skip
    most = int(norms[1:, query].argmax()) + 1
    title = f"{names[most].capitalize()} writes most after {quoted(label)}: norm {norms[most, query]:,.2f}"
    return Drawing(
        figure,
        title=title,
        note="Norm of what each part adds to the residual stream. Parts can point in opposite directions, so norms do "
        "not add up.",
        alt=title + ".",
        table={"part": list(names), f"token {query}": norms[:, query].astype(float).round(4).tolist(),
               of: mean.astype(float).round(4).tolist()},
    )  # fmt: skip
