"""Pictures of what sharing costs: how alike heads are, the loss under every way to share, and the maps it changes.

H heads, K KV heads, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnviz.figures.drawing import Drawing
from attnviz.figures.phrases import bold, count
from attnviz.figures.theme import DIVERGING, FAINT, NEUTRAL, base_figure, kind_style
from attnviz.figures.token_maps import MOST_X_TICKS, few_ticks

Groups = Sequence[Sequence[int]]
BROWN, PETROL = DIVERGING[0][1], DIVERGING[-1][1]  # what conversion loses, what training brings back
NEAR = 1.4  # times a number is the next, on a logarithmic axis, where their labels touch on a narrow screen
WAYS = {  # way to have fewer KV heads -> dash, symbol, colour; told apart by the first two without the third
    "trained so": ("solid", "circle", PETROL),
    "averaged": ("dash", "square", BROWN),
    "first head kept": ("dot", "triangle-up", BROWN),
    "averaged, best partners": ("dashdot", "diamond-open", BROWN),
}


@dataclass(frozen=True)
class Member:
    """One model of the family: what it remembers and how well it predicts, in bits a character."""

    name: str
    kind: str
    bytes_per_token: int
    validation: float | None  # on text that the training never saw; None for an untrained model
    this_text: float | None  # None where the text has no next token to predict


def likeness(cosine: NDArray, groups: Groups, best: Groups, lost: tuple[float, float], part: str) -> Drawing:
    """Cosines (H, H) between the heads' `part` ("keys" or "values"), the groups outlined, the best partners dotted.

    lost: the share of squared length that averaging loses in `groups`, and in `best`.
    """
    n_heads = len(cosine)
    figure = base_figure(height=420, showlegend=False)
    figure.add_heatmap(
        z=cosine.astype(np.float32), zmin=-1, zmax=1, colorscale=DIVERGING, xgap=1, ygap=1,
        colorbar={"title": {"text": "cosine"}, "orientation": "h", "thickness": 12, "y": -0.28, "yanchor": "top"},
        hovertemplate="heads %{y} and %{x}: cosine %{z:.3f}<extra></extra>",
    )  # fmt: skip
    if n_heads <= 8:  # more do not fit into their cells
        figure.add_trace(_cell_numbers(cosine))
    for group in groups:
        first, last = group[0] - 0.5, group[-1] + 0.5
        figure.add_shape(type="rect", x0=first, x1=last, y0=first, y1=last, line={"width": 3, "color": NEUTRAL})
    pairs = [(a, b) for group in best for a in group for b in group if a != b]
    dots = {"symbol": "circle", "size": 5, "color": NEUTRAL}
    at = {"x": [b for _, b in pairs], "y": [a + 0.33 for a, _ in pairs]}
    figure.add_scatter(**at, mode="markers", hoverinfo="skip", marker=dots)
    axis = {"title": "head", "tickvals": list(range(n_heads)), "showgrid": False, "zeroline": False}
    figure.update_xaxes(**axis, constrain="domain", range=[-0.5, n_heads - 0.5])
    figure.update_yaxes(**axis, constrain="domain", range=[n_heads - 0.5, -0.5], scaleanchor="x")
    title, best_text = _likeness_finding(groups, best, lost, part)
    return Drawing(
        figure,
        title=title,
        note=f"How alike the {part} of MHA's heads are on this text, each head one long vector over all tokens. "
        "Outlined: the neighbours that grouping merges. Dots: the partners that would lose least. RoPE turns all heads "
        "alike and changes none of these numbers.",
        alt=f"{title}. {best_text}",
        table={
            "head": [a for a in range(n_heads) for _ in range(n_heads)],
            "other head": [b for _ in range(n_heads) for b in range(n_heads)],
            "cosine": [float(x) for x in cosine.ravel()],
        },
        formula=r"\textstyle\sum_h \lVert x_h - \bar x_{g(h)}\rVert^2 \big/ \sum_h \lVert x_h\rVert^2 = "
        + f"{lost[0]:.3f}",
    )


def losses(ways: Mapping[str, Mapping[int, float]], n_kv_heads: int) -> Drawing:
    """Loss on this text, in nats a token, for every way to have fewer KV heads: way -> {K: loss}; K in force marked."""
    counts = sorted({k for by_count in ways.values() for k in by_count}, reverse=True)
    figure = base_figure(height=330, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    for way, by_count in ways.items():
        dash, symbol, colour = WAYS[way]
        figure.add_scatter(
            x=[counts.index(k) for k in by_count], y=list(by_count.values()), name=way, mode="lines+markers",
            line={"dash": dash, "color": colour}, marker={"symbol": symbol, "size": 9},
            hovertemplate="%{y:.3f} nats",
        )  # fmt: skip
    here = counts.index(n_kv_heads)
    figure.add_vrect(x0=here - 0.2, x1=here + 0.2, fillcolor=FAINT, line={"width": 0}, layer="below")
    figure.update_xaxes(tickvals=list(range(len(counts))), ticktext=list(map(str, counts)), title="KV heads")
    figure.update_yaxes(title="loss on this text, nats a token")
    title = _losses_finding(ways, n_kv_heads)
    return Drawing(
        figure,
        title=title,
        note="Lower is better. *Averaged* and *first head kept* convert the MHA checkpoint without training it on "
        "(arXiv 2305.13245). *Best partners* averages the heads that are most alike, not neighbours. *Trained so* is "
        "the checkpoint with this many KV heads. Grey: the number in force.",
        alt=f"{title}. " + " ".join(f"{way}: {_series(by_count)}." for way, by_count in ways.items()),
        table={"KV heads": counts, **{f"{way}, nats": [by.get(k) for k in counts] for way, by in ways.items()}},
    )


def quality(members: Sequence[Member], selected: str) -> Drawing:
    """The family: bits a character on held-out text and on this text, over the cache bytes of one token."""
    figure = base_figure(height=340, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    measures = {"held-out text": [m.validation for m in members], "this text": [m.this_text for m in members]}
    for measure, values in measures.items():
        open_marker = "-open" if measure == "this text" else ""
        figure.add_scatter(
            x=[m.bytes_per_token for m in members], y=values, name=measure, mode="markers+text",
            text=[bold(m.name, m.name == selected) for m in members], cliponaxis=False,
            textposition=["bottom center" if m.kind == "mla" else "top center" for m in members],  # beside GQA-2's
            marker={
                "size": [15 if m.name == selected else 10 for m in members], "opacity": 1,  # 0.7 with several sizes
                "symbol": [kind_style(m.kind)["symbol"] + open_marker for m in members],
                "color": [kind_style(m.kind)["colour"] for m in members], "line": {"width": 2},
            },
            hovertemplate="%{text}: %{x:,} B a token, %{y:.3f} bits a character on " + measure + "<extra></extra>",
        )  # fmt: skip
    sizes = sorted({m.bytes_per_token for m in members})
    margins = [math.log10(min(sizes)) - 0.12, math.log10(max(sizes)) + 0.12]
    ticks = {"tickvals": sizes, "ticktext": _in_two_lines(sizes), "tickangle": 0}
    figure.update_xaxes(title="KV cache, bytes a token (log)", type="log", range=margins, **ticks)
    figure.update_yaxes(title="bits a character")
    title = _quality_finding(members)
    return Drawing(
        figure,
        title=title,
        note="Every checkpoint of the family: how much it remembers of a token, and how well it predicts. Lower and "
        "further left is better. Filled: text the training never saw. Open: the text on this page.",
        alt=title + ".",
        table={
            "model": [m.name for m in members],
            "cache bytes a token": [m.bytes_per_token for m in members],
            "bits a character, held-out text": measures["held-out text"],
            "bits a character, this text": measures["this text"],
        },
    )


def drift(divergences: Mapping[str, NDArray], labels: Sequence[str], n_kv_heads: int) -> Drawing:
    """Divergence of the next-token distribution from MHA's, in nats, at every token: way -> (T,)."""
    figure = base_figure(height=300, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    positions = list(range(len(labels)))
    for way, values in divergences.items():
        dash, _, colour = WAYS[way]
        figure.add_scatter(
            x=positions, y=values.astype(np.float32), name=way, mode="lines",
            line={"dash": dash, "color": colour, "width": 1.5},
            hovertemplate="%{y:.3f} nats",
        )  # fmt: skip
    span = [-0.5, len(labels) - 0.5]
    figure.update_xaxes(**few_ticks(labels, MOST_X_TICKS), tickangle=-90, range=span, showgrid=False, zeroline=False)
    figure.update_yaxes(title="KL from MHA, nats", rangemode="tozero")
    means = {way: float(values.mean()) for way, values in divergences.items()}
    worst = max(means, key=means.get)
    at = int(divergences[worst].argmax())
    title = (
        f"With {count(n_kv_heads, 'KV head')}, “{worst}” drifts farthest from MHA: {means[worst]:.2f} nats on average"
    )
    return Drawing(
        figure,
        title=title,
        note="How far the prediction of the next token moves away from the MHA checkpoint's, after each token: "
        "KL(MHA ‖ other), 0 where both predict alike.",
        alt=f"{title}, most after token {at}, “{labels[at]}”. "
        + " ".join(f"{way}: mean {mean:.3f} nats." for way, mean in means.items()),
        table={"position": positions, "token": list(labels), **{way: v.tolist() for way, v in divergences.items()}},
    )


def _cell_numbers(values: NDArray) -> dict:
    """The numbers in the cells of a square map, in the page's own text colour."""
    rows, columns = np.indices(values.shape)
    text = [f"{value:.2f}" for value in values.ravel()]
    return {
        "type": "scatter", "mode": "text", "x": columns.ravel(), "y": rows.ravel(), "text": text,
        "textfont": {"size": 11}, "hoverinfo": "skip",
    }  # fmt: skip


def _likeness_finding(groups: Groups, best: Groups, lost: tuple[float, float], part: str) -> tuple[str, str]:
    """The title, and which partners the dots mark."""
    partners = ", ".join("+".join(map(str, group)) for group in best)
    if len(groups[0]) == 1:
        return f"Every head keeps {part} of its own, so averaging loses nothing", "No heads are merged."
    title = f"Averaging neighbours loses {lost[0]:.0%} of the {part}; the best partners would lose {lost[1]:.0%}"
    return title, f"Best partners: {partners}."


def _losses_finding(ways: Mapping[str, Mapping[int, float]], n_kv_heads: int) -> str:
    start = ways["averaged"][max(ways["averaged"])]
    averaged = ways["averaged"][n_kv_heads]
    if n_kv_heads == max(ways["averaged"]):
        fewest = min(ways["averaged"])
        rise = ways["averaged"][fewest] - start
        return f"Averaging MHA's heads into {fewest} raises the loss on this text by {rise:.2f} nats a token"
    title = f"Averaging MHA's heads into {n_kv_heads} changes the loss by {averaged - start:+.2f} nats a token"
    trained = ways.get("trained so", {}).get(n_kv_heads)
    return title if trained is None else f"{title}; after training it is {trained - start:+.2f}"


def _in_two_lines(sizes: Sequence[int]) -> list[str]:
    """Rising numbers as labels of a logarithmic axis; one that comes soon after another stands a line below it."""
    labels: list[str] = []
    for before, size in zip((0, *sizes), sizes, strict=False):
        below = size < NEAR * before and not labels[-1].startswith("<br>")
        labels.append(f"{'<br>' * below}{size:,}")
    return labels


def _quality_finding(members: Sequence[Member]) -> str:
    measured = [m for m in members if m.validation is not None]
    if len(measured) < 2:
        return "Cache and quality of the checkpoints that are there"
    most, least = (pick(measured, key=lambda m: m.bytes_per_token) for pick in (max, min))
    return (
        f"{least.name} remembers {least.bytes_per_token / most.bytes_per_token:.1%} of what {most.name} does, for "
        f"{least.validation - most.validation:+.3f} bits a character on held-out text"
    )


def _series(by_count: Mapping[int, float]) -> str:
    return ", ".join(f"{loss:.2f} with {k}" for k, loss in by_count.items())
