"""What is said of one head: of its map, and of the way of one query from score to weight. No plotly: the heads page
writes this beside a canvas, and the charts of `heads.py` say the same.

T query tokens, S key tokens, D head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.equations import Equation, Value, function
from attnviz.figures.drawing import Caption, quoted
from attnviz.figures.numbers import DIGITS, printed, rounded
from attnviz.figures.phrases import count, listed, meanings

if TYPE_CHECKING:
    from attnviz.analysis.looking import Found
    from attnviz.trace import Trace

STAGES = ("1 · scores", "2 · masked", "3 · weights")
LONGEST_TOKEN = 40  # characters, in a title
LOWEST_TOP = 1e-3  # a colour scale ends no lower: ten steps of what is printed


def shortened(label: str, longest: int) -> str:
    return label if len(label) <= longest else label[: longest - 1] + "…"


def largest_but_first(weights: np.ndarray) -> float:
    """Where the colour scale of a map (T, S) ends that excludes the first key, the usual attention sink."""
    return max(float(weights[:, 1:].max(initial=0.0)), LOWEST_TOP)


def decades(top: float) -> float:
    """How many powers of ten the logarithmic scale covers: from `top` down to the last decimal that is printed."""
    return DIGITS + math.log10(top)


def map_caption(
    trace: Trace, labels: Sequence[str], layer: int, head: int, *, log: bool = False, exclude_first: bool = False
) -> Caption:
    """Write the caption of one head's map. log: logarithmic colours; exclude_first: the first key out of the scale."""
    weights, allowed = trace.weights[layer, head], trace.allowed[layer]  # (T, S) each
    return Caption(
        f"Layer {layer}, head {head} reads {_reads(trace, head)}",
        _map_note(weights, allowed, log, exclude_first),
        _map_alt(weights, labels, layer, head),
        _weights_formula(trace, head),
        line=_weights_line(trace, head),
        legend=_weights_legend(trace, head),
    )


def path_caption(
    trace: Trace,
    labels: Sequence[str],
    layer: int,
    head: int,
    query: int,
    key: int,
    name: Callable[[str], str] = "“{}”".format,
) -> Caption:
    """Write the caption of one query's scores, what the mask leaves, and its weights; the equation is the key's.

    name: puts a label in quotation marks, so that it is safe where the title goes.
    """
    scores, weights = trace.scores_of(layer, head)[query], trace.weights[layer, head, query]  # (S,) each
    allowed = trace.allowed[layer, query]  # (S,)
    asks, answers = (f"{i} {name(shortened(labels[i], LONGEST_TOKEN))}" for i in (query, key))
    equation = weight_equation(scores, weights, allowed, query, key)
    return Caption(
        f"From score to weight: query {asks}, key {answers}: " + (printed(weights[key]) if allowed[key] else "masked"),
        _path_note(trace.config.scale_text, int(allowed.sum())),
        _path_alt(scores, weights, allowed, labels, query),
        equation.tex() if equation else "",
        line=equation.text() if equation else "",
        legend=meanings(equation) if equation else "",
    )


def weight_equation(
    scores: np.ndarray, weights: np.ndarray, allowed: np.ndarray, query: int, key: int
) -> Equation | None:
    """The softmax of one row (S,) for one key, numerator and denominator divided by e to the row's largest score.

    None where the key is masked: it has no weight.
    """
    if not allowed[key]:
        return None
    row = scores[allowed].astype(np.float64)
    keys, at = f"{count(len(row), 'unmasked key')} of query {query}", f"{query},{key}"
    score = Value(
        _number(scores[key]), f"s{low(at)}", f"score of query {query} and key {key}", DIGITS, tex=f"s_{{{at}}}"
    )
    largest = Value(_number(row.max()), "m", f"largest score of the {keys}", DIGITS)
    total = Value(_number(np.exp(row - row.max()).sum()), "Z", f"sum of exp(score − m) over the {keys}", DIGITS)
    return Equation(
        function("exp", score - largest) / total, f"a{low(at)}", f"a_{{{at}}}", digits=DIGITS,
        computed=_number(weights[key]), meaning=f"weight of query {query} and key {key}",
    )  # fmt: skip


def _number(value: float) -> float:
    return float(rounded(value))


def _path_note(root: str, n_allowed: int) -> str:
    if not n_allowed:
        return "Every key is masked for this query: it has scores and no weights."
    return (
        f"q·k / {root}, then the mask, then the softmax over {count(n_allowed, 'key')}; the weights sum to 1. Grey "
        "keys are masked: they have a score and no weight."
    )


def _path_alt(scores: np.ndarray, weights: np.ndarray, allowed: np.ndarray, labels: Sequence[str], query: int) -> str:
    said = (
        f"Three rows of bars for query {query} “{labels[query]}”, one bar per key: {count(len(scores), 'score')} from "
        f"{printed(scores.min())} to {printed(scores.max())}, the {int(allowed.sum())} of unmasked keys, and weights"
    )
    if not allowed.any():
        return f"{said}, of which there are none."
    best = int(weights.argmax())
    return f"{said}; the largest, {printed(weights[best])}, is on key {best} “{labels[best]}”."


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


