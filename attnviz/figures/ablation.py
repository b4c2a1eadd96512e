"""Heads switched off, drawn: what each one is worth on this text, and what happens to one prediction.

L layers, H heads, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.head_captions import shortened
from attnviz.figures.phrases import count
from attnviz.figures.theme import DIVERGING, FAINT, NEUTRAL, base_figure
from attnviz.figures.token_maps import BARE, token_text

MOST_TOKENS = 6  # of each of two predictions
HOW = {
    "zero": "it hands nothing to the output projection",
    "mean": "it hands on its mean over this text's positions, so that only what tells positions apart is lost",
}


def effect_map(losses: np.ndarray, before: float, way: str, layer: int, head: int) -> Drawing:
    """The loss (L, H) of the text without each head, against the loss with all of them, in nats a token."""
    effects, (L, H) = losses - before, losses.shape
    far = max(float(np.abs(effects).max()), 1e-6)
    most = np.unravel_index(int(effects.argmax()), effects.shape)
    figure = base_figure(70 + 44 * L, showlegend=False, hovermode="closest")
    figure.add_heatmap(
        z=effects.astype(np.float32), colorscale=DIVERGING, zmin=-far, zmax=far, xgap=3, ygap=3,
        colorbar={"thickness": 10, "outlinewidth": 0, "nticks": 5, "title": {"text": "nats"}},
        hovertemplate="without layer %{y}, head %{x}<br>the loss moves by %{z:+.4f}<extra></extra>",
    )  # fmt: skip
    figure.add_shape(
        type="rect", x0=head - 0.5, x1=head + 0.5, y0=layer - 0.5, y1=layer + 0.5, line={"color": NEUTRAL, "width": 2}
    )
    figure.update_layout(
        xaxis={**BARE, "tickvals": list(range(H)), "ticktext": [f"H{h}" for h in range(H)], "side": "top"},
        yaxis={
            **BARE, "tickvals": list(range(L)), "ticktext": [f"L{i}" for i in range(L)], "range": [L - 0.5, -0.5],
        },
    )  # fmt: skip
    helpful = int((effects > 0).sum())
    said = f"without layer {most[0]}, head {most[1]} the loss goes from {before:.3f} to {losses[most]:.3f}"
    title = "missed most on this text" if effects[most] > 0 else "no head is missed on this text; the nearest to it"
    return Drawing(
        figure,
        title=f"{title.capitalize()}: {said}",
        note=f"Nats a token. One head is off at a time: {HOW[way]}. Petrol: the text becomes harder to predict without "
        f"the head ({count(helpful, 'head')} of {losses.size}); brown: easier. Heads stand in for one another, so that "
        "these numbers do not add up.",
        alt=f"A table of {L} layers and {count(H, 'head')}: {said}, the largest rise; the largest fall is "
        f"{min(float(effects.min()), 0.0):.3f}.",
        table={
            "layer": np.repeat(np.arange(L), H).tolist(),
            "head": np.tile(np.arange(H), L).tolist(),
            "loss without it": losses.ravel().round(6).tolist(),
            "change": effects.ravel().round(6).tolist(),
        },
    )


def next_tokens(
    before: np.ndarray, after: np.ndarray, vocabulary: Sequence[str], label: str, query: int, came: int | None
) -> Drawing:
    """Probabilities (V,) of the next token before and after; `came` is the id of the one that really followed."""
    likely = [*np.argsort(-before)[:MOST_TOKENS], *np.argsort(-after)[:MOST_TOKENS], *([] if came is None else [came])]
    shown = sorted({int(token) for token in likely}, key=lambda token: -before[token])
    names = [vocabulary[token] for token in shown]
    figure = base_figure(90 + 34 * len(shown), bargap=0.25, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    for name, values, colour in (("all heads", before, FAINT), ("switched off", after, NEUTRAL)):
        figure.add_bar(
            y=np.arange(len(shown)), x=values[shown], name=name, orientation="h",
            marker={"color": colour, "line": {"width": 0}}, hovertext=[token_text(n, 40) for n in names],
            hovertemplate="%{hovertext}: %{x:.4f}<extra>" + name + "</extra>",
        )  # fmt: skip
    ticks = [token_text(n) + (" ← came" if token == came else "") for token, n in zip(shown, names, strict=True)]
    figure.update_layout(
        xaxis={"rangemode": "tozero", "title": {"text": "probability"}},
        yaxis={**BARE, "tickvals": list(range(len(shown))), "ticktext": ticks, "range": [len(shown) - 0.5, -0.5]},
    )
    first, then = int(before.argmax()), int(after.argmax())
    outcome = (
        f"{quoted(shortened(vocabulary[first], 30))} stays first, {before[first]:.3f} → {after[first]:.3f}"
        if first == then
        else f"{quoted(shortened(vocabulary[then], 30))} takes the place of {quoted(shortened(vocabulary[first], 30))}"
    )
    return Drawing(
        figure,
        title=f"What follows {query} {quoted(shortened(label, 30))}: {outcome}",
        note=f"The {MOST_TOKENS} likeliest next tokens of each, and the one that came.",
        alt=f"After {query} “{label}” the likeliest token is “{vocabulary[first]}”, with heads switched off "
        f"“{vocabulary[then]}”. "
        + "; ".join(f"“{vocabulary[t]}” {before[t]:.3f}, then {after[t]:.3f}" for t in shown)
        + ".",
        table={
            "token": names,
            "all heads": before[shown].astype(float).round(6).tolist(),
            "switched off": after[shown].astype(float).round(6).tolist(),
        },
    )
