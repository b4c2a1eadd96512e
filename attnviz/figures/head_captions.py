"""Captions of one head: of its map, and of one query's path from score to weight.

No plotly: the heads page shows these beside a canvas, and the charts of `heads.py` have the same captions.

T query tokens, S key tokens, D head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attnviz.equations import Equation, Value, function
from attnviz.figures.drawing import Caption, quoted
from attnviz.figures.markup import meanings
from attnviz.figures.numbers import DIGITS, form, printed, rounded
from attnviz.figures.weight_formula import softmax_of
from attnviz.phrases import count, in_quotes

if TYPE_CHECKING:
    from attnviz.analysis.merging import Merged
    from attnviz.mechanisms import Mixer
    from attnviz.trace import Trace

STAGES = ("1 · scores", "2 · masked", "3 · weights")
LONGEST_TOKEN = 40  # characters, in a title
UNMASKED_STAGES = ("1 · scores", "2 · weights")
SCALES = "root", "linear", "log"  # of colour, as in head_view.html; the first is the default
MERGED = (
    "The tokens of one character are merged: the weights on its keys are summed, the rows of its queries are averaged "
    "(as in Clark et al., 2019, for split words). "
)
SUMS_TO_ONE = 0.9999  # a sum of weights below this is less than 1, and not rounded
LOWEST_TOP = 1e-3  # lowest end of a colour scale: ten units of the last decimal printed


def stages_of(allowed: np.ndarray) -> tuple[str, ...]:
    """Return the stages from score to weight: three, or two where no key of any query is masked. allowed: (T, S)."""
    return UNMASKED_STAGES if allowed.all() else STAGES


def shortened(label: str, longest: int) -> str:
    return label if len(label) <= longest else label[: longest - 1] + "…"


def largest_but_first(weights: np.ndarray) -> float:
    """Return the end of the colour scale of a map (T, S) that excludes the first key, the usual attention sink."""
    return max(float(np.abs(weights[:, 1:]).max(initial=0.0)), LOWEST_TOP)


def decades(top: float) -> float:
    """Return the powers of ten that the logarithmic scale covers: from `top` down to the last decimal printed."""
    return DIGITS + math.log10(top)


def share_at(scale: str, along: np.ndarray, top: float) -> np.ndarray:
    """Return the shares of `top` whose colours are at `along`, 0 to 1, on a scale of SCALES."""
    return {"root": along**2, "linear": along, "log": 10 ** (decades(top) * (along - 1))}[scale]


def map_caption(
    trace: Trace,
    labels: Sequence[str],
    layer: int,
    head: int,
    *,
    scale: str = "root",
    exclude_first: bool = False,
    merged: Merged | None = None,
    key_labels: Sequence[str] | None = None,
) -> Caption:
    """Write the caption of one head's map.

    scale: of colour; exclude_first: first key not in the scale; merged: the maps that are drawn instead of the trace's;
    key_labels: S labels, if the keys are another text's.
    """
    one, maps = trace.layers[layer], (merged or trace).layers[layer]
    weights, allowed = maps.weights_of(head), maps.allowed  # (T, S) each
    drawn = merged.labels if merged else labels
    positions = merged.positions if merged else [str(i) for i in range(len(labels))]
    formula, line, legend = one.mixer.map_equation(head) or softmax_of(
        one.mixer, head, one.allowed.shape, not one.allowed.all()
    )
    read, keys = one.mixer.read_by(head), drawn if key_labels is None else key_labels
    found = f" reads {read}{_from_layer(trace, layer)}" if read else f": {_largest(weights, drawn, keys)}"
    return Caption(
        f"Layer {layer}, head {head}{found}",
        f"{MERGED if merged else ''}{_map_note(one.mixer, weights, allowed, scale, exclude_first)}",
        _map_alt(one.mixer, weights, allowed, drawn, keys, positions, layer, head),
        formula,
        line=line,
        legend=legend,
    )


def _largest(weights: np.ndarray, labels: Sequence[str], key_labels: Sequence[str]) -> str:
    """Name the largest weight of a map (T, S): "0.9312 from query 4 “x” to key 7 “y”"."""
    q, k = map(int, np.unravel_index(int(weights.argmax()), weights.shape))
    asks, answers = (in_quotes(shortened(label, LONGEST_TOKEN)) for label in (labels[q], key_labels[k]))
    return f"{printed(weights[q, k])} from query {q} {asks} to key {k} {answers}"


def _from_layer(trace: Trace, layer: int) -> str:
    """Name the layer whose keys and values this one reads; "" where they are its own."""
    source = trace.config.layers[layer].shares_cache_of
    return "" if source is None else f", in the cache of layer {source}"


def path_caption(
    trace: Trace,
    labels: Sequence[str],
    layer: int,
    head: int,
    query: int,
    key: int,
    name: Callable[[str], str] = in_quotes,
    key_labels: Sequence[str] | None = None,
) -> Caption:
    """Write the caption of one query's scores, masked scores and weights; the equation is that of the key.

    name: quotes a label and escapes it for the place where the title is shown. key_labels: S labels, if the keys are
    another text's.
    """
    one, keys = trace.layers[layer], labels if key_labels is None else key_labels
    scores, weights, allowed = one.scores_of(head)[query], one.weights[head, query], one.allowed[query]  # (S,) each
    asks, answers = (
        f"{i} {name(shortened(label, LONGEST_TOKEN))}" for i, label in ((query, labels[query]), (key, keys[key]))
    )
    equation = weight_equation(scores, weights, allowed, query, key, one.sink_logit_of(head))
    return Caption(
        f"From score to weight: query {asks}, key {answers}: " + (printed(weights[key]) if allowed[key] else "masked"),
        _path_note(
            one.mixer.scale_text, int(allowed.sum()), float(weights.sum(dtype=np.float64)), bool(one.allowed.all())
        ),
        _path_alt(scores, weights, allowed, labels[query], keys, query, key, len(stages_of(one.allowed))),
        equation.tex() if equation else "",
        line=equation.text() if equation else "",
        legend=meanings(equation) if equation else "",
    )


def path_numbers(
    trace: Trace, labels: Sequence[str], layer: int, head: int, query: int, key: int,
    key_labels: Sequence[str] | None = None,
) -> Caption:  # fmt: skip
    """Write the same caption, escaped for the page, with a table of the query's scores and weights by key."""
    one, keys = trace.layers[layer], labels if key_labels is None else key_labels
    scores, weights, allowed = one.scores_of(head)[query], one.weights[head, query], one.allowed[query]  # (S,) each
    table = {
        "key": list(range(len(keys))),
        "token": list(keys),
        "score": scores.astype(np.float64).tolist(),
        "after the mask": np.where(allowed, scores, -np.inf).astype(np.float64).tolist(),
        "weight": weights.astype(np.float64).tolist(),
    }
    return replace(path_caption(trace, labels, layer, head, query, key, quoted, key_labels), table=table)


