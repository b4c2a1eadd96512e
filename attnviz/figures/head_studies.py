"""Figures of all heads of a model: statistics on the text shown, and the scores behind a head's role.

L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.analysis.heads import HeadStatistics
from attnviz.analysis.roles import BROAD, COLUMN, UNIFORM, Column, HeadScores, Role, stand_out
from attnviz.figures.chart import Chart, rows_height
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.role_captions import Probes, role_label, role_text, text_sentence, text_title
from attnviz.figures.theme import FAINT, NEUTRAL, OUTLINE, TABLE, TEXT, base_figure
from attnviz.figures.token_maps import BARE
from attnviz.phrases import count, span

STATISTICS = {  # field of HeadStatistics -> name, decimals, unit, note
    "entropy": (
        "Normalised entropy", 2, "",
        "How spread out a query's weights are on this text: 0 if one key has all the weight, 1 if the allowed keys "
        "share it equally. Mean over the queries that may attend to at least two keys.",
    ),
    "distance": (
        "Mean distance", 1, " tokens",
        "Distance from query to key on this text in tokens, weighted by attention: 0 if each query attends only to "
        "itself. Mean over the queries that may attend to at least two keys.",
    ),
    "first_token": (
        "On the first token", 2, " of the weight",
        "Mean weight on the first token of this text, over the queries that may attend to at least two keys. A first "
        "token that gets much weight is called an attention sink.",
    ),
}  # fmt: skip
HOW_TO_READ = (
    "Bar: mean weight on the role's keys; the last one: entropy over that of uniform weights. Dot: chance. Line: the "
    "role's threshold."
)
SINK = 0.5  # share of the weight on the first token above which a head is counted


def statistic_map(found: HeadStatistics, name: str, layer: int, head: int) -> Drawing:
    """Draw one of STATISTICS as a table, one cell with its number per head; the selected head is framed."""
    values, (heading, decimals, unit, note) = getattr(found, name), STATISTICS[name]
    L, H = values.shape
    low, high = (np.unravel_index(at, values.shape) for at in (values.argmin(), values.argmax()))
    figure = base_figure(60 + rows_height(L, 40), showlegend=False, hovermode="closest")
    add_cells(figure, values, f"{heading} %{{z:.{decimals}f}}{unit}", decimals)
    line = {"color": TEXT, "width": 2}
    figure.add_shape(type="rect", x0=head - 0.5, x1=head + 0.5, y0=layer - 0.5, y1=layer + 0.5, line=line)
    least, most, here = (f"{values[at]:.{decimals}f}" for at in (low, high, (layer, head)))
    title = _sinks(values) if name == "first_token" else f"{heading}: {span(least, most)}{unit}"
    return Drawing(
        figure,
        title=title,
        note=note,
        more="Attention sinks: StreamingLLM (arXiv 2309.17453)." * (name == "first_token"),
        alt=f"{title}. A table of {count(L, 'layer')} and {count(H, 'head')}: the lowest, {least}, is layer {low[0]}, "
        f"head {low[1]}, the highest, {most}, layer {high[0]}, head {high[1]}; the selected layer {layer}, head {head} "
        f"has {here}.",
        table={
            "layer": np.repeat(np.arange(L), H).tolist(),
            "head": np.tile(np.arange(H), L).tolist(),
            heading: values.ravel().round(6).tolist(),
        },
    )


def _sinks(first_token: np.ndarray) -> str:
    n = int((first_token > SINK).sum())
    return f"{n} of {count(first_token.size, 'head')} put{'s' * (n == 1)} over half of the weight on the first token"


def add_cells(figure: Chart, values: np.ndarray, hover: str, decimals: int) -> None:
    """Add an L x H table, NaN for no number; the numbers are a separate trace: only some tables have them."""
    L, H = values.shape
    figure.add_heatmap(
        z=values.astype(np.float32), colorscale=TABLE, zmin=0, zmax=max(float(np.nanmax(values)), 1e-6),
        showscale=False, xgap=2, ygap=2, hovertemplate=f"layer %{{y}}, head %{{x}}<br>{hover}<extra></extra>",
    )  # fmt: skip
    if H <= 8:
        layers, heads = np.indices((L, H)).reshape(2, -1)
        text = ["" if np.isnan(value) else f"{value:.{decimals}f}" for value in values.ravel()]
        font = {"size": 12, "color": TEXT}
        figure.add_scatter(x=heads, y=layers, text=text, mode="text", textfont=font, hoverinfo="skip")
    ticks = {**BARE, "tickmode": "array", "tickfont": {"size": 11}}
    figure.update_layout(
        xaxis={**ticks, "tickvals": list(range(H)), "ticktext": [f"H{h}" for h in range(H)], "side": "top"},
        yaxis={
            **ticks, "tickvals": list(range(L)), "ticktext": [f"L{i}" for i in range(L)], "range": [L - 0.5, -0.5],
        },
    )  # fmt: skip


def probe_scores(scores: HeadScores, role: Role, probes: Probes, layer: int, head: int, colour: str) -> Drawing:
    """Draw one head's score for each role on the probes, with chance and the role's threshold."""
    title, named = f"Layer {layer}, head {head}: {role_label(role)}", role.score is not None
    if not probes.trained:
        title, named = f"Layer {layer}, head {head} is untrained: no role", False
    elif named:
        needed = UNIFORM if role.name == BROAD else scores.shares[role.name].needed
        title += f" (threshold {needed:.2f})"
    coloured = {role.name: colour} if named else {}
    note = f"Scores on repeated random tokens. {HOW_TO_READ}"
    return _share_bars(scores, None, coloured, title, note, role_text(role, scores, probes))


def text_scores(scores: HeadScores, column: Column | None, labels: Sequence[str], colour: str) -> Drawing:
    """Draw the same shares of one head's weight on the text shown, with the key that gets most of it."""
    found = [name for name, _ in stand_out(scores, column)[:1]] or [BROAD] * (scores.entropy >= UNIFORM)
    note = f"{text_sentence(scores, column, labels, quoted)} {HOW_TO_READ}"
    return _share_bars(scores, column, dict.fromkeys(found, colour), text_title(scores, column), note)


