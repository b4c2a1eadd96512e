"""What is said of one head: of its map, and of the way of one query from score to weight. No plotly: the heads page
writes this beside a canvas, and the charts of `heads.py` say the same.

T query tokens, S key tokens, D head_dim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.figures.drawing import Words
from attnviz.figures.phrases import count, listed

if TYPE_CHECKING:
    from attnviz.trace import Trace

STAGES = ("1 · scores", "2 · masked", "3 · weights")
DECADES = 4  # the log scale ends at a ten-thousandth
LONGEST_TOKEN = 40  # characters, in a title


def shortened(label: str, longest: int) -> str:
    return label if len(label) <= longest else label[: longest - 1] + "…"


def largest_but_first(weights: np.ndarray) -> float:
    """Where the colours of a map (T, S) end whose first key, the usual sink, is set aside."""
    return max(float(weights[:, 1:].max(initial=0.0)), 1e-6)


def map_words(
    trace: Trace, labels: Sequence[str], layer: int, head: int, *, log: bool = False, first_aside: bool = False
) -> Words:
    """The words for the map of one head. log: shaded by the logarithm; first_aside: the first key out of the scale."""
    weights = trace.weights[layer, head]  # (T, S)
    return Words(
        f"Layer {layer}, head {head} reads {_reads(trace, head)}",
        _map_note(weights, log, first_aside),
        _map_alt(weights, labels, layer, head),
        _weights_formula(trace, head),
        line=_weights_line(trace, head),
    )


def path_words(
    trace: Trace, labels: Sequence[str], layer: int, head: int, query: int, name: Callable[[str], str] = "“{}”".format
) -> Words:
    """The words for one query's scores, what the mask leaves of them, and its weights.

    name: puts a label in quotation marks, so that it is safe where the title goes.
    """
    scores, weights = trace.scores_of(layer, head)[query], trace.weights[layer, head, query]  # (S,) each
    allowed = trace.allowed[layer, query]  # (S,)
    best, n_allowed = int(weights.argmax()), int(allowed.sum())
    return Words(
        f"From score to weight: query {query} {name(shortened(labels[query], LONGEST_TOKEN))}",
        f"q·k / √{trace.config.head_dim}, then the mask, then the softmax: {count(n_allowed, 'number')} that "
        f"{'adds' if n_allowed == 1 else 'add'} up to {weights.sum():.3f}. Grey is not allowed: its score exists, its "
        "weight does not.",
        f"Three rows of bars for query {query} “{labels[query]}”, one bar a key: {count(len(scores), 'score')} "
        f"from {scores.min():.2f} to {scores.max():.2f}, the {n_allowed} that the mask keeps, and the weights; the "
        f"largest, {weights[best]:.2f}, is on key {best} “{labels[best]}”.",
        _softmax_formula(scores, weights, allowed, best) if n_allowed else "",
        line=_softmax_line(scores, weights, allowed, best) if n_allowed else "",
    )


def _reads(trace: Trace, head: int) -> str:
    """ "KV head 2, as head 4 does"."""
    if trace.config.attention == "mla":
        return "keys of its own, expanded from the latent that all heads share"
    kv_head_of = trace.config.layer.kv_head_of
    others = [h for h in range(len(kv_head_of)) if kv_head_of[h] == kv_head_of[head] and h != head]
    if not others:
        return f"KV head {kv_head_of[head]} alone"
    does = f"head {others[0]} does" if len(others) == 1 else f"heads {_range(others)} do"
    return f"KV head {kv_head_of[head]}, as {does}"


def _range(numbers: list[int]) -> str:
    """ "1, 2 and 3", and "1 to 7" where every one between is meant."""
    whole = len(numbers) > 3 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"{numbers[0]} to {numbers[-1]}" if whole else listed(numbers)


def _map_note(weights: np.ndarray, log: bool, first_aside: bool) -> str:
    top = largest_but_first(weights) if first_aside else 1.0
    parts = ["Row = query, column = key, and each row sums to 1. Grey is not allowed."]
    if log:
        parts.append(f"Colour is the logarithm: all below {top * 10.0**-DECADES:.2g} looks like nothing.")
    if first_aside:
        parts.append(
            f"The first token is set aside in grey: it takes {weights[:, 0].mean():.0%} of the weight, and that a sink "
            f"takes much is normal. Colour ends at {top:.2g}, the largest of the rest."
        )
    return " ".join(parts)


def _map_alt(weights: np.ndarray, labels: Sequence[str], layer: int, head: int) -> str:
    said = f"Heat map of layer {layer}, head {head}: {count(len(weights), 'query row')} of attention weights. "
    if len(weights) == 1:
        return said + "The only token attends to itself."
    q, k = np.unravel_index(int(weights[1:].argmax()), weights[1:].shape)  # row 0 can only look at itself
    return said + (
        f"After the first row, the largest weight is {weights[q + 1, k]:.2f}, "
        f"from query {q + 1} “{labels[q + 1]}” to key {k} “{labels[k]}”."
    )


def _weights_formula(trace: Trace, head: int) -> str:
    T, kv_head, D = _numbers(trace, head)
    logits = rf"\frac{{Q_{{{head}}} K_{{{kv_head}}}^\top}}{{\sqrt{{{D}}}}} + M"
    return rf"A = \mathrm{{softmax}}\left({logits}\right) \in \mathbb{{R}}^{{{T} \times {T}}}"


def _weights_line(trace: Trace, head: int) -> str:
    T, kv_head, D = _numbers(trace, head)
    return f"A = softmax(Q{_low(head)} K{_low(kv_head)}ᵀ / √{D} + M), {T} × {T} numbers"


def _numbers(trace: Trace, head: int) -> tuple[int, int, int]:
    return trace.weights.shape[2], trace.config.layer.kv_head_of[head], trace.config.head_dim


def _softmax_formula(scores: np.ndarray, weights: np.ndarray, allowed: np.ndarray, best: int) -> str:
    """The largest weight with the numbers put in, numerator and denominator divided by its own e^s."""
    total, own = _total_and_own(scores, allowed, best)
    return rf"a_{{{best}}} = \frac{{1}}{{\sum_j e^{{s_j - {own}}}}} = \frac{{1}}{{{total:.3f}}} = {weights[best]:.3f}"


def _softmax_line(scores: np.ndarray, weights: np.ndarray, allowed: np.ndarray, best: int) -> str:
    total, own = _total_and_own(scores, allowed, best)
    return f"a{_low(best)} = 1 / Σⱼ exp(sⱼ − {own}) = 1 / {total:.3f} = {weights[best]:.3f}"


def _total_and_own(scores: np.ndarray, allowed: np.ndarray, best: int) -> tuple[float, str]:
    total = float(np.exp(scores[allowed].astype(np.float64) - scores[best]).sum())
    return total, f"{scores[best]:.2f}" if scores[best] >= 0 else f"({scores[best]:.2f})"


def _low(n: int) -> str:
    """A whole number as a subscript."""
    return str(n).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