def weight_equation(
    scores: np.ndarray, weights: np.ndarray, allowed: np.ndarray, query: int, key: int, sink: float | None = None
) -> Equation | None:
    """Return the softmax of one row (S,) at one key, numerator and denominator divided by e to the largest score.

    sink: a learned sink logit, one more term of the denominator. None if the key is masked: it has no weight.
    """
    if not allowed[key]:
        return None
    row = scores[allowed].astype(np.float64)
    what = "key" if allowed.all() else "unmasked key"
    unmasked = f"only {what}" if len(row) == 1 else count(len(row), what)
    keys, at = f"{unmasked} of query {query}", f"{query},{key}"
    score = Value(
        _number(scores[key]),
        f"s({query}, {key})",
        f"score of query {query} and key {key}",
        latex=f"s_{{{at}}}",
        **form(scores[key]),
    )
    largest = Value(_number(row.max()), "m", f"largest score of the {keys}", DIGITS)
    terms, over = np.exp(row - row.max()), f"sum of exp(score − m) over the {keys}"
    if sink is not None:
        terms, over = np.append(terms, np.exp(sink - row.max())), f"{over} and the sink logit, {printed(sink)}"
    total = Value(_number(terms.sum()), "Z", over, DIGITS)
    return Equation(
        function("exp", score - largest) / total, f"a({query}, {key})", f"a_{{{at}}}", **form(weights[key]),
        computed=_number(weights[key]), meaning=f"weight of query {query} and key {key}",
    )  # fmt: skip


def _number(value: float) -> float:
    return float(rounded(value))


def _path_note(root: str, n_allowed: int, total: float, unmasked: bool) -> str:
    if unmasked:
        return f"q·k / {root}, then the softmax over {count(n_allowed, 'key')}{_summing_to(total)}."
    if not n_allowed:
        return "Every key is masked for this query: it has scores but no weights."
    return (
        f"q·k / {root}, then the mask, then the softmax over {count(n_allowed, 'key')}{_summing_to(total)}. Grey keys "
        "are masked: they have a score but no weight."
    )


def _summing_to(total: float) -> str:
    """State what a query's weights sum to: less than 1 with a learned sink."""
    if total > SUMS_TO_ONE:
        return "; the weights sum to 1"
    return (
        f" and the head's learned sink logit; the weights sum to {printed(total)}, and {printed(1 - total)} goes to no "
        "token"
    )