def _share_bars(
    scores: HeadScores, column: Column | None, coloured: dict[str, str], title: str, note: str, more: str = ""
) -> Drawing:
    """Draw one bar per share with marks at chance and threshold; the normalised entropy comes last."""
    shares = scores.shares | ({COLUMN: column.share} if column else {})
    names = [*shares, BROAD]
    labels = [_row(name, column) for name in names]
    values = [share.weight for share in shares.values()] + [scores.entropy]
    chance = [share.chance for share in shares.values()] + [1.0]
    needed = [share.needed for share in shares.values()] + [UNIFORM]
    n_queries = [share.n_queries for share in shares.values()] + [scores.n_queries]
    figure = base_figure(60 + 30 * len(names), showlegend=False, bargap=0.35)
    figure.add_bar(
        y=labels, x=values, orientation="h", hovertemplate="%{y}: %{x:.3f}<extra></extra>",
        marker={
            "color": [coloured.get(name, FAINT) for name in names],
            "line": OUTLINE | {"color": [coloured.get(name, NEUTRAL) for name in names]},
        },
    )  # fmt: skip
    for name, at, symbol, size in (("chance", chance, "circle", 6), ("threshold", needed, "line-ns", 16)):
        figure.add_scatter(
            y=labels, x=at, mode="markers", hovertemplate=f"{name} %{{x:.3f}}<extra></extra>",
            marker={"symbol": symbol, "size": size, "color": NEUTRAL, "line": {"color": NEUTRAL, "width": 2}},
        )  # fmt: skip
    texts = [f"{value:.2f}" for value in values]
    figure.add_scatter(y=labels, x=[1.1] * len(labels), text=texts, mode="text", hoverinfo="skip")
    figure.update_xaxes(range=[0, 1.17], tickvals=[0, 0.5, 1])
    figure.update_yaxes(autorange="reversed", showgrid=False)
    listed = (f"{label} {value:.2f} (chance {c:.2f})" for label, value, c in zip(labels, values, chance, strict=True))
    return Drawing(
        figure,
        title=title,
        note=note,
        more=more,
        alt=f"{title}. All scores: {', '.join(listed)}.",
        table={
            "share": labels,
            "weight": [round(value, 6) for value in values],
            "chance": [round(value, 6) for value in chance],
            "needed": [round(value, 6) for value in needed],
            "queries": n_queries,
        },
    )


def _row(name: str, column: Column | None) -> str:
    if column and name == COLUMN:
        return f"token {column.key}"
    return "normalised entropy" if name == BROAD else name