def _map_note(weights: np.ndarray, allowed: np.ndarray, log: bool, exclude_first: bool) -> str:
    largest = float(weights[:, 1:].max(initial=0.0))
    parts = [f"Each row is a query, each column a key. {sums(allowed)} Grey cells are masked."]
    if log:
        parts.append(f"Colour is logarithmic; weights up to {10.0**-DIGITS:g} look like zero.")
    if exclude_first:
        first = float(weights[:, 0].sum(dtype=np.float64) / weights.sum(dtype=np.float64))
        parts.append(
            f"The first token, in grey, is excluded from the colour scale: it gets {first:.0%} of the weight. "
            + (
                f"Colour ends at {printed(largest)}, the largest other weight."
                if largest >= LOWEST_TOP
                else f"Colour ends at {LOWEST_TOP:g}."
            )
        )
    return " ".join(parts)


def sums(allowed: np.ndarray) -> str:
    """What the rows of weights (T, S) sum to, as a sentence; a row that is masked as a whole has no weights."""
    n_empty = int((~allowed.any(-1)).sum())
    if not n_empty:
        return "The weights of each row sum to 1."
    return f"The weights of each row sum to 1, except for {count(n_empty, 'row')} in which every key is masked."


def _map_alt(weights: np.ndarray, labels: Sequence[str], layer: int, head: int) -> str:
    said = f"Heat map of layer {layer}, head {head}: {count(len(weights), 'query row')} of attention weights. "
    if len(weights) == 1:
        return said + "The only token attends to itself."
    q, k = map(
        int, np.unravel_index(int(weights[1:].argmax()), weights[1:].shape)
    )  # a causal row 0 can only look at itself
    return said + (
        f"After the first row, the largest weight is {printed(weights[q + 1, k])}, "
        f"from query {q + 1} “{labels[q + 1]}” to key {k} “{labels[k]}”."
    )


def _weights_formula(trace: Trace, head: int) -> str:
    q, k = f"Q_{{{head}}}", f"K_{{{trace.config.layer.kv_head_of[head]}}}"
    inside = rf"\tfrac{{{q} {k}^\top}}{{\sqrt{{{_root_letter(trace)}}}}}"
    if trace.config.attention_softcap is not None:
        inside = rf"c \tanh\left(\tfrac{{1}}{{c}} {inside}\right)"
    return rf"A = \mathrm{{softmax}}\left({inside} + M\right)"


def _root_letter(trace: Trace) -> str:
    return "D" if trace.config.score_root == trace.config.head_dim else "n"


def _weights_line(trace: Trace, head: int) -> str:
    """The same as plain text."""
    inside = f"Q{low(head)} K{low(trace.config.layer.kv_head_of[head])}ᵀ / √{_root_letter(trace)}"
    if trace.config.attention_softcap is not None:
        inside = f"c · tanh({inside} / c)"
    return f"A = softmax({inside} + M)"


def _weights_legend(trace: Trace, head: int) -> str:
    T, kv_head, D = trace.weights.shape[2], trace.config.layer.kv_head_of[head], trace.config.head_dim
    q, k = f"Q{low(head)}", f"K{low(kv_head)}"
    keys = f"expanded keys of head {head}" if trace.config.attention == "mla" else f"keys of KV head {kv_head}"
    root = f"D = {D}: head_dim"
    if trace.config.score_root != D:
        root = f"n = {trace.config.score_root:g}: query_pre_attn_scalar"
    cap = trace.config.attention_softcap
    capped = "" if cap is None else f"c = {cap:g}: soft cap; "
    return (
        f"A: the {T} × {T} weights; {q}: queries of head {head}; {k}: {keys}; {root}; {capped}M: 0, or −∞ where masked."
    )


def low(n: int | str) -> str:
    """A whole number as a subscript."""
    return str(n).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


WHY = {  # what makes a key one of the role's, after "key 7 “found”"
    "induction": "which followed an earlier {query}",
    "duplicate token": "an earlier occurrence of the same token",
    "previous token": "the token before it",
}


def shown_by_role(found: Found, labels: Sequence[str], role: str, n_heads: int) -> str:
    """Where to look for a role, for markdown: the head with the largest score on this text, and one cell of it."""
    assert found.share
    name, share = role.replace(" ", "-"), found.share
    why = WHY[role].format(query=quoted(shortened(labels[found.query], LONGEST_TOKEN)))
    return (
        f"**Look at layer {found.layer}, head {found.head}**, which of {count(n_heads, 'head')} has the largest {name} "
        f"score on this text ({share.weight:.2f}; {share.chance:.2f} by chance): {_gives(found, labels)}, {why}."
    )


def shown_by_pair(found: Found, labels: Sequence[str], what: str, n_heads: int) -> str:
    """Where to look for a relation between tokens, for markdown: the largest weight on it in any head."""
    return (
        f"**Look at layer {found.layer}, head {found.head}**: {_gives(found, labels)}, the largest weight {what} in "
        f"{count(n_heads, 'head')}."
    )


def _gives(found: Found, labels: Sequence[str]) -> str:
    query, key = (f"{i} {quoted(shortened(labels[i], LONGEST_TOKEN))}" for i in (found.query, found.key))
    return f"query {query} gives {printed(found.weight)} of its weight to key {key}"
