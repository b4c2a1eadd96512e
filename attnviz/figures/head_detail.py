"""One weight, step by step: two vectors, their products dimension by dimension, the sum, the softmax.

D head_dim. Dimensions are ordered by RoPE's pairs, the fastest first, followed by those that RoPE does not rotate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.analysis.heads import ScoreParts, score_parts
from attnviz.equations import Equation, Value, function, tex_lines
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.head_captions import shortened, weight_equation
from attnviz.figures.markup import meanings
from attnviz.figures.numbers import DIGITS, form, printed, rounded, significant
from attnviz.figures.theme import BROWN, DIVERGING, NEUTRAL, PETROL, base_figure
from attnviz.figures.token_maps import BARE
from attnviz.figures.weight_formula import low
from attnviz.mechanisms import letter
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.trace import Trace

MAX_TICKS = 16
ROWS = ("q", "k", "q × k")


def weight_by_steps(
    trace: Trace, labels: Sequence[str], layer: int, head: int, query: int, key: int,
    key_labels: Sequence[str] | None = None,
) -> Drawing:  # fmt: skip
    """Draw how one weight is computed: q, k, their products, the running sum, the score, the weight.

    key_labels: S labels, if the keys are another text's.
    """
    keys, parts = labels if key_labels is None else key_labels, score_parts(trace, layer, head, query, key)
    at, added = _terms(parts)
    equations = _equations(trace, parts, layer, head, query, key)
    figure = base_figure(430, showlegend=False, hovermode="closest")
    _add_vectors(figure, parts)
    _add_sum(figure, parts, at, added)
    asks, answers = (f"{i} {quoted(shortened(label, 30))}" for i, label in ((query, labels[query]), (key, keys[key])))
    outcome = f"weight {printed(parts.weight)}" if parts.allowed else "masked, so no weight"
    score = printed(parts.score)
    return Drawing(
        figure,
        title=f"Query {asks} · key {answers}: score {score}, {outcome}",
        note=_note(parts, trace.layers[layer].mixer.vectors_note),
        more=_largest_term(parts, added),
        alt=f"{count(len(parts.order), 'product')} of query {query} “{labels[query]}” and key {key} “{keys[key]}” in "
        f"layer {layer}, head {head} add up to {printed(parts.dot)}; divided by √{len(parts.order)}, the sum is the "
        f"score, {score}; {outcome}.",
        table={
            "dimension": list(parts.order),
            "pair": [str(i // 2) if i < 2 * len(parts.pairs) else "not rotated" for i in range(len(parts.order))],
            "q": parts.q.tolist(),
            "k": parts.k.tolist(),
            "q × k": parts.products.tolist(),
            "running sum": np.cumsum(parts.products).tolist(),
        },
        formula=tex_lines(*equations),
        legend=meanings(*equations),
    )


def _terms(parts: ScoreParts) -> tuple[np.ndarray, np.ndarray]:
    """Return the position and the value of each term of the sum: one per pair, one per unrotated dimension."""
    rotated = 2 * len(parts.pairs)
    in_pairs = parts.products[:rotated].reshape(-1, 2).sum(-1)  # (n_pairs,)
    at = np.concatenate((np.arange(0, rotated, 2) + 0.5, np.arange(rotated, len(parts.order))))
    return at, np.concatenate((in_pairs, parts.products[rotated:]))


def _note(parts: ScoreParts, unrotated: str) -> str:
    D, sentences = len(parts.order), []
    if parts.pairs:
        still = D - 2 * len(parts.pairs)
        rest = f", then {count(still, 'dimension')} without rotation" if still else ""
        sentences.append(f"q and k after RoPE, in its {count(len(parts.pairs), 'pair')}, fastest first{rest}.")
    else:
        sentences.append(unrotated)
    sentences.append("Brown is negative, blue-green positive.")
    sentences.append(f"The products add up to {printed(parts.dot)}; divided by √{D}, the sum is the score.")
    if not parts.allowed:
        sentences.append("This pair is masked: it has a score, which the softmax leaves out.")
    return " ".join(sentences)


def _largest_term(parts: ScoreParts, added: np.ndarray) -> str:
    """Name the largest term of the sum, and the ends of the colour scales."""
    most = int(np.abs(added).argmax())
    vectors, products = (significant(far) for far in _full_colour(parts))
    return (
        f"The largest contribution comes from {_term(parts, most)}: {printed(added[most])}. Full colour is at "
        f"±{vectors} for q and k, ±{products} for q × k."
    )


def _term(parts: ScoreParts, i: int) -> str:
    """Name a term: "pair 3 (dimensions 3 and 15)"."""
    if i < len(parts.pairs):
        return f"pair {i} (dimensions {parts.pairs[i][0]} and {parts.pairs[i][1]})"
    return f"dimension {parts.order[i + len(parts.pairs)]}"


def _add_vectors(figure: Chart, parts: ScoreParts) -> None:
    """Add three rows of D cells; q and k share a colour scale, the products have their own."""
    strips = (0, np.stack((parts.q, parts.k))), (2, parts.products[None])
    for (y, values), far in zip(strips, _full_colour(parts), strict=True):
        figure.add_heatmap(
            z=values.astype(np.float32), y0=y, dy=1, xaxis="x2", yaxis="y2", colorscale=DIVERGING, zmin=-far, zmax=far,
            showscale=False, xgap=1, ygap=4, customdata=np.tile(parts.order, (len(values), 1)),
            hovertemplate=f"dimension %{{customdata}}<br>%{{y}}: %{{z:.{DIGITS}f}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        xaxis2={**BARE, "range": [-0.7, len(parts.order) - 0.3], "showticklabels": False, "anchor": "y2"},
        yaxis2={**BARE, "domain": [0.62, 1], "range": [2.5, -0.5], "tickvals": [0, 1, 2], "ticktext": list(ROWS)},
    )


def _full_colour(parts: ScoreParts) -> tuple[float, float]:
    """Return the absolute values with full colour: of q and k, and of their products."""
    vectors, products = (float(np.abs(values).max()) for values in (np.stack((parts.q, parts.k)), parts.products))
    return max(vectors, 1e-9), max(products, 1e-9)


def _add_sum(figure: Chart, parts: ScoreParts, at: np.ndarray, added: np.ndarray) -> None:
    """Add a bar for each term and a line for the running sum."""
    terms = [_term(parts, i) for i in range(len(added))]
    figure.add_bar(
        x=at, y=added, width=np.where(np.arange(len(at)) < len(parts.pairs), 1.7, 0.85), hovertext=terms,
        marker={"color": [PETROL if value >= 0 else BROWN for value in added], "line": {"width": 0}},
        hovertemplate=f"%{{hovertext}} adds %{{y:.{DIGITS}f}}<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=at, y=np.cumsum(added), mode="lines+markers", line={"color": NEUTRAL, "width": 2, "shape": "hv"},
        marker={"size": 5, "color": NEUTRAL}, hovertext=terms,
        hovertemplate=f"sum up to %{{hovertext}}: %{{y:.{DIGITS}f}}<extra></extra>",
    )  # fmt: skip
    figure.add_annotation(
        x=at[-1], y=parts.dot, text=f"sum {printed(parts.dot)}", showarrow=False, xanchor="right", yanchor="bottom",
        yshift=8,
    )  # fmt: skip
    step = -(-len(at) // MAX_TICKS)
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


def score_equation(parts: ScoreParts, query: int, key: int, root: float | None = None) -> Equation:
    """Return the equation of one score: the dot product divided by √root, or by √head_dim if root is None."""
    at = f"{query},{key}"
    dot = Value(
        float(rounded(parts.dot)), f"q{low(query)}·k{low(key)}", "dot product of query and key vector",
        latex=rf"q_{{{query}}} \cdot k_{{{key}}}", **form(parts.dot),
    )  # fmt: skip
    D = len(parts.order)
    divisor = letter("D", D) if root in (None, D) else Value(root, "n", "query_pre_attn_scalar")
    scale = function("√", divisor)
    return Equation(
        dot / scale, f"s({query}, {key})", f"s_{{{at}}}", **form(parts.score), computed=float(rounded(parts.score)),
        meaning=f"score of query {query} and key {key}",
    )  # fmt: skip


def _equations(trace: Trace, parts: ScoreParts, layer: int, head: int, query: int, key: int) -> list[Equation]:
    """Return the equations of score and weight; only the score if the key is masked."""
    one = trace.layers[layer]
    row = one.scores_of(head)[query], one.weights[head, query], one.allowed[query]
    weight = weight_equation(*row, query, key, one.sink_logit_of(head))
    return [each for each in (score_equation(parts, query, key, one.mixer.score_root), weight) if each]
