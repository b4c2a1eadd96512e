"""Figures of the Step by step page besides the walk: predictions, softmax in tiles.

L layers, T tokens, V tokens of the vocabulary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from attnviz.characters import axis_labels
from attnviz.equations import Equation, Value, tex_text, total
from attnviz.experiments.residual import Lens
from attnviz.figures.chart import rows_height
from attnviz.figures.drawing import Drawing, quoted
from attnviz.figures.markup import meanings
from attnviz.figures.numbers import DIGITS, percent, printed
from attnviz.figures.theme import BROWN, NEUTRAL, PETROL, TABLE, TEXT, base_figure
from attnviz.figures.token_maps import BARE, token_text
from attnviz.phrases import count, written

MAX_COLUMNS = 16  # tokens in a table with text in its cells
CANDIDATES = 10
BYTE = re.compile("<0x((?:[0-9A-F]{2})+)> (.)…")  # the name of some bytes of a character
KINDS = {"embedding": "E", "attention": "A", "feed-forward": "F", "last norm's bias": "b"}  # parts of a logit


def candidates(odds: np.ndarray, vocabulary: Sequence[str], after: str, position: int, where: str) -> Drawing:
    """Draw the most probable next tokens, odds (V,). after: the token they follow. where: layer they are read at."""
    best = np.argsort(odds)[::-1][:CANDIDATES]
    names = [vocabulary[i] for i in best]
    figure = base_figure(40 + 26 * len(best), showlegend=False)
    figure.add_bar(
        x=odds[best].astype(float), y=list(range(len(best))), orientation="h", marker={"color": NEUTRAL},
        text=[percent(odds[i]) for i in best], textposition="outside", cliponaxis=False,
        hovertemplate="%{customdata}: %{x:.4f}<extra></extra>", customdata=[token_text(n) for n in names],
    )  # fmt: skip
    figure.update_layout(
        xaxis={**BARE, "range": [0, 1.15 * float(odds[best[0]])], "showticklabels": False},
        yaxis={
            **BARE, "tickvals": list(range(len(best))), "ticktext": [token_text(n) for n in names],
            "range": [len(best) - 0.5, -0.5],
        },
    )  # fmt: skip
    finding = f"{quoted(names[0])} with {percent(odds[best[0]])}"
    return Drawing(
        figure,
        title=f"Next after {quoted(after)}: {finding}",
        note=f"The {len(best)} most likely next tokens after token {position}, {where}. Together they have "
        f"{percent(odds[best].sum())} of the probability.",
        alt=f"Bars of the {len(best)} most likely tokens after token {position}; the first is {finding}.",
        table={"token": names, "id": best.tolist(), "probability": odds[best].astype(float).round(6).tolist()},
    )


def lens_map(read: Lens, after: Sequence[Sequence[str]], labels: Sequence[str], query: int, layer: int) -> Drawing:
    """Draw the prediction read after the embedding and after each layer.

    after: the vocabulary as named after each token.
    """
    rows, columns = _lens_axes(read, query)
    n_rows = len(rows)
    best, top = read.best[:, columns], read.odds[:, columns].astype(float)
    names = [[after[t][i] for t, i in zip(columns, row, strict=True)] for row in best]
    words = [[token_text(name, 40) for name in row] for row in names]
    cells = [[token_text(_in_a_cell(name), 8) for name in row] for row in names]
    byte = next((name for row in names for name in row if BYTE.fullmatch(name)), "")
    figure = base_figure(90 + rows_height(n_rows, 30), showlegend=False, hovermode="closest")
    figure.add_heatmap(
        z=top.astype(np.float32), colorscale=TABLE, zmin=0, zmax=1, xgap=1, ygap=1, customdata=words,
        text=cells, texttemplate="%{text}", textfont={"size": 12, "color": TEXT}, showscale=False,
        hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
    )  # fmt: skip
    at = columns.index(query)
    figure.add_shape(
        type="rect", x0=at - 0.5, x1=at + 0.5, y0=layer - 0.5, y1=layer + 0.5, line={"color": TEXT, "width": 2}
    )
    figure.update_layout(
        xaxis={
            **BARE, "tickvals": list(range(len(columns))), "side": "top",
            "ticktext": [token_text(label) for label in axis_labels(labels, columns)],
        },
        yaxis={**BARE, "tickvals": list(range(n_rows)), "ticktext": rows, "range": [n_rows - 0.5, -0.5]},
    )  # fmt: skip
    final = int(read.best[-1, query])
    agree = read.best[:, query] == final
    since = next(i for i in range(n_rows) if agree[i:].all())
    title = f"The prediction after {quoted(labels[query])} is the same from {rows[since]} on"
    if since == n_rows - 1:
        reached = "returns with" if agree[:-1].any() else "is reached only with"
        title = f"The final prediction after {quoted(labels[query])} {reached} the last layer"
    return Drawing(
        figure,
        title=title,
        note="Logit lens: the last norm and the unembedding applied to the residual stream after each layer. A cell is "
        "the most likely next token there; the stronger its colour, the more likely. Only the last layer was "
        f"trained to be read this way.{_in_words(byte)}",
        alt=f"{title}. A table of {n_rows} rows and {count(len(columns), 'token')}; the last row is the model's own "
        f"prediction, for the selected token {quoted(after[query][final])}.",
        table={
            "read after": np.repeat(rows, len(columns)).tolist(),
            "token": [f"{i} {labels[i]}" for i in columns] * n_rows,
            "most probable next": [name for row in names for name in row],
            "probability": top.ravel().round(4).tolist(),
        },
        tall=True,
    )


def _in_words(name: str) -> str:
    """Explain the short name of some bytes; "" for ""."""
    number = "is byte" if len(BYTE.sub(r"\1", name)) == 2 else "are the bytes"
    return BYTE.sub(rf" “\1 \2…” {number} \1, a part of \2 or of another character.", name)


def _in_a_cell(name: str) -> str:
    """Shorten the name of a byte, "<0xE5> 儿…", to "E5 儿…"."""
    return BYTE.sub(r"\1 \2…", name)


def lens_table(read: Lens, after: Sequence[Sequence[str]], labels: Sequence[str], query: int) -> dict[str, list[str]]:
    """Return the most probable next token after each layer, a column for each of the tokens around the query.

    after: the vocabulary as named after each token.
    """
    rows, columns = _lens_axes(read, query)
    return {
        "read after": rows,
        **{f"{t} {labels[t]}": [f"{after[t][read.best[r, t]]} {read.odds[r, t]:.2f}" for r in range(len(rows))]
           for t in columns},
    }  # fmt: skip


def _lens_axes(read: Lens, query: int) -> tuple[list[str], range]:
    """Return the names of the rows, after which the stream is read, and the tokens around the query that fit."""
    n_rows, n_tokens = read.best.shape
    first = max(0, min(query - MAX_COLUMNS // 2, n_tokens - MAX_COLUMNS))
    rows = ["embedding", *(f"layer {i}" for i in range(n_rows - 1))]
    return rows, range(first, min(first + MAX_COLUMNS, n_tokens))


def attribution(added: np.ndarray, names: Sequence[str], token: str, logit: float, labels_at: str) -> Drawing:
    """Draw how much each part of the model adds to one logit minus the mean over the vocabulary.

    added: (1 + 2 L,), one more with a bias of the last norm. logit: their sum, the model's own logit minus the mean.
    """
    figure = base_figure(50 + rows_height(len(added), 24), showlegend=False)
    figure.add_bar(
        x=added.astype(float), y=list(range(len(added))), orientation="h",
        marker={"color": [BROWN if a < 0 else PETROL for a in added]},
        text=[_signed(a) for a in added], textposition="outside", cliponaxis=False, hoverinfo="skip",
        constraintext="none", textfont={"size": 12},
    )  # fmt: skip
    far = 1.25 * float(np.abs(added).max())
    figure.update_layout(
        xaxis={
            **BARE, "range": [min(0.0, float(added.min()) - 0.25 * far), far], "showticklabels": False,
            "zeroline": True,
        },
        yaxis={
            **BARE, "tickvals": list(range(len(added))), "ticktext": list(names), "range": [len(added) - 0.5, -0.5],
        },
    )  # fmt: skip
    equation = _logit(added, names, logit)
    title = _adds_most(added, names, token)
    return Drawing(
        figure,
        title=title,
        note=f"Direct attribution: what each part adds to this logit minus the mean over the vocabulary. The "
        f"{len(added)} bars add up to {printed(float(added.sum()))}; the model's logit minus the mean is "
        f"{printed(logit)}.",
        more=f"What a part added to the residual stream after {quoted(labels_at)} goes through the last norm (its "
        f"scale held fixed) and the row of {quoted(token)} in the unembedding. The mean is subtracted: the softmax "
        "of the logits ignores a constant that is added to all of them; a soft cap does not.",
        alt=f"{title}. {', '.join(f'{n} {_signed(a)}' for n, a in zip(names, added, strict=True))}.",
        table={"part": list(names), "added to the logit minus the mean": added.astype(float).round(6).tolist()},
        formula=equation.tex_lines(),
        legend=meanings(equation),
    )


def _adds_most(added: np.ndarray, names: Sequence[str], token: str) -> str:
    """Name the part with the largest positive contribution."""
    most = int(added.argmax())
    if added[most] <= 0:
        return f"No part raises the logit of {quoted(token)}; {names[most]} lowers it least: {_signed(added[most])}"
    return f"{names[most].capitalize()} adds most to the logit of {quoted(token)}: {_signed(added[most])}"


def _logit(added: np.ndarray, names: Sequence[str], logit: float) -> Equation:
    """Return the logit minus the mean as a sum over kinds of parts: one term per part is wider than a screen."""
    kinds = np.array([name.rstrip(" 0123456789") for name in names])
    terms = [
        Value(float(added[kinds == kind].sum()), symbol, f"sum of the bars “{kind}”", digits=DIGITS)
        for kind, symbol in KINDS.items()
        if kind in kinds
    ]
    name = "logit minus mean"
    return Equation(total(terms), name=name, name_tex=tex_text(name), digits=DIGITS, computed=logit)


def tile_row(
    scores: np.ndarray, allowed: np.ndarray, table: dict[str, list], labels: Sequence[str], query: int, hue: str
) -> Drawing:
    """Draw one row of scores (S,), split into tiles; table: the running values after each tile."""
    keys = np.flatnonzero(allowed).tolist()
    tiles = list(zip(table["from key"], table["up to key"], strict=True))
    n_masked = sum(not allowed[first : last + 1].any() for first, last in tiles)
    figure = base_figure(260, showlegend=False)
    figure.add_bar(
        x=keys, y=scores[keys].astype(float), marker={"color": hue},
        hovertemplate="%{customdata} (%{x}): %{y:.4f}<extra></extra>", customdata=[token_text(labels[k]) for k in keys],
    )  # fmt: skip
    edges = [first - 0.5 for first in table["from key"][1:]]
    for edge in edges:
        figure.add_vline(edge, line={"color": NEUTRAL, "width": 1, "dash": "dot"})
    figure.add_scatter(
        x=[end for first, last in tiles for end in (first - 0.5, last + 0.5)],
        y=[m if math.isfinite(m) else None for m in table["maximum"] for _ in range(2)],
        mode="lines", line={"color": NEUTRAL},
        hovertemplate="running maximum %{y:.4f}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis={
            **BARE,
            "title": {"text": "key"},
            "showticklabels": True,
            **({"dtick": 1} if len(scores) <= 12 else {"nticks": 12}),
            "range": [-0.5, len(scores) - 0.5],
        },
        yaxis={"title": {"text": "score"}},
    )
    table = tile_table(table)
    rescaled = sum(1 for factor in table["factor"] if factor is not None and factor < 1)
    times = "once" if rescaled == 1 else f"{rescaled} times"
    rises = f"the maximum rises {times}" if rescaled else "the first tile holds the largest score"
    unseen = " Keys without a bar are masked." if len(keys) < len(scores) else ""
    title = f"{count(len(edges) + 1, 'tile')}: {rises}"
    return Drawing(
        figure,
        title=title,
        note=f"Bars: scores of query {query} ({quoted(labels[query])}). Line: the running maximum; where it rises, the "
        f"sum and the output so far are multiplied by the factor exp(old maximum − new maximum).{unseen}",
        more=f"{n_masked} of {count(len(tiles), 'tile')} {'is' if n_masked == 1 else 'are'} fully masked for this "
        "query; a causal kernel skips a tile that is masked for all queries of its block. Before the first tile with a "
        "key that is not masked there is nothing to rescale: its factor is “–”.",
        alt=f"{title}. Bars of {count(len(keys), 'score')} in {count(len(tiles), 'tile')}.",
        table=table,
        missing="–",
    )


def tiles_text(n_queries: int, largest_difference: float) -> str:
    """Compare the output by tiles with the kernel's, over this many query tokens."""
    whose = "the only query token" if n_queries == 1 else f"all {n_queries} query tokens"
    kernel = "PyTorch's kernel, `scaled_dot_product_attention`"
    if not largest_difference:
        return f"{whose}: the output by tiles equals that of {kernel}"
    most = written(largest_difference, ".1e")
    return f"{whose}: the output by tiles differs from that of {kernel}, by at most **{most}**"


def tile_table(table: dict[str, list]) -> dict[str, list]:
    """Return the running values with the factor None where no key was allowed before: nothing is rescaled there."""
    before = [-math.inf, *table["maximum"][:-1]]
    factors = [None if b == -math.inf else f for b, f in zip(before, table["factor"], strict=True)]
    return {**table, "factor": factors}


def _signed(x: float) -> str:
    return f"{x:+.3f}".replace("-", "−")
