"""Captions and figures of a linear layer: its effective weights, its state, and what earlier keys read from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.analysis.linear import Written, most_repeated, recall_errors
from attnviz.config import ModelConfig
from attnviz.cost.cached import cached_in_layer, state_bytes_of
from attnviz.figures.drawing import Caption, Drawing, quoted
from attnviz.figures.numbers import percent, printed, significant
from attnviz.figures.theme import NEUTRAL, base_figure
from attnviz.figures.token_maps import few_ticks
from attnviz.mechanisms import Layer
from attnviz.phrases import count, in_a_row, last_of, span

LEAST_ERROR = 1e-4  # that is drawn: the axis is logarithmic
SUM_TOLERANCE = 1e-4  # of a row's sum
KEPT_BYTES = 2  # per cached number, bf16

# ---- the sentence at the top


def layers_sentence(config: ModelConfig) -> str:
    """State what each layer keeps: "Layers 0 to 2 keep a state of 576 numbers per head whatever the length, …"."""
    alike: dict[str, list[int]] = {}
    for i, layer in enumerate(config.layers):
        alike.setdefault(_keeps(layer, ""), []).append(i)
    said = [
        f"layer{'s' * (len(at) > 1)} {in_a_row(at)} {_keeps(config.layers[at[0]], 's' * (len(at) == 1))}"
        for at in alike.values()
    ]
    sentence = ", ".join(said)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _keeps(layer: Layer, s: str) -> str:
    """Say what a layer keeps of a text. s: the verb's ending, "s" for one layer."""
    mixer = layer.mixer
    if layer.shares_cache_of is not None:
        return f"read{s} the cache of layer {layer.shares_cache_of}"
    if not mixer.attends:
        numbers = count(int(mixer.state()[0].numbers.value) // mixer.n_heads, "number")
        return f"keep{s} a state of {numbers} per head whatever the length"
    numbers = count(int(cached_in_layer(mixer).value), "number")
    if mixer.window is not None:
        each = "each of " * (mixer.window > 1)
        return f"cache{s} {numbers} for {each}the {last_of(mixer.window, 'token')}"
    return f"cache{s} {numbers} per token" + (f" and read{s} the {mixer.seen()}" if mixer.seen() else "")


# ---- the map that a linear layer implies


def softmax_caption(weights: np.ndarray, name: str) -> Caption:
    """Write the caption of a softmax head's weights (T, T)."""
    sums = _spans(weights.sum(-1))
    to_sink = " What a row lacks from 1 goes to a learned sink." if weights.sum(-1).min() < 1 - SUM_TOLERANCE else ""
    return Caption(
        f"{name}, softmax: each row sums to {sums}",
        f"Each row is a query, each column a key. No weight is negative.{to_sink}",
        f"Heat map of the attention weights of {name}; the rows sum to {sums}.",
    )


def implied_caption(weights: np.ndarray, difference: float, taps: int, name: str) -> Caption:
    """Write the caption of a linear head's effective weights (T, T). taps: of the convolution that v has passed."""
    lower = weights[np.tri(len(weights), dtype=bool)]
    below, sums = percent(float((lower < 0).mean()), 0), _spans(weights.sum(-1))
    mixed = (
        f" v has passed a short convolution first, so a column mixes up to {count(taps, 'token')}." if taps > 1 else ""
    )
    return Caption(
        f"{name}, linear: rows sum to {sums}, {below} of weights negative",
        "Effective weights W: W times the values v is what the layer read from its state. A negative weight subtracts "
        f"a value: no softmax is there to prevent it.{mixed}",
        f"Heat map of the effective weights of {name}; {below} of them are negative, and the rows sum to {sums}.",
        more=f"W v and what the layer read from its state differ by at most {printed(difference)}, over all tokens.",
    )


def _spans(values: np.ndarray) -> str:
    low, high = (significant(round(float(v), 5)).replace("-", "−") for v in (values.min(), values.max()))
    return span(low, high)


# ---- the state


def state_caption(written: Written, labels: Sequence[str], name: str, kept: str) -> Caption:
    """Write the caption of the state as it is written. kept: `kept_text`."""
    (T, D), V = written.k.shape, written.v.shape[1]
    added, removed, state = written.norms().T
    title = f"{name}: {D} × {V} = {D * V:,} numbers after any of {count(T, 'token')}"
    return Caption(
        title,
        "Each row is a channel of the keys, each column one of the values. A token first multiplies S by its decay α, "
        f"then adds k ⊗ β (v − Sᵀk) with its write strength β. {kept}",
        f"{title}. Three heat maps of {D} × {V} cells: the state, what the token added, what decay removed.",
        table={
            "after token": list(range(T)),
            "token": list(labels),
            "norm of what it added": added.round(6).tolist(),
            "norm of what decay removed": removed.round(6).tolist(),
            "norm of the state": state.round(6).tolist(),
            "numbers of the state": [D * V] * T,
        },
    )


def kept_text(config: ModelConfig, layer: int) -> str:
    """Compare the bytes that a layer with a state keeps with the cache of a softmax layer of the same model."""
    size = state_bytes_of(config.layers[layer].mixer)
    said = f"All heads of layer {layer} keep {size:,} B whatever the length"
    for i, other in enumerate(config.layers):
        if other.shares_cache_of is None and other.mixer.attends and other.mixer.window is None:
            each = KEPT_BYTES * int(cached_in_layer(other.mixer).value)
            return f"{said}; layer {i} caches {each:,} B per token, more from {count(size // each + 1, 'token')} on."
    return f"{said}."


# ---- what it remembers


def recall(written: Written, labels: Sequence[str], t: int, name: str, colour: str) -> Drawing:
    """Draw how wrong each key's value is when it is read from the state after token t, and from an uncorrected sum."""
    k, v = written.k[: t + 1], written.v[: t + 1]
    own, plain = recall_errors(written.state(t), k, v), recall_errors(written.plain_state(t), k, v)
    at = list(range(t + 1))
    figure = base_figure(320, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    looks = {"gated delta rule": (own, colour, "circle"), "plain linear attention": (plain, NEUTRAL, "diamond-open")}
    for rule, (errors, hue, symbol) in looks.items():
        figure.add_scatter(
            x=at, y=errors.clip(LEAST_ERROR).tolist(), name=rule, mode="lines+markers",
            line={"color": hue, "width": 1, "dash": "solid" if hue == colour else "dot"},
            marker={"size": 8, "symbol": symbol, "color": hue}, hovertemplate="%{y:.3g}",
        )  # fmt: skip
    figure.add_shape(type="line", x0=0, x1=1, xref="paper", y0=1, y1=1, line={"color": NEUTRAL, "width": 1.5})
    figure.update_xaxes(**few_ticks(labels[: t + 1], 30), showgrid=False, tickangle=-90)
    figure.update_yaxes(title="‖Sᵀk − v‖ / ‖v‖", type="log", tickformat="~g", dtick=1)
    n_right = int((own < 1).sum())
    title = f"{name} reads {n_right} of {count(t + 1, 'value')} better than an empty state"
    return Drawing(
        figure,
        title=title,
        note=f"Each key up to token {t}, {quoted(labels[t])}, reads the state after it, the newest at the right. Below "
        "the line at 1 it reads its own value better than an empty state would; the axis is logarithmic.",
        more="k and v are those of the layer, after its convolution. Plain linear attention gets the same k and v and "
        "adds k ⊗ v without decay, β or correction (arXiv 2412.06464).",
        alt=f"{title}. The newest value is read with an error of {significant(float(own[-1]))}, the oldest with "
        f"{significant(float(own[0]))}; the median of a plain sum is {significant(float(np.median(plain)))}.",
        table={
            "position": at, "token": list(labels[: t + 1]), "age": [t - i for i in at],
            "error, gated delta rule": own.round(6).tolist(), "error, plain sum": plain.round(6).tolist(),
        },
    )  # fmt: skip


def repeated(written: Written, labels: Sequence[str], name: str, colour: str) -> Drawing | None:
    """Draw what a key reads that comes again with another value, after the later one; None for a single token."""
    found = most_repeated(written.k, written.v)
    if found is None:
        return None
    both = [found.earlier, found.later]
    k, v = written.k[[found.later] * 2], written.v[both]
    states = {"gated delta rule": written.state(found.later), "plain sum": written.plain_state(found.later)}
    errors = {rule: recall_errors(S, k, v).tolist() for rule, S in states.items()}  # from the older and newer value
    names = [f"from the value of {'older' if at == both[0] else 'newer'} token {at}" for at in both]
    figure = base_figure(240, barmode="group", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    for i, look in enumerate((NEUTRAL, colour)):
        distances = [pair[i] for pair in errors.values()]
        figure.add_bar(
            x=list(errors), y=distances, name=names[i], marker={"color": look},
            text=[significant(d) for d in distances], textposition="outside", cliponaxis=False,
        )  # fmt: skip
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(title="distance / ‖v‖", rangemode="tozero")
    own, summed = errors["gated delta rule"][1], errors["plain sum"][1]
    title = f"A key that comes again: its newer value is {significant(own)} off, from a plain sum {significant(summed)}"
    tokens = " and ".join(f"{at} {quoted(labels[at])}" for at in both)
    return Drawing(
        figure,
        title=title,
        note=f"Tokens {tokens} have keys of cosine {_cosine(found.of_keys)} and values of cosine "
        f"{_cosine(found.of_values)}. The delta rule writes the difference from what is held; a sum adds to it.",
        more="Read with the later key, right after it was written. Of the pairs whose keys are about as similar as any "
        "two of this text, the one drawn has the most different values.",
        alt=f"{title}. {name}, tokens {both[0]} and {both[1]}.",
        table={"rule": list(errors), **{names[i]: [pair[i] for pair in errors.values()] for i in (0, 1)}},
    )


def _cosine(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
