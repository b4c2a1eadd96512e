"""Figures of a head's output, of averages over heads, and of differences between two maps.

T query tokens, S key tokens, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.analysis.values import Writes
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.head_captions import first_of_choice, largest_of_choice, shortened
from attnviz.figures.heads import MAX_CELLS, joined, map_height, matrix_table
from attnviz.figures.numbers import DIGITS, printed
from attnviz.figures.theme import BROWN, DIVERGING, FAINT, NEUTRAL, OF_SEVERAL, OUTLINE, PETROL, base_figure
from attnviz.figures.token_maps import (
    BARE,
    FIXED,
    MAX_X_TICKS,
    add_cells,
    add_colourbar,
    add_frames,
    add_masked,
    blocks,
    few_ticks,
    room_for,
    span_text,
    token_map_figure,
    token_text,
)
from attnviz.phrases import count

BLANK = "In the table, masked cells are blank."
MAX_TOKENS = 6  # tokens with raised logits, and as many with lowered ones


def value_map(
    writes: Writes, allowed: np.ndarray, labels: Sequence[str], scale: list, query: int, *, projected: bool
) -> Drawing:
    """Draw the weights times the length of each key's value, or with `projected` of W_o times that value."""
    values = writes.projected if projected else writes.weighted  # (T, S)
    what = "‖weight × W_o value‖" if projected else "‖weight × value‖"
    q, k = (int(i) for i in np.unravel_index(int(values.argmax()), values.shape))
    figure = _map(np.where(allowed, values, np.nan), allowed, labels, scale, (0.0, _top(values)), what)
    add_frames(figure, len(labels), query, None)
    note = (
        "Each key's weight times the length of its value after the output projection W_o: how much it adds to the "
        "residual stream."
        if projected
        else "Each key's weight times the length of its value vector: a large weight on a short value contributes "
        "little."
    )
    return Drawing(
        figure,
        title=f"Largest {what}: {printed(values[q, k])}, from query {q} to key {k}",
        note=f"Query {q} {_name(labels, q)}, key {k} {_name(labels, k)}. {note}{_masked(allowed)}"
        f"{joined(labels, MAX_CELLS, 'numbers')}",
        more=f"As Kobayashi et al. (arXiv 2004.10102), without a bias. {_blank(allowed)}".rstrip()
        if projected
        else _blank(allowed),
        alt=f"Heat map of {count(len(values), 'query row')}. {what} is largest from query {q} “{labels[q]}” to key {k} "
        f"“{labels[k]}”: {printed(values[q, k])}.",
        table=matrix_table(np.where(allowed, values, np.nan), labels),
    )


def output_norms(writes: Writes, labels: Sequence[str], query: int, name: str, colour: str) -> Drawing:
    """Draw ‖output‖ of one head at each token; the selected query's bar has the head's colour."""
    norms = writes.norms
    most = int(norms.argmax())
    figure = base_figure(
        230, showlegend=False, bargap=0.15,
        margin={"l": 44, "r": 8, "t": 8, "b": room_for(few_ticks(labels, MAX_X_TICKS)), "autoexpand": False},
    )  # fmt: skip
    figure.add_bar(
        x=np.arange(len(norms)), y=norms,
        marker={
            "color": [colour if i == query else FAINT for i in range(len(norms))],
            "line": OUTLINE | {"color": [colour if i == query else NEUTRAL for i in range(len(norms))]},
        },
        hovertext=[span_text(labels, i, i) for i in range(len(norms))],
        hovertemplate=f"%{{hovertext}}<br>norm %{{y:.{DIGITS}f}}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis={**FIXED, **few_ticks(labels, MAX_X_TICKS), "range": [-0.6, len(labels) - 0.4], "tickangle": -90},
        yaxis={"rangemode": "tozero", "nticks": 5, "automargin": False},
    )
    return Drawing(
        figure,
        title=f"{name} writes most at token {most} {_name(labels, most)}: norm {printed(norms[most])}",
        note=f"Norm of the vector that the head adds to the residual stream at each token, after W_o. Query {query} "
        f"{_name(labels, query)}: {printed(norms[query])}.",
        alt=f"Norm of the output of {name}: one bar per token; the longest, {printed(norms[most])}, at token {most} "
        f"“{labels[most]}”; at query {query} “{labels[query]}” it is {printed(norms[query])}.",
        table={"token": [f"{i} {label}" for i, label in enumerate(labels)], "norm": norms.tolist()},
    )


