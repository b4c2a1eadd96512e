"""Figures of ablated heads: how much each ablation changes the loss on this text, and its effect on one prediction.

L layers, H heads, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.figures.chart import rows_height
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.head_captions import shortened
from attnviz.figures.numbers import signed, told_apart
from attnviz.figures.theme import DIVERGING, FAINT, NEUTRAL, OUTLINE, base_figure
from attnviz.figures.token_maps import BARE, token_text
from attnviz.phrases import count

MAX_TOKENS = 6  # per prediction
METHOD_TEXTS = {
    "zero": "its output is set to zero",
    "mean": "its output is replaced, at every position, by its mean over a fixed reference text",
}


def effect_map(losses: np.ndarray, before: float, way: str, layer: int, head: int) -> Drawing:
    """Draw the change of the loss with each head ablated, in nats per token; before: the loss with all heads.

    losses: (L, H), NaN where a head has not been ablated yet; at least one is measured.
    """
    effects, (L, H) = losses - before, losses.shape
    far = max(float(np.nanmax(np.abs(effects))), 1e-6)
    most = np.unravel_index(int(np.nanargmax(effects)), effects.shape)
    n_measured = int(np.isfinite(losses).sum())
    figure = base_figure(70 + rows_height(L, 44), showlegend=False, hovermode="closest")
    figure.add_heatmap(
        z=effects.astype(np.float32), colorscale=DIVERGING, zmin=-far, zmax=far, xgap=3, ygap=3,
        colorbar={"thickness": 10, "outlinewidth": 0, "nticks": 5, "title": {"text": "nats"}},
        hovertemplate="without layer %{y}, head %{x}<br>loss %{z:+.3f}<extra></extra>",
    )  # fmt: skip
    figure.add_shape(
        type="rect", x0=head - 0.5, x1=head + 0.5, y0=layer - 0.5, y1=layer + 0.5, line={"color": NEUTRAL, "width": 2}
    )
    figure.add_shape(type="rect", x0=-0.5, x1=H - 0.5, y0=-0.5, y1=L - 0.5, line={"color": FAINT}, layer="below")
    figure.update_layout(
        xaxis={
            **BARE, "tickvals": list(range(H)), "ticktext": [f"H{h}" for h in range(H)], "range": [-0.5, H - 0.5],
            "side": "top", "minor": _borders(H),
        },
        yaxis={
            **BARE, "tickvals": list(range(L)), "ticktext": [f"L{i}" for i in range(L)], "range": [L - 0.5, -0.5],
            "minor": _borders(L),
        },
    )  # fmt: skip
    helpful = int((effects > 0).sum())
    name, change = f"L{most[0]} H{most[1]}", " → ".join(told_apart(before, float(losses[most]), digits=3, change=3))
    title = f"Ablating {name} raises the loss most: {change}"
    if effects[most] <= 0:
        title = f"No ablation raises the loss; nearest: {name}, loss {change}"
    if n_measured < losses.size:
        title = f"After {n_measured} of {losses.size} heads: {title[0].lower()}{title[1:]}"
    return Drawing(
        figure,
        title=title,
        note=f"Change of the loss with one head ablated. Blue-green: it rises ({helpful} of "
        f"{count(n_measured, 'head')}); brown: it falls. A small change does not show that a head is unimportant: "
        "later heads can make up for it.",
        more=f"Ablating a head: {METHOD_TEXTS[way]}. The loss is the mean of −ln p of each token that comes next, in "
        "nats: lower is better. The effects of heads ablated together need not add up.",
        alt=f"A table of {count(L, 'layer')} and {count(H, 'head')}. {title}. The changes range from "
        f"{signed(float(np.nanmin(effects)))} to {signed(float(np.nanmax(effects)))}.",
        table={
            "layer": np.repeat(np.arange(L), H).tolist(),
            "head": np.tile(np.arange(H), L).tolist(),
            "loss without it": losses.ravel().tolist(),
            "change": effects.ravel().tolist(),
        },
    )


def _borders(n: int) -> dict:
    """Return an axis's lines between n cells: a cell near zero is transparent."""
    return {"tickmode": "array", "tickvals": [i - 0.5 for i in range(1, n)], "showgrid": True, "gridcolor": FAINT}


def next_tokens(
    before: np.ndarray, after: np.ndarray, vocabulary: Sequence[str], label: str, query: int, next_id: int | None
) -> Drawing:
    """Draw the next token's probabilities (V,) with all heads and with heads ablated.

    next_id: id of the token that follows in the text; None at its end.
    """
    likely = [
        *np.argsort(-before)[:MAX_TOKENS],
        *np.argsort(-after)[:MAX_TOKENS],
        *([] if next_id is None else [next_id]),
    ]
    shown = sorted({int(token) for token in likely}, key=lambda token: -before[token])
    names = [vocabulary[token] for token in shown]
    figure = base_figure(90 + 34 * len(shown), bargap=0.25, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    for name, values, colour in (("all heads", before, FAINT), ("heads ablated", after, NEUTRAL)):
        figure.add_bar(
            y=np.arange(len(shown)), x=values[shown], name=name, orientation="h",
            marker={"color": colour, "line": OUTLINE}, hovertext=[token_text(n, 40) for n in names],
            hovertemplate="%{hovertext}: %{x:.3f}<extra>" + name + "</extra>",
        )  # fmt: skip
    ticks = [
        token_text(n) + (" ← next in the text" if token == next_id else "")
        for token, n in zip(shown, names, strict=True)
    ]
    figure.update_layout(
        xaxis={"rangemode": "tozero", "title": {"text": "probability"}},
        yaxis={**BARE, "tickvals": list(range(len(shown))), "ticktext": ticks, "range": [len(shown) - 0.5, -0.5]},
    )
    first, then = int(before.argmax()), int(after.argmax())
    change = " → ".join(told_apart(float(before[first]), float(after[first]), digits=3))
    outcome = (
        f"{quoted(shortened(vocabulary[first], 30))} stays most likely, {change}"
        if first == then
        else f"{quoted(shortened(vocabulary[then], 30))} instead of {quoted(shortened(vocabulary[first], 30))}"
    )
    return Drawing(
        figure,
        title=f"Next token after {query} {quoted(shortened(label, 30))}: {outcome}",
        note=f"The {MAX_TOKENS} most likely next tokens with all heads and with heads ablated"
        + ("." if next_id is None else ", and the token that follows in the text."),
        alt=f"After {query} “{label}” the most likely token is “{vocabulary[first]}” with all heads, "
        f"“{vocabulary[then]}” with heads ablated. "
        + "; ".join(f"“{vocabulary[t]}” {before[t]:.3f}, then {after[t]:.3f}" for t in shown)
        + ".",
        table={
            "token": names,
            "all heads": before[shown].astype(float).tolist(),
            "heads ablated": after[shown].astype(float).tolist(),
        },
    )