def _path_alt(
    scores: np.ndarray, weights: np.ndarray, allowed: np.ndarray, asks: str, labels: Sequence[str], query: int,
    key: int, n_stages: int,
) -> str:  # fmt: skip
    n, unmasked = ("Three", f"{_of_unmasked(int(allowed.sum()))}, ") if n_stages == len(STAGES) else ("Two", "")
    rows = (
        f"{n} rows of bars for query {query} “{asks}”, one bar per key: {count(len(scores), 'score')} "
        f"{_ends(printed(scores.min()), printed(scores.max()))}, {unmasked}and weights"
    )
    if not allowed.any():
        return f"{rows}, of which there are none."
    best = int(weights.argmax())
    selected = "masked" if not allowed[key] else printed(weights[key])
    also = f"; key {key} “{labels[key]}”: {selected}" if key != best else ""
    return f"{rows}; the largest, {printed(weights[best])}, is on key {best} “{labels[best]}”{also}."


def _ends(low: str, high: str) -> str:
    return f"of {low}" if low == high else f"from {low} to {high}"


def _of_unmasked(n: int) -> str:
    return {0: "no key is unmasked", 1: "that of the one unmasked key"}.get(n, f"those of the {n} unmasked keys")


def _map_note(mixer: Mixer, weights: np.ndarray, allowed: np.ndarray, scale: str, exclude_first: bool) -> str:
    sizes = np.abs(weights)
    largest = float(sizes[:, 1:].max(initial=0.0))
    parts = [
        mixer.maps_note
        or f"Each row is a query, each column a key. {sums(weights, allowed)}"
        + ("" if allowed.all() else f" {mixer.masked_note(weights.shape[-1])}")
    ]
    if scale == "root":
        parts.append("Colour is on a square-root scale.")
    if scale == "log":
        parts.append(f"Colour is logarithmic; weights up to {10.0**-DIGITS:g} look like zero.")
    if exclude_first:
        first = float(sizes[:, 0].sum(dtype=np.float64) / sizes.sum(dtype=np.float64))
        parts.append(
            f"The first token, in grey, is excluded from the colour scale: it gets {first:.0%} of the weight. "
            + (
                f"Colour ends at {printed(largest)}, the largest other weight."
                if largest >= LOWEST_TOP
                else f"Colour ends at {LOWEST_TOP:g}."
            )
        )
    return " ".join(parts)


def sums(weights: np.ndarray, allowed: np.ndarray) -> str:
    """State what the rows of weights (T, S) sum to; a fully masked row has no weights. allowed: (T, S).

    Where they sum to less than 1, a learned sink takes the rest.
    """
    some = allowed.any(-1)
    n_empty, total = int((~some).sum()), float(weights[some].sum(-1, dtype=np.float64).mean()) if some.any() else 1.0
    if total < SUMS_TO_ONE:
        return (
            f"The weights of a row sum to {total:.0%} on average: the rest, {1 - total:.0%}, is the share of the "
            "head's learned sink, which goes to no token."
        )
    if not n_empty:
        return "The weights of each row sum to 1."
    return f"The weights of each row sum to 1, except for {count(n_empty, 'row')} in which every key is masked."


def _map_alt(
    mixer: Mixer, weights: np.ndarray, allowed: np.ndarray, labels: Sequence[str], key_labels: Sequence[str],
    positions: Sequence[str], layer: int, head: int,
) -> str:  # fmt: skip
    start = f"Heat map of layer {layer}, head {head}: {count(len(weights), 'query row')} of {mixer.maps}. "
    if weights.shape == (1, 1):
        return start + "The only token attends to itself."
    if key_labels is not labels:
        return f"{start}The largest weight is {_largest(weights, labels, key_labels)}."
    q, k = largest_of_choice(np.abs(weights), allowed)
    after = "After the first row, the" if first_of_choice(allowed) else "The"
    return start + (
        f"{after} largest weight is {printed(weights[q, k])}, "
        f"from query {positions[q]} “{labels[q]}” to key {positions[k]} “{labels[k]}”."
    )


def first_of_choice(allowed: np.ndarray) -> int:
    """Return the first row of a map (T, S) to search: 1 where query 0 can only attend to one key, as when causal."""
    return int(len(allowed) > 1 and allowed[0].sum() < 2)


def largest_of_choice(values: np.ndarray, allowed: np.ndarray) -> tuple[int, int]:
    """Return query and key of the largest value (T, S), of rows with more than one key to choose from."""
    first = first_of_choice(allowed)
    q, k = np.unravel_index(int(values[first:].argmax()), values[first:].shape)
    return int(q) + first, int(k)