def logit_bars(effects: np.ndarray, vocabulary: Sequence[str], labels: Sequence[str], query: int, name: str) -> Drawing:
    """Draw the tokens whose logits the head's output at the query directly raises and lowers most."""
    order = np.argsort(-effects)
    shown = [int(i) for i in (*order[:MAX_TOKENS], *order[-MAX_TOKENS:])]
    up, down = shown[0], shown[-1]
    names = [vocabulary[i] for i in shown]
    figure = base_figure(60 + 22 * len(shown), showlegend=False, bargap=0.25)
    figure.add_bar(
        y=np.arange(len(shown)), x=effects[shown], orientation="h",
        marker={
            "color": [PETROL if effects[i] > 0 else BROWN for i in shown], "line": {"width": 0},
        },
        hovertext=[token_text(n, 40) for n in names], hovertemplate="%{hovertext}: %{x:+.4f}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "change of the logit minus the mean"}, "nticks": 5},
        yaxis={
            **BARE, "tickvals": list(range(len(shown))), "ticktext": [token_text(n) for n in names],
            "range": [len(shown) - 0.5, -0.5],
        },
    )  # fmt: skip
    raised, lowered = (f"{quoted(shortened(vocabulary[i], 30))} by {printed(abs(effects[i]))}" for i in (up, down))
    return Drawing(
        figure,
        title=f"At token {query} {_name(labels, query)}, {name} raises {raised}",
        note="What the head's output adds to each logit directly, minus the mean over the vocabulary; effects through "
        "later layers are not counted. "
        f"Lowered most: {lowered}.",
        more="The head's output goes through W_o, the final norm and the unembedding. The final norm's divisor is held "
        "at its value in this run.",
        alt=f"Direct effect of {name} on logits at query {query} “{labels[query]}”: bars of {len(shown)} tokens. "
        + "; ".join(f"“{vocabulary[i]}” {'+' if effects[i] > 0 else ''}{printed(effects[i])}" for i in shown)
        + ".",
        table={"token": names, "change of the logit minus the mean": effects[shown].tolist()},
    )


def average_map(
    weights: np.ndarray, allowed: np.ndarray, labels: Sequence[str], of: str, query: int,
    key_labels: Sequence[str] | None = None,
) -> Drawing:  # fmt: skip
    """Draw the mean of N heads' maps, weights (N, T, S). of: the heads' names, "the 8 heads of layer 1".

    key_labels: S labels if the keys are another text's.
    """
    keys = labels if key_labels is None else key_labels
    mean = weights.mean(0, dtype=np.float64)  # (T, S)
    q, k = largest_of_choice(mean, allowed)
    after = " after the first row" if first_of_choice(allowed) else ""
    figure = _map(np.where(allowed, mean, np.nan), allowed, labels, OF_SEVERAL, (0.0, 1.0), "mean weight", keys)
    add_frames(figure, len(labels), query, None, len(keys))
    return Drawing(
        figure,
        title=f"Mean over {of}: at most {printed(mean[q, k])}{after}",
        note=f"Each cell is the mean of {count(len(weights), 'weight')}; each row is a query. The largest mean"
        f"{after} is from query {q} {_name(labels, q)} to key {k} {_name(keys, k)}. Averaging "
        f"hides differences between heads.{_masked(allowed)}{joined(labels, MAX_CELLS, 'means')}",
        more=_blank(allowed),
        alt=f"Heat map of the mean weights of {of}; the largest{after} is {printed(mean[q, k])}, from "
        f"query {q} “{labels[q]}” to key {k} “{keys[k]}”.",
        table=matrix_table(np.where(allowed, mean, np.nan), labels, keys),
    )


