"""Figures of attention rollout: the map after one layer, and one query's row after each layer.

L layers, T tokens. Rollout averages all heads, so no colour here is a KV head's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.analysis.rollout import RESIDUAL
from attnviz.figures.chart import rows_height
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.numbers import percent
from attnviz.figures.theme import OF_SEVERAL, base_figure
from attnviz.figures.token_maps import (
    BARE,
    MAX_X_TICKS,
    add_cells,
    add_colourbar,
    add_frames,
    add_masked,
    bar_number,
    blocks,
    few_ticks,
    shortened,
    span_text,
    token_map_figure,
)
from attnviz.phrases import count

MAX_CELLS = 192
HEIGHT = 560
FORMULA = "R_l = \\tilde A_l \\cdots \\tilde A_0\n\\tilde A_l = (1 - \\alpha) \\bar A_l + \\alpha I"


def rollout_map(
    rolled: np.ndarray, reach: np.ndarray, labels: Sequence[str], layer: int, query: int, notes: Sequence[str] = ()
) -> Drawing:
    """Draw the rollout (L, T, T) after one layer, one row framed; grey where `reach`, bool (L, T, T), has no path.

    notes: sentences of the layers' mechanisms.
    """
    shares = rolled[layer]  # (T, T)
    drawn = np.where(reach[layer], shares, np.nan)
    top = _largest_of_others(shares)
    figure = token_map_figure(labels, HEIGHT, MAX_CELLS)
    add_masked(figure, reach[layer], MAX_CELLS)
    add_cells(figure, blocks(drawn, MAX_CELLS), OF_SEVERAL, (0.0, top), "share %{z:.4f}")
    add_colourbar(figure, OF_SEVERAL, top, title="share")
    add_frames(figure, len(labels), query, None)
    own = float(np.diagonal(shares).mean())
    ends = (
        f" Colour ends at {bar_number(top)}, the largest share of a token other than the query."
        if len(labels) > 1
        else ""
    )
    usual = percent(own, 0)
    return Drawing(
        figure,
        title=f"Rollout through {count(layer + 1, 'layer')}: on average {usual} comes from a position's own token",
        note="Each row is a query, each column the token that its information comes from; each row sums to 1."
        f"{'' if reach[layer].all() else ' Grey: no path through the masks.'}{ends}",
        more="Rollout (arXiv 2005.00928) averages each layer's heads (Ā), gives the residual stream (I, the identity) "
        f"a share α of {RESIDUAL:g}, and multiplies the layers' matrices." + "".join(f" {note}" for note in notes),
        alt=f"Map of attention rollout through {count(layer + 1, 'layer')}: on average {usual} of a position comes "
        f"from its own token and {percent(float(shares[:, 0].mean()), 0)} from the first token.",
        table={"query": [f"{i} {label}" for i, label in enumerate(labels)]}
        | {f"{j} {label}": column for j, (label, column) in enumerate(zip(labels, shares.round(6).T, strict=True))},
        formula=FORMULA,
        legend=f"R: rollout after layer l = {layer}; Ā: the layer's weights, averaged over its heads; Ã: Ā mixed with "
        f"the residual stream; α = {RESIDUAL:g}: share of the residual stream; I: identity matrix.",
    )


def _largest_of_others(shares: np.ndarray) -> float:
    """Return the largest share (T, T) off the diagonal: the scale ends there, as the diagonal would dwarf the rest."""
    return float(np.where(np.eye(len(shares), dtype=bool), 0.0, shares).max()) or 1.0


def rollout_of_query(rolled: np.ndarray, labels: Sequence[str], query: int) -> Drawing:
    """Draw one query's row of the rollout (L, T, T) after each layer."""
    shares = rolled[:, query]  # (L, T)
    L, last, top = len(shares), shares[-1], float(np.delete(shares, query, axis=1).max(initial=0.0)) or 1.0
    figure = base_figure(150 + rows_height(L, 44), showlegend=False, hovermode="closest")
    figure.add_heatmap(
        z=shares.astype(np.float32), colorscale=OF_SEVERAL, zmin=0, zmax=top, showscale=False, ygap=3,
        customdata=np.tile([span_text(labels, j, j) for j in range(len(labels))], (L, 1)),
        hovertemplate="after layer %{y}, from %{customdata}<br>share %{z:.4f}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis={**BARE, **few_ticks(labels, MAX_X_TICKS), "range": [-0.5, len(labels) - 0.5], "tickangle": -90},
        yaxis={
            **BARE, "tickvals": list(range(L)), "ticktext": [f"after L{i}" for i in range(L)], "range": [L - 0.5, -0.5],
        },
    )  # fmt: skip
    others = last.copy()
    others[query] = -1
    most = int(others.argmax())
    finding = f"{percent(last[query], 0)} of query {query} from its own token"
    if last[most] > 0 and most != query:
        finding += f", {percent(last[most], 0)} from {most} {{}}"
    return Drawing(
        figure,
        title=f"Rollout through {count(L, 'layer')}: " + finding.format(quoted(shortened(labels[most], 30))),
        note="The same row after each layer. Rollout uses attention weights only: it ignores values, output "
        "projections and feed-forward layers, and counts a head whose output is zero like the others. "
        f"Colour ends at {bar_number(top)}.",
        alt=f"Heat map of {count(L, 'layer')} and {count(len(labels), 'token')}. "
        + finding.format(f"“{labels[most]}”")
        + ".",
        table={"token": [f"{j} {label}" for j, label in enumerate(labels)]}
        | {f"after layer {i}": row.round(6).tolist() for i, row in enumerate(shares)},
    )
