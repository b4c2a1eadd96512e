"""What all heads of a model do, in numbers: statistics on this text, and the scores that a head's role rests on.

L layers, H heads.
"""

from __future__ import annotations

import numpy as np

from attnviz.analysis.heads import NEEDED, HeadStatistics, Role
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing
from attnviz.figures.phrases import count
from attnviz.figures.theme import FAINT, NEUTRAL, TABLE, TABLE_TEXT, base_figure
from attnviz.figures.token_maps import BARE

STATISTICS = {  # field of HeadStatistics -> its name, decimals, unit, what one is looking at
    "entropy": (
        "Entropy", 2, "bits",
        "How spread a row is, mean over this text's queries: 0 where one key has all the weight, {even:.2f} bits where "
        "a causal head spreads evenly.",
    ),
    "distance": ("Mean distance", 1, "tokens", "How far back a row looks, weighted, mean over this text's queries."),
    "first_token": (
        "On the first token", 2, "of the weight",
        "Such a sink is normal: a head must spend a weight of 1 somewhere, and the first token, which every query "
        "sees, is where it learns to leave what it has no use for (arXiv 2309.17453).",
    ),
}  # fmt: skip
SINK = 0.5  # of the weight on the first token; heads above it are counted


def statistic_map(found: HeadStatistics, name: str, n_tokens: int, layer: int, head: int) -> Drawing:
    """One of STATISTICS for every head, a cell a head with its number in it; the selected head is framed."""
    values, (heading, decimals, unit, note) = getattr(found, name), STATISTICS[name]
    L, H = values.shape
    low, high = (np.unravel_index(at, values.shape) for at in (values.argmin(), values.argmax()))
    figure = base_figure(60 + 40 * L, showlegend=False, hovermode="closest")
    _add_cells(figure, values, f"{heading} %{{z:.{decimals}f}} {unit}", decimals)
    line = {"color": NEUTRAL, "width": 2}
    figure.add_shape(type="rect", x0=head - 0.5, x1=head + 0.5, y0=layer - 0.5, y1=layer + 0.5, line=line)
    least, most, here = (f"{values[at]:.{decimals}f}" for at in (low, high, (layer, head)))
    title = _sinks(values) if name == "first_token" else f"{heading}: {least} to {most} {unit}"
    return Drawing(
        figure,
        title=title,
        note=note.format(even=float(np.log2(np.arange(1, n_tokens + 1)).mean())),
        alt=f"{title}. A table of {L} layers and {count(H, 'head')}: the lowest, {least}, is layer {low[0]}, head "
        f"{low[1]}, the highest, {most}, layer {high[0]}, head {high[1]}; the selected layer {layer}, head {head} has "
        f"{here}.",
        table={
            "layer": np.repeat(np.arange(L), H).tolist(),
            "head": np.tile(np.arange(H), L).tolist(),
            heading: values.ravel().round(6).tolist(),
        },
    )


def _sinks(first_token: np.ndarray) -> str:
    n = int((first_token > SINK).sum())
    return f"{n} of {count(first_token.size, 'head')} {'rests' if n == 1 else 'rest'} mostly on the first token"


def _add_cells(figure: Chart, values: np.ndarray, says: str, decimals: int) -> None:
    """An L x H table; the numbers are a trace of their own, since plotly chooses a colour for those in a heat map."""
    L, H = values.shape
    figure.add_heatmap(
        z=values.astype(np.float32), colorscale=TABLE, zmin=0, zmax=max(float(values.max()), 1e-6),
        showscale=False, xgap=2, ygap=2, hovertemplate=f"layer %{{y}}, head %{{x}}<br>{says}<extra></extra>",
    )  # fmt: skip
    if H <= 8:
        layers, heads = np.indices((L, H)).reshape(2, -1)
        text = [f"{value:.{decimals}f}" for value in values.ravel()]
        font = {"size": 12, "color": TABLE_TEXT}
        figure.add_scatter(x=heads, y=layers, text=text, mode="text", textfont=font, hoverinfo="skip")
    ticks = {**BARE, "tickmode": "array", "tickfont": {"size": 11}}
    figure.update_layout(
        xaxis={**ticks, "tickvals": list(range(H)), "ticktext": [f"H{h}" for h in range(H)], "side": "top"},
        yaxis={
            **ticks, "tickvals": list(range(L)), "ticktext": [f"L{i}" for i in range(L)], "range": [L - 0.5, -0.5],
        },
    )  # fmt: skip


def role_scores(scores: dict[str, np.ndarray], role: Role, layer: int, head: int, colour: str) -> Drawing:
    """The scores (L, H) of every role for one head, with what each role needs."""
    own = {name: float(values[layer, head]) for name, values in scores.items()}
    names, needed = list(own), [NEEDED.get(name) for name in own]
    figure = base_figure(290, showlegend=False, bargap=0.35)
    figure.add_bar(
        y=names, x=list(own.values()), orientation="h", text=[f"{value:.2f}" for value in own.values()],
        textposition="outside", cliponaxis=False, hovertemplate="%{y}: %{x:.3f}<extra></extra>",
        marker={"color": [colour if name == role.name else FAINT for name in names], "line": {"width": 0}},
    )  # fmt: skip
    marked = [(name, need) for name, need in zip(names, needed, strict=True) if need is not None]
    figure.add_scatter(
        y=[name for name, _ in marked], x=[need for _, need in marked], mode="markers",
        marker={"symbol": "line-ns", "size": 18, "line": {"color": NEUTRAL, "width": 2}},
        hovertemplate="needs %{x}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(range=[0, 1.12], tickvals=[0, 0.5, 1])
    figure.update_yaxes(autorange="reversed", showgrid=False)
    need = f", where {NEEDED[role.name]} is needed" if role.name in NEEDED else ": nothing else reaches its mark"
    title = f"Layer {layer}, head {head}: {role.name} {role.score:.2f}{need}"
    return Drawing(
        figure,
        title=title,
        note="Mean weight on the keys that each role names, over the queries that have such a key, on random tokens "
        "said twice: the text on this page plays no part. Marks: what a role needs. Broad is the entropy as a share of "
        "what an even spread would have.",
        alt=f"{title}. All of them: " + ", ".join(f"{name} {value:.2f}" for name, value in own.items()) + ".",
        table={"role": names, "score": [round(value, 6) for value in own.values()], "needed": needed},
    )
