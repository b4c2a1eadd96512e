"""RoPE on a head's own queries and keys: scores by distance, the decay bound, shifts, the two layouts, maps.

T query tokens, S key tokens, D head_dim. Scores are divided by sqrt(D), as the head uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.theme import DIVERGING, FAINT, MASKED, NEUTRAL, base_figure, kv_colour, kv_scale
from attnviz.figures.token_maps import add_cells, add_colourbar, add_masked, blocks, few_ticks, token_map_figure
from attnviz.figures.words import count

if TYPE_CHECKING:
    from attnviz.experiments.rope_equalities import LayoutsCompared, ShiftedOutputs, ShiftedScores

BROWN, PETROL = DIVERGING[0][1], DIVERGING[-1][1]
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
MAP_HEIGHT, MOST_CELLS, MOST_TICKS = 400, 256, 16
ARITHMETICS = {  # field of ShiftedScores -> what it is called, dash, symbol, colour
    "float32_angles": ("float32 throughout, angles too", "dot", "triangle-up", BROWN),
    "float32": ("float32, angles in float64 (run here)", "dash", "square", NEUTRAL),
    "float64": ("float64", "solid", "circle", PETROL),
}


@dataclass(frozen=True)
class Head:
    """Whose numbers are drawn: a head of a layer, the KV head it reads, and where its weights come from."""

    layer: int
    head: int
    kv_head: int
    n_kv_heads: int
    origin: str

    @property
    def name(self) -> str:
        return f"layer {self.layer}, head {self.head} (KV head {self.kv_head})"

    @property
    def said(self) -> str:
        return f"{self.name[0].upper()}{self.name[1:]}, {self.origin}"

    @property
    def colour(self) -> str:
        return kv_colour(self.kv_head, self.n_kv_heads)


def moved_apart(scores: NDArray, here: int, q_label: str, k_label: str, head: Head) -> Drawing:
    """One query and one key moved apart: scores (n,) at the distances 0, 1, …; they stand `here` tokens apart."""
    distances = np.arange(len(scores))
    figure = base_figure(height=300, showlegend=False)
    figure.add_scatter(
        x=distances, y=scores, mode="lines", line={"color": head.colour},
        hovertemplate="%{x} tokens apart: score %{y:.3f}<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=[here], y=[scores[here]], mode="markers+text", text=[f" {scores[here]:.2f}"], hoverinfo="skip",
        textposition="middle right", marker={"size": 11, "color": head.colour},
    )  # fmt: skip
    figure.update_xaxes(title="distance in tokens", showgrid=False, zeroline=False)
    figure.update_yaxes(title="score q·k/√D")
    found = (
        f"score {scores[here]:.2f}, {count(here, 'token')} apart; "
        f"farther or nearer, from {scores.min():.2f} to {scores.max():.2f}"
    )
    return Drawing(
        figure,
        title=f"{quoted(q_label)} and {quoted(k_label)} {found}",
        note=f"A query and a key of {head.name}, {head.origin}: always the same two vectors, only set farther apart. "
        "The fast pairs make the ripples, the slow ones the long wave.",
        alt=f"“{q_label}” and “{k_label}” {found}. The highest score is at distance {int(scores.argmax())}.",
        table={"distance": distances.tolist(), "score": scores.tolist()},
        formula=r"\mathrm{Re}\sum_j q_j\,\bar k_j\,e^{\,i\,d\,\theta_j}/\sqrt{D},\quad "
        rf"d = {here}:\; {scores[here]:.2f}",
    )


def decay(scores: NDArray, bound: NDArray, head: Head) -> Drawing:
    """|score| and the bound of the RoFormer paper (n,) at the distances 0, 1, … for the same query and key."""
    distances, size = np.arange(len(scores)), np.abs(scores)
    figure = base_figure(height=300, legend=LEGEND, hovermode="x unified")
    for name, values, colour, dash in (("bound", bound, NEUTRAL, "dash"), ("|score|", size, head.colour, "solid")):
        figure.add_scatter(
            x=distances, y=values, name=name, mode="lines", line={"color": colour, "dash": dash},
            hovertemplate="%{y:.3g}",
        )  # fmt: skip
    low = max(float(np.quantile(size, 0.02)), 1e-4)
    figure.update_yaxes(type="log", title="|score|", dtick=1, range=[np.log10(low), np.log10(bound.max()) + 0.1])
    figure.update_xaxes(title="distance in tokens", showgrid=False, zeroline=False)
    lowest = int(bound.argmin())
    title = f"The bound falls from {bound[0]:.3g} to {bound[lowest]:.3g} at distance {lowest}; the score keeps below it"
    if (size > bound * (1 + 1e-6)).any():
        title = "The score exceeds its bound: this must never be seen"
    return Drawing(
        figure,
        title=title,
        note="The RoFormer paper (arXiv 2104.09864, section 3.4.3) bounds a score at each distance: by how much the "
        "pairs differ, and by |S\\_j|, the length of the sum of the first j rotations, which cancel. The bound falls, "
        "not steadily, and lies well above real scores: RoPE lets scores fade with distance, it forces nothing.",
        alt=f"{title}. The score is on average {(size / bound).mean():.0%} of the bound.",
        table={"distance": distances.tolist(), "|score|": size.tolist(), "bound": bound.tolist()},
        formula=r"\max_j |q_{j+1}\bar k_{j+1} - q_j \bar k_j|\,\sum_j |S_j| / \sqrt{D}",
    )


def by_distance(mean: NDArray, low: NDArray, high: NDArray, head: Head) -> Drawing:
    """What the head gives to tokens 0, 1, … apart on this text: mean, lowest and highest score (T,)."""
    seen = np.flatnonzero(~np.isnan(mean))
    mean, low, high = mean[seen], low[seen], high[seen]
    figure = base_figure(height=300, legend=LEGEND)
    figure.add_scatter(
        x=np.concatenate((seen, seen[::-1])), y=np.concatenate((high, low[::-1])), fill="toself", mode="lines",
        name="lowest to highest", line={"width": 0}, fillcolor=FAINT, hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=seen, y=mean, customdata=np.stack((low, high), -1), mode="lines+markers" if len(seen) < 60 else "lines",
        name="mean", line={"color": head.colour},
        hovertemplate="%{x} apart: mean %{y:.2f}, %{customdata[0]:.2f} to %{customdata[1]:.2f}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title="distance in tokens", showgrid=False, zeroline=False)
    figure.update_yaxes(title="score q·k/√D")
    best = int(seen[mean.argmax()])
    title = f"On this text the head scores highest {count(best, 'token')} back: {mean.max():.2f} on average"
    return Drawing(
        figure,
        title=title,
        note=f"All allowed pairs of tokens of this text in {head.name}, {head.origin}, by how far apart they stand. "
        "The band is what different tokens make of the same distance: a score is content and distance together.",
        alt=f"{title}, {mean[-1]:.2f} at distance {int(seen[-1])}.",
        table={"distance": seen.tolist(), "mean": mean.tolist(), "lowest": low.tolist(), "highest": high.tolist()},
    )


def shifts(shifted: ShiftedScores) -> Drawing:
    """How far a common shift moves one score, in three kinds of arithmetic."""
    figure = base_figure(height=300, legend=LEGEND)
    table = {"shift": list(shifted.shifts)}
    for field, (name, dash, symbol, colour) in ARITHMETICS.items():
        scores = getattr(shifted, field)
        moved = np.maximum.accumulate(np.abs(scores - scores[0]))[1:]
        table |= {f"score, {name}": scores.tolist()}
        figure.add_scatter(
            x=shifted.shifts[1:], y=np.where(moved > 0, moved, np.nan), name=name, mode="lines+markers",
            line={"dash": dash, "color": colour}, marker={"symbol": symbol, "size": 9},
            hovertemplate="moved on by up to %{x:,}: the score changes by %{y:.2g}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(type="log", title="both moved on by up to … tokens", dtick=1, tickformat=",", showgrid=False)
    figure.update_yaxes(type="log", title="largest change of the score", exponentformat="power", dtick=3)
    worst = {field: shifted.largest_difference(field) for field in ARITHMETICS}
    title = (
        f"Moved on together by up to {shifted.shifts[-1]:,} tokens, the score changes by at most "
        f"{worst['float32']:.1e} in float32 and {worst['float64']:.1e} in float64"
    )
    return Drawing(
        figure,
        title=title,
        note="The same query and key, both at later positions: only their distance counts, what is left is rounding. "
        "float32 keeps 24 bits, so cos and sin are off by up to 3·10⁻⁸ at any position. Where the angle itself is "
        f"float32, as in many implementations, {shifted.shifts[-1]:,} radians are known only to about 0.004, and the "
        f"score moves by {worst['float32_angles']:.1e}. No change at all is not drawn.",
        alt=f"{title}, and by {worst['float32_angles']:.1e} with angles in float32.",
        table=table,
        formula=rf"\langle R_{{m+s}}\,q,\; R_{{n+s}}\,k\rangle / \sqrt{{D}} = {shifted.float64[0]:.6f}",
    )


def values(moved: ShiftedOutputs, head: Head) -> Drawing:
    """Why v is not turned: how far the head's output moves with the text, with and without turning v."""
    figure = base_figure(height=300, legend=LEGEND)
    for name, changes, dash, symbol, colour in (
        ("q and k turned", moved.q_and_k, "solid", "circle", PETROL),
        ("v turned as well", moved.values_too, "dot", "triangle-up", BROWN),
    ):
        largest = np.maximum.accumulate(changes)[1:]
        figure.add_scatter(
            x=moved.shifts[1:], y=np.where(largest > 0, largest, np.nan), name=name, mode="lines+markers",
            line={"dash": dash, "color": colour}, marker={"symbol": symbol, "size": 9},
            hovertemplate="text moved on by up to %{x:,}: the output changes by %{y:.2g}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(type="log", title="text moved on by up to … tokens", dtick=1, tickformat=",", showgrid=False)
    figure.update_yaxes(type="log", title="largest change", exponentformat="power", dtick=2)
    title = (
        f"Wherever the text stands, the head's output stays within {moved.q_and_k.max():.1e}; "
        f"were v turned too, it would move by {moved.values_too.max():.2g}"
    )
    return Drawing(
        figure,
        title=title,
        note="A score compares a query with a key, so their two rotations leave only the distance. The output is a sum "
        "of values, with nothing to turn a rotated value back: the same words would give another output at another "
        f"position. The largest number of this output is {moved.largest:.2g}. {head.said}, in float32.",
        alt=title + ".",
        table={
            "text moved on by": list(moved.shifts),
            "change, q and k turned": moved.q_and_k.tolist(),
            "change, v turned as well": moved.values_too.tolist(),
        },
        formula=r"o_m = \sum_n \mathrm{softmax}\big(\langle R_m q_m,\, R_n k_n\rangle / \sqrt{D}\big)\, v_n",
    )


def layout_pairs(order: NDArray, n_pairs: int) -> Drawing:
    """Which dimensions turn together in either layout, and where each goes: order (D,), the half-split dimension that
    stands at each place of the interleaved layout."""
    D, places = len(order), np.arange(len(order))
    figure = base_figure(height=210, showlegend=False)
    for place, dimension in enumerate(order.tolist()):
        line = {"color": _pair_colour(dimension % n_pairs), "width": 1}
        figure.add_shape(type="line", x0=dimension, x1=place, y0=0.86, y1=0.14, line=line)
    rows = ((1.0, places % n_pairs, "half-split"), (0.0, places // 2, "interleaved"))
    for y, pair, name in rows:
        turned = places < 2 * n_pairs
        figure.add_scatter(
            x=places, y=np.full(D, y), mode="markers+text" if D <= 32 else "markers",
            text=[str(p) if t else "" for p, t in zip(pair, turned, strict=True)],
            marker={"symbol": "square", "size": max(5, min(20, 560 // D)), "opacity": 0.35,
                    "color": [_pair_colour(p) if t else MASKED for p, t in zip(pair, turned, strict=True)]},
            hovertext=[f"{name}: dimension {d} " + (f"is in pair {p}" if t else "never turns")
                       for d, p, t in zip(places, pair, turned, strict=True)],
            hoverinfo="text",
        )  # fmt: skip
    bare = {"showgrid": False, "zeroline": False}
    figure.update_xaxes(title="dimension of the head", dtick=max(1, D // 12), range=[-0.8, D - 0.2], **bare)
    figure.update_yaxes(tickvals=[0, 1], ticktext=["interleaved", "half-split"], range=[-0.25, 1.25], **bare)
    title = f"Half-split turns dimensions 0 and {n_pairs} together, interleaved 0 and 1"
    return Drawing(
        figure,
        title=title,
        note="The number on a dimension is the pair it turns in. A line leads from its place in one layout to "
        "its place in the other: one fixed permutation, the same for q and k.",
        alt=f"{title}. Interleaved from half-split: {' '.join(map(str, order))}.",
        table={
            "place": places.tolist(),
            "pair, half-split": [int(p) if p < n_pairs and d < 2 * n_pairs else -1 for d, p in enumerate(rows[0][1])],
            "pair, interleaved": [int(p) if p < n_pairs else -1 for p in rows[1][1]],
            "half-split dimension that goes there": order.tolist(),
        },
    )


def layout_finding(compared: LayoutsCompared) -> str:
    """The difference in a sentence."""
    return (
        f"The same q and k scored in the other layout: off by up to **{compared.difference:.2f}**, every shape right. "
        f"With their dimensions permuted first: **{compared.difference_reordered:.1e}**."
    )


def weight_map(
    weights: NDArray, allowed: NDArray, labels: Sequence[str], top: float, head: Head, title: str, note: str
) -> Drawing:
    """A head's weights (T, T) in the hue of its KV head, full from `top`; what is not allowed is grey, never zero."""
    figure = _map(labels, allowed, weights, kv_scale(head.kv_head, head.n_kv_heads), (0.0, top))
    add_colourbar(figure, kv_scale(head.kv_head, head.n_kv_heads), top, log=False)
    strongest = weights.argmax(axis=1)
    return Drawing(
        figure,
        title=title,
        note=f"{note} Row = query, sums to 1; column = key; full colour from {top:.2g}. {head.said}.",
        alt=f"{title}. The last token gives most, {weights[-1].max():.0%}, to “{labels[strongest[-1]]}”.",
        table={
            "query": list(range(len(weights))),
            "token": list(labels),
            "strongest key": strongest.tolist(),
            "its weight": weights.max(axis=1).tolist(),
        },
    )


def score_map(
    scores: NDArray, allowed: NDArray, labels: Sequence[str], limit: float, head: Head, title: str, note: str
) -> Drawing:
    """Scores (T, T) before the softmax, brown below zero and petrol above, from -limit to limit."""
    inside = scores[allowed]
    return Drawing(
        _map(labels, allowed, scores, DIVERGING, (-limit, limit)),
        title=title,
        note=f"{note} Row = query, column = key; brown below zero, petrol above, to ±{limit:.1f}. {head.said}.",
        alt=f"{title}. Scores from {inside.min():.2f} to {inside.max():.2f}, mean {inside.mean():.2f}.",
        table={
            "query": list(range(len(scores))),
            "token": list(labels),
            "lowest score": np.where(allowed, scores, np.inf).min(axis=1).tolist(),
            "highest score": np.where(allowed, scores, -np.inf).max(axis=1).tolist(),
        },
    )


def _map(labels: Sequence[str], allowed: NDArray, values: NDArray, scale: list, bounds: tuple) -> Chart:
    figure = token_map_figure(labels, MAP_HEIGHT, MOST_CELLS)
    add_masked(figure, allowed, MOST_CELLS)
    add_cells(figure, blocks(np.where(allowed, values, np.nan), MOST_CELLS), scale, bounds, "%{z:.4f}")
    few = few_ticks(labels, MOST_TICKS)
    figure.update_layout(xaxis=few, yaxis=few)
    return figure


def _pair_colour(pair: int) -> str:
    """Three colours in turn, so that neighbouring pairs can be told apart; the number says which pair it is."""
    return (BROWN, PETROL, NEUTRAL)[pair % 3]