def difference_map(
    first: np.ndarray, second: np.ndarray, allowed: np.ndarray, labels: Sequence[str], names: tuple[str, str],
    what: str, more: str = "", key_labels: Sequence[str] | None = None,
) -> Drawing:  # fmt: skip
    """Draw first − second, two maps of weights (T, S). names: their names; what, more: on the comparison.

    key_labels: S labels if the keys are another text's.
    """
    keys = labels if key_labels is None else key_labels
    change = first.astype(np.float64) - second  # (T, S)
    q, k = (int(i) for i in np.unravel_index(int(np.abs(change).argmax()), change.shape))
    mean, most = float(np.abs(change)[allowed].mean()) if allowed.any() else 0.0, float(abs(change[q, k]))
    top = most or 1.0  # of the colour scale
    figure = _map(
        np.where(allowed, change, np.nan), allowed, labels, DIVERGING, (-top, top), "difference", keys, chequered=True
    )
    sign = "+" if change[q, k] > 0 else ""
    equal = f"{names[0]} and {names[1]} are equal: {count(int(allowed.sum()), 'weight')}, no difference"
    largest = (
        f" Blue-green: {names[0]} has the larger weight; brown: {names[1]}. Largest: {sign}{printed(change[q, k])} "
        f"from query {q} {_name(labels, q)} to key {k} {_name(keys, k)}, where the colour scale ends."
    )
    cells = "all cells." if allowed.all() else f"the unmasked cells. {BLANK}"
    mean_of = f"The mean in the title is that of the absolute differences over {cells}" if most else _blank(allowed)
    return Drawing(
        figure,
        title=f"{names[0]} − {names[1]}: at most {printed(most)}, mean {printed(mean)}" if most else equal,
        note=f"{what}{largest * bool(most)}{_masked(allowed, 'chequered')}{joined(labels, MAX_CELLS, 'differences')}",
        more=" ".join(filter(None, (more, mean_of))),
        alt=f"Heat map of {names[0]} minus {names[1]}: the largest difference is {sign}{printed(change[q, k])}, from "
        f"query {q} “{labels[q]}” to key {k} “{keys[k]}”; the mean absolute one is {printed(mean)}."
        if most
        else f"{equal}.",
        table=matrix_table(np.where(allowed, change, np.nan), labels, keys),
    )


def _map(
    values: np.ndarray, allowed: np.ndarray, labels: Sequence[str], scale: list, bounds: tuple[float, float], what: str,
    key_labels: Sequence[str] | None = None, *, chequered: bool = False,
) -> Chart:  # fmt: skip
    figure = token_map_figure(labels, map_height(len(labels)), MAX_CELLS, key_labels)
    add_masked(figure, allowed, MAX_CELLS, chequered=chequered)
    signed = bounds[0] < 0  # differences
    add_cells(figure, blocks(values, MAX_CELLS, signed=signed), scale, bounds, f"{what} %{{z:.{DIGITS}f}}")
    add_colourbar(figure, scale, bounds[1], what, lowest=bounds[0])
    return figure


def _top(values: np.ndarray) -> float:
    return max(float(values.max()), 1e-6)


def _masked(allowed: np.ndarray, how: str = "grey") -> str:
    """Say how masked cells are drawn, at the end of a note; "" where none is masked."""
    return "" if allowed.all() else f" Masked cells are {how}."


def _blank(allowed: np.ndarray) -> str:
    return "" if allowed.all() else BLANK


def _name(labels: Sequence[str], i: int) -> str:
    return quoted(shortened(labels[i], 30))
