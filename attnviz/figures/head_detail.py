"""One number of an attention map explained: two vectors, their products dimension by dimension, the sum, the softmax.

D head_dim. Dimensions stand in RoPE's pairs, the fastest first, and behind them those that never turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.analysis.heads import ScoreParts, score_parts
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.head_captions import shortened
from attnviz.figures.phrases import count
from attnviz.figures.theme import DIVERGING, NEUTRAL, base_figure
from attnviz.figures.token_maps import BARE

if TYPE_CHECKING:
    from attnviz.trace import Trace

BROWN, PETROL = DIVERGING[0][1], DIVERGING[-1][1]
MOST_TICKS = 16
ROWS = ("q", "k", "q × k")


def number_explained(trace: Trace, labels: Sequence[str], layer: int, head: int, query: int, key: int) -> Drawing:
    """The weight of one query and one key taken apart: q, k, their products, the running sum, the score, the weight."""
    parts = score_parts(trace, layer, head, query, key)
    at, added = _terms(parts)
    figure = base_figure(430, showlegend=False, hovermode="closest")
    _add_vectors(figure, parts)
    _add_sum(figure, parts, at, added)
    asks, answers = (f"{i} {quoted(shortened(labels[i], 30))}" for i in (query, key))
    outcome = f"weight {parts.weight:.3f}" if parts.allowed else "not allowed, so no weight"
    return Drawing(
        figure,
        title=f"Query {asks} · key {answers}: score {parts.score:.2f}, {outcome}",
        note=_note(parts, added),
        alt=f"{count(len(parts.order), 'product')} of query {query} “{labels[query]}” and key {key} “{labels[key]}” in "
        f"layer {layer}, head {head} add up to {parts.dot:.3f}; divided by √{len(parts.order)} the score is "
        f"{parts.score:.3f}; {outcome}.",
        table={
            "dimension": list(parts.order),
            "pair": [str(i // 2) if i < 2 * len(parts.pairs) else "never turns" for i in range(len(parts.order))],
            "q": parts.q.round(6).tolist(),
            "k": parts.k.round(6).tolist(),
            "q × k": parts.products.round(6).tolist(),
            "sum so far": np.cumsum(parts.products).round(6).tolist(),
        },
        formula=_formula(parts, query, key),
    )


def _terms(parts: ScoreParts) -> tuple[np.ndarray, np.ndarray]:
    """Where each term of the sum stands and what it adds: one a pair, one a dimension that never turns."""
    turned = 2 * len(parts.pairs)
    in_pairs = parts.products[:turned].reshape(-1, 2).sum(-1)  # (n_pairs,)
    at = np.concatenate((np.arange(0, turned, 2) + 0.5, np.arange(turned, len(parts.order))))
    return at, np.concatenate((in_pairs, parts.products[turned:]))


def _note(parts: ScoreParts, added: np.ndarray) -> str:
    most, D = int(np.abs(added).argmax()), len(parts.order)
    said = []
    if parts.pairs:
        still = D - 2 * len(parts.pairs)
        rest = f", then {count(still, 'dimension')} that never {'turns' if still == 1 else 'turn'}" if still else ""
        said.append(f"q and k as RoPE has turned them, in its {count(len(parts.pairs), 'pair')}, fastest first{rest}.")
    else:
        said.append("q and k, dimension by dimension; nothing turns them.")
    said.append(
        f"Each product is a step of the sum, which ends at {parts.dot:.2f}; divided by √{D} = {D**0.5:.3f} it is the "
        f"score. The largest step, {added[most]:+.2f}, is {_term(parts, most)}."
    )
    if not parts.allowed:
        said.append("The mask forbids this pair: the score exists, and the softmax never sees it.")
    return " ".join(said)


def _term(parts: ScoreParts, i: int) -> str:
    """ "pair 3 (dimensions 3 and 15)"."""
    if i < len(parts.pairs):
        return f"pair {i} (dimensions {parts.pairs[i][0]} and {parts.pairs[i][1]})"
    return f"dimension {parts.order[i + len(parts.pairs)]}"


def _add_vectors(figure: Chart, parts: ScoreParts) -> None:
    """Three rows of D cells; q and k share a scale, the products have one of their own."""
    vectors = np.stack((parts.q, parts.k))
    for y, values in ((0, vectors), (2, parts.products[None])):
        far = max(float(np.abs(values).max()), 1e-9)
        figure.add_heatmap(
            z=values.astype(np.float32), y0=y, dy=1, xaxis="x2", yaxis="y2", colorscale=DIVERGING, zmin=-far, zmax=far,
            showscale=False, xgap=1, ygap=4, customdata=np.tile(parts.order, (len(values), 1)),
            hovertemplate="dimension %{customdata}<br>%{y}: %{z:.3f}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        xaxis2={**BARE, "range": [-0.7, len(parts.order) - 0.3], "showticklabels": False, "anchor": "y2"},
        yaxis2={**BARE, "domain": [0.62, 1], "range": [2.5, -0.5], "tickvals": [0, 1, 2], "ticktext": list(ROWS)},
    )


def _add_sum(figure: Chart, parts: ScoreParts, at: np.ndarray, added: np.ndarray) -> None:
    """Bars for what each pair adds, and a line for the sum so far."""
    says = [_term(parts, i) for i in range(len(added))]
    figure.add_bar(
        x=at, y=added, width=np.where(np.arange(len(at)) < len(parts.pairs), 1.7, 0.85), hovertext=says,
        marker={"color": [PETROL if value >= 0 else BROWN for value in added], "line": {"width": 0}},
        hovertemplate="%{hovertext} adds %{y:.3f}<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=at, y=np.cumsum(added), mode="lines+markers", line={"color": NEUTRAL, "width": 2, "shape": "hv"},
        marker={"size": 5, "color": NEUTRAL}, hovertext=says,
        hovertemplate="sum up to %{hovertext}: %{y:.3f}<extra></extra>",
    )  # fmt: skip
    figure.add_annotation(
        x=at[-1], y=parts.dot, text=f"sum {parts.dot:.2f}", showarrow=False, xanchor="right", yanchor="bottom",
        yshift=8,
    )  # fmt: skip
    step = -(-len(at) // MOST_TICKS)
    figure.update_layout(
        xaxis={
            **BARE, "range": [-0.7, len(parts.order) - 0.3], "matches": "x2",
            "tickvals": at[::step], "ticktext": [_tick(parts, i) for i in range(0, len(at), step)],
            "title": {"text": "pairs of dimensions" if parts.pairs else "dimensions"},
        },
        yaxis={"domain": [0, 0.54], "title": {"text": "adds to q·k"}},
    )  # fmt: skip


def _tick(parts: ScoreParts, i: int) -> str:
    if i < len(parts.pairs):
        return "{}, {}".format(*parts.pairs[i])
    return str(parts.order[i + len(parts.pairs)])


def _formula(parts: ScoreParts, query: int, key: int) -> str:
    """Score and weight with their numbers; numerator and denominator divided by e to the row's highest score."""
    at, D = f"{query},{key}", len(parts.order)
    score = (
        rf"s_{{{at}}} &= \frac{{q_{{{query}}} \cdot k_{{{key}}}}}{{\sqrt{{{D}}}}} = "
        rf"\frac{{{parts.dot:.3f}}}{{{D**0.5:.3f}}} = {parts.score:.3f}"
    )
    if not parts.allowed:
        return rf"\begin{{aligned}} {score} \\[8pt] a_{{{at}}} &= 0 \text{{: not allowed}} \end{{aligned}}"
    own = float(np.exp(parts.score - parts.highest))
    highest = f"{parts.highest:.3f}" if parts.highest >= 0 else f"({parts.highest:.3f})"
    weight = (
        rf"a_{{{at}}} &= \frac{{e^{{s_{{{at}}} - {highest}}}}}{{\sum_j e^{{s_{{{query},j}} - {highest}}}}} = "
        rf"\frac{{{own:.3f}}}{{{parts.total:.3f}}} = {parts.weight:.3f}"
    )
    return rf"\begin{{aligned}} {score} \\[12pt] {weight} \end{{aligned}}"
