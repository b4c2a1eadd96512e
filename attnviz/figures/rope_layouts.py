"""Figures of RoPE's two layouts, half-split and interleaved. D head_dim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnviz.figures.drawing import Drawing
from attnviz.figures.theme import BROWN, MASKED, NEUTRAL, PETROL, base_figure
from attnviz.phrases import written

if TYPE_CHECKING:
    from attnviz.experiments.rope_equalities import LayoutsCompared

MOST_NUMBERED = 32  # dimensions with a number on each
NUMBERED, POINTED = "The number on a dimension is its pair.", "Point at or tap a dimension for its pair."


def layout_pairs(order: NDArray, n_pairs: int, first: int = 0) -> Drawing:
    """Draw the pairs of dimensions in both layouts and the permutation between them.

    order (D,): the half-split dimension at each place of the interleaved layout; both are counted from `first`, the
    head's first rotated dimension.
    """
    D, places = len(order), np.arange(len(order))
    numbered = D <= MOST_NUMBERED
    figure = base_figure(height=210, showlegend=False)
    for place, dimension in enumerate(order.tolist()):
        line = {"color": _pair_colour(dimension % n_pairs), "width": 1}
        figure.add_shape(type="line", x0=dimension, x1=place, y0=0.86, y1=0.14, line=line)
    rows = ((1.0, places % n_pairs, "half-split"), (0.0, places // 2, "interleaved"))
    for y, pair, name in rows:
        rotated = places < 2 * n_pairs
        figure.add_scatter(
            x=places, y=np.full(D, y), mode="markers+text" if numbered else "markers",
            text=[str(p) if t else "" for p, t in zip(pair, rotated, strict=True)],
            marker={"symbol": "square", "size": max(5, min(20, 560 // D)), "opacity": 0.35,
                    "color": [_pair_colour(int(p)) if t else MASKED for p, t in zip(pair, rotated, strict=True)]},
            hovertext=[f"{name}: dimension {d} " + (f"is in pair {p}" if t else "is not rotated")
                       for d, p, t in zip(places, pair, rotated, strict=True)],
            hoverinfo="text",
        )  # fmt: skip
    bare = {"showgrid": False, "zeroline": False}
    counted = f"dimension, counted from {first}, the first rotated one" if first else "dimension of the head"
    figure.update_xaxes(title=counted, dtick=max(1, D // 12), range=[-0.8, D - 0.2], **bare)
    figure.update_yaxes(tickvals=[0, 1], ticktext=["interleaved", "half-split"], range=[-0.25, 1.25], **bare)
    title = f"Half-split pairs dimension {first} with {first + n_pairs}, interleaved with {first + 1}"
    return Drawing(
        figure,
        title=title,
        note=f"{NUMBERED if numbered else POINTED} A line leads from its place in one layout to its place in the "
        "other: one fixed permutation, the same for q and k.",
        alt=f"{title}. Interleaved from half-split: {' '.join(map(str, order))}.",
        table={
            "place": places.tolist(),
            "pair, half-split": [int(p) if p < n_pairs and d < 2 * n_pairs else -1 for d, p in enumerate(rows[0][1])],
            "pair, interleaved": [int(p) if p < n_pairs else -1 for p in rows[1][1]],
            "half-split dimension that goes there": order.tolist(),
        },
    )


def layout_finding(compared: LayoutsCompared) -> str:
    """State the difference between the layouts in a sentence."""
    return (
        f"Rotated in the other layout, the same q and k give scores that differ by up to "
        f"**{compared.difference:.2f}**, with the same shapes."
    )


def reordered_text(compared: LayoutsCompared) -> str:
    """State what remains of that difference with the dimensions permuted."""
    remains = written(compared.difference_reordered, ".1e")
    return f"With the dimensions of q and k permuted first, these scores differ by up to {remains}."


def _pair_colour(pair: int) -> str:
    """Return one of three colours in turn, to tell neighbouring pairs apart; the number identifies the pair."""
    return (BROWN, PETROL, NEUTRAL)[pair % 3]
