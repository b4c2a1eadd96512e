"""Captions and figures of an indexer's top-k keys, and of learned sinks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnviz.figures.drawing import Caption, Drawing
from attnviz.figures.head_studies import add_cells
from attnviz.figures.numbers import percent, significant
from attnviz.figures.theme import BROWN, NEUTRAL, PETROL, base_figure
from attnviz.phrases import count, first_of

# ---- what the indexer keeps


def index_caption(layer: int, n_heads: int) -> Caption:
    """Write the caption of a layer's index scores."""
    return Caption(
        f"Layer {layer}: one index score per key, for all {count(n_heads, 'head')}",
        "The sum over the index heads of w · ReLU(q · k). A head's w comes from the query and may be negative.",
        f"Heat map of the index scores of layer {layer}.",
    )


def dense_caption(shares: np.ndarray, k: int, name: str) -> Caption:
    """Write the caption of a head's dense map. shares (T,): of each query's weight on the k keys kept."""
    n = int((np.arange(1, len(shares) + 1) > k).sum())
    kept = percent(float(shares.mean()), 1)
    note = (
        f"In {count(n, 'row')} there are more than {count(k, 'key')}." if n else "No row has more keys: all are kept."
    )
    return Caption(
        f"{name}: top {k} by index score keep {kept} of the weight",
        f"The weights if no key were left out; a dot marks a key that is kept. Only keys that the mask allows are "
        f"ranked: keys of the future would take places of the {k}. {note}",
        f"Heat map of the weights of {name} over all keys; the {count(k, 'key')} kept hold {kept} on average.",
    )


def kept_by_k(errors: Mapping[str, np.ndarray], k: int, name: str, trained: int) -> Drawing:
    """Draw the output error against k for each way to choose keys. errors: name -> (T,), for k = 1 … T."""
    T, chosen = len(next(iter(errors.values()))), errors["index scores"]
    figure = base_figure(300, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    looks = {"index scores": (PETROL, "solid"), "largest dense weights": (NEUTRAL, "dot"), "last keys": (BROWN, "dash")}
    for way, values in errors.items():
        colour, dash = looks[way]
        figure.add_scatter(
            x=list(range(1, T + 1)),
            y=values.tolist(),
            name=f"k keys by {way}" if way != "last keys" else "last k keys",
            mode="lines" if T > 1 else "markers",
            line={"color": colour, "dash": dash},
            hovertemplate="%{y:.3g}",
        )
    figure.add_vline(x=k, line={"width": 1, "color": NEUTRAL})
    figure.update_xaxes(title="keys kept per query, k", showgrid=False)
    figure.update_yaxes(title="‖oₖ − o‖ / ‖o‖, mean", rangemode="tozero")
    title = f"With {count(k, 'key')} kept, the output of {name} is {percent(float(chosen[k - 1]), 1)} off"
    return Drawing(
        figure,
        title=title,
        note=f"How far a head's output with k keys is from that with all, mean over the queries. This layer was "
        f"trained with {count(trained, 'key')}.",
        more="On the head's own q, k and v, in which the layers before it have kept as many keys as they were trained "
        "with. The indexer is that of DeepSeek sparse attention (arXiv 2512.02556).",
        alt=f"{title}. With one key it is {percent(float(chosen[0]), 0)} off.",
        table={"k": list(range(1, T + 1)), **{way: values.round(6).tolist() for way, values in errors.items()}},
    )


# ---- sinks


def sink_captions(share: np.ndarray, first: np.ndarray, n_first: int, name: str, window: int | None) -> list[Caption]:
    """Write the captions of one map with three kinds of sink.

    share (T,): of each query's weight to no token; first (T, T): weights with the first n_first tokens visible.
    """
    gone, on_first = percent(float(share.mean()), 1), percent(float(first[:, :n_first].sum(-1).mean()), 1)
    named, seen = first_of(n_first, "token"), visible(window, len(first))
    anyway = window is None or window >= len(first)
    beside = "This layer sees the first tokens anyway." if anyway else f"The {named} stay visible beside the window."
    return [
        Caption(
            f"{name}, learned sink logit: {gone} of the weight to no token",
            f"A row sums to 1 less the sink's share. It sees {seen}.",
            f"Heat map of {name} with its sink logit; {gone} of the weight goes to no token on average.",
        ),
        Caption(
            f"First tokens as sinks: {named} get {on_first}",
            f"The same scores without the logit. {beside}",
            f"Heat map of {name} without its sink logit and with the {named} visible; they get {on_first}.",
        ),
        Caption(
            "No sink: each row sums to 1",
            f"The same scores over {seen}. What went to no token goes to these.",
            f"Heat map of {name} without any sink; each row sums to 1.",
        ),
    ]


def sink_shares(shares: np.ndarray) -> Drawing:
    """Draw the mean share of each head's weight that goes to no token, (L, H); NaN in layers without sink logits."""
    L, H = shares.shape
    most = np.unravel_index(int(np.nanargmax(shares)), shares.shape)
    figure = base_figure(60 + 40 * min(L, 14), showlegend=False, hovermode="closest")
    add_cells(figure, shares, "no token %{z:.2f} of the weight", 2)
    title = f"Layer {most[0]}, head {most[1]} gives {percent(float(shares[most]), 0)} of its weight to no token"
    return Drawing(
        figure,
        title=title,
        note="Mean over the queries of this text, for each layer and head. The learned logit is one more term in the "
        "softmax's denominator, without a value.",
        more="As in gpt-oss (arXiv 2508.10925). "
        "Large models without such a logit put much weight on the first tokens, also where these say little: "
        "attention sinks (arXiv 2309.17453).",
        alt=f"{title}. A table of {count(L, 'layer')} and {count(H, 'head')}; the mean of all is "
        f"{significant(float(np.nanmean(shares)))}.",
        table={
            "layer": np.repeat(np.arange(L), H).tolist(),
            "head": np.tile(np.arange(H), L).tolist(),
            "share to no token": [None if np.isnan(x) else round(float(x), 6) for x in shares.ravel()],
        },
    )


def visible(window: int | None, n_tokens: int) -> str:
    """Say what a layer's mask shows a query: "the last 32 tokens"."""
    if window is None:
        return "all earlier tokens"
    covered = f" (all of these {n_tokens})" if window >= n_tokens else ""
    return f"the last {count(window, 'token')}{covered}"
