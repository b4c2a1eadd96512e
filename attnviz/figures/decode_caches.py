"""Figures of the Decode page on caches: those of limited size, in int8 and int4, and blocks that texts share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.analysis.groups import Difference, paired_difference
from attnviz.cost.units import bytes_text
from attnviz.figures.drawing import Drawing
from attnviz.figures.numbers import printed, signed, told_apart
from attnviz.figures.theme import BROWN, FAINT, NEUTRAL, OUTLINE, PETROL, TABLE, TEXT, base_figure
from attnviz.figures.token_maps import BARE
from attnviz.phrases import count, listed, written

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Bounded, Quantised, Shared

SMOOTHED = 16  # tokens that are averaged per point of the loss
STYLES = (("solid", FAINT, 9), ("solid", NEUTRAL, 5), ("solid", BROWN, 3), ("dot", PETROL, 2))  # narrower over wider
ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}  # a legend that grows upwards where it wraps
MAX_HEADS = 6  # labels of the block table's columns


def losses(caches: Sequence[Bounded], limit: int, own: bool) -> Drawing:
    """Draw the loss along the text for each way to bound the cache."""
    figure = base_figure(300, legend=ABOVE)
    for cache, (dash, colour, width) in zip(caches, STYLES, strict=True):
        figure.add_scatter(
            x=list(range(1, len(cache.losses) + 1)), y=_smooth(cache.losses).round(4), mode="lines", name=cache.name,
            line={"color": colour, "dash": dash, "width": width},
        )  # fmt: skip
    figure.add_vline(limit, line={"color": FAINT, "width": 1})
    figure.update_layout(
        xaxis={"title": {"text": "token of the text"}}, yaxis={"title": {"text": "loss, nats per token"}}
    )
    full = caches[0]
    after = [float(np.mean(cache.losses[limit:])) if len(cache.losses) > limit else math.nan for cache in caches]
    whole = {"loss after it is full": [None if math.isnan(a) else round(a, 3) for a in after]}
    n = len(full.losses) + 1
    if n > limit + 1:
        stopped = _smooth(caches[1].losses)
        figure.add_scatter(
            x=[len(stopped)], y=[stopped[-1].round(4)], mode="markers", showlegend=False, hoverinfo="skip",
            marker={"symbol": "square", "size": 14, "color": NEUTRAL},
        )  # fmt: skip
    text = "your text and its continuation" if own else "a story shipped with AttnViz, as your text is too short"
    if n <= limit + 1:
        title, finding = f"The text's {count(n, 'token')} fit: no cache of {limit} is full", ""
    else:
        of_all, sliding, with_sinks = told_apart(after[0], *after[2:], digits=3, change=4)
        title = f"After {limit} tokens: loss {of_all} with all tokens, {sliding} sliding, {with_sinks} with sinks"
        worse = paired_difference(np.array(caches[2].losses[limit:]), np.array(full.losses[limit:]))
        finding = f" Sliding changes the loss by {_difference(worse)} nats per token over {count(worse.n, 'token')}"
        finding += "." if worse.mean > 1 else ": no collapse here without the first tokens."
    return Drawing(
        figure,
        title=title,
        note=f"Text: {text}. The vertical line marks where a cache of {limit} tokens is full; “{caches[1].name}” ends "
        f"at the square.{finding}",
        more=f"Each point is the mean loss of up to {SMOOTHED} tokens. Where curves coincide, the narrower is on top. "
        "±: standard error of the paired differences. StreamingLLM (arXiv 2309.17453) reports that large models "
        "collapse without the first tokens. As there, the sinks' keys are rotated further, so that RoPE uses the "
        "positions in the cache, not those in the text.",
        alt=f"{title}. The loss along {count(n, 'token')} of text, for {len(caches)} caches.",
        table={"cache": [cache.name for cache in caches], "tokens read": [len(e.losses) for e in caches], **whole,
               "bytes at the end": [cache.nbytes for cache in caches]},
    )  # fmt: skip


def _difference(of_losses: Difference) -> str:
    """Format a difference of losses with the standard error of its paired mean: "+0.0063 ± 0.0041"."""
    spread = "" if math.isnan(of_losses.error) else f" ± {of_losses.error:.4f}"
    return signed(of_losses.mean, 4) + spread


def _smooth(values: Sequence[float]) -> np.ndarray:
    """Return the running means of the last SMOOTHED values."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    at = np.arange(1, len(values) + 1)
    first = np.maximum(at - SMOOTHED, 0)
    return (total[at] - total[first]) / (at - first)


def held(caches: Sequence[Bounded]) -> Drawing:
    """Draw the tokens that each cache holds at the end; dropped ones are grey."""
    n, rows = len(caches[0].losses), range(len(caches))
    figure = base_figure(90 + 34 * len(caches), barmode="overlay", bargap=0.25, legend=ABOVE)
    dropped = [sorted({*range(len(cache.losses))} - {*cache.held}) for cache in caches]
    for name, positions, marker in (
        ("held", [cache.held for cache in caches], {"color": PETROL}),
        ("dropped", dropped, {"color": FAINT, "pattern": {"shape": "/"}}),
        ("not read", [range(len(cache.losses), n) for cache in caches], {"color": "rgba(0, 0, 0, 0)", "line": OUTLINE}),
    ):  # fmt: skip
        runs = [(row, *run) for row in rows for run in _runs(positions[row])]
        figure.add_bar(
            y=[row for row, _, _ in runs], base=[start for _, start, _ in runs], name=name, marker=marker,
            x=[stop - start for _, start, stop in runs], orientation="h", hoverinfo="skip",
        )  # fmt: skip
    for row in rows:
        for edge in {end for run in _runs(dropped[row]) for end in run} - {0, n}:
            figure.add_shape(type="line", x0=edge, x1=edge, y0=row - 0.5, y1=row + 0.5,
                             line={"color": NEUTRAL, "width": 2, "dash": "dot"})  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "token of the text"}, "range": [0, n]},
        yaxis={**BARE, "tickvals": list(rows), "ticktext": [cache.name for cache in caches],
               "range": [len(caches) - 0.5, -0.5]},
    )  # fmt: skip
    least = caches[2]
    return Drawing(
        figure,
        title=f"At the end, “{least.name}” holds {len(least.held)} of {n} tokens, {_in_bytes(least.nbytes)}",
        note="Read from the caches' slots: a sliding cache is a ring buffer, in which a new token overwrites the "
        f"oldest; the dotted line marks the cut. The last of the text's {n + 1} tokens is predicted, not read.",
        alt="; ".join(f"{c.name}: {len(c.held)} of {n} tokens, {_in_bytes(c.nbytes)}" for c in caches) + ".",
        table={"cache": [cache.name for cache in caches], "tokens held": [len(cache.held) for cache in caches],
               "of": [n] * len(caches), "bytes": [cache.nbytes for cache in caches]},
    )  # fmt: skip


def _runs(positions: Iterable[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive numbers in ascending positions: first, last + 1."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and runs[-1][1] == position:
            runs[-1] = runs[-1][0], position + 1
        else:
            runs.append((position, position + 1))
    return runs


def _in_bytes(n: int) -> str:
    """Format bytes in full, and shorter: "147,456 B (144 KiB)"."""
    return f"{n:,} B ({bytes_text(n)})" if n >= 1024 else f"{n} B"


def precisions(caches: Sequence[Quantised]) -> Drawing:
    """Draw the cache bytes with keys and values in fewer bits, with the loss and the error."""
    exact, last = caches[0], caches[-1]
    changes = [paired_difference(np.array(cache.losses), np.array(exact.losses)) for cache in caches]
    n = len(exact.losses)
    errors = [
        f"<br>loss {_difference(change)}<br>{cache.n_changed} of {n} top-1 tokens change" if cache is not exact else ""
        for cache, change in zip(caches, changes, strict=True)
    ]
    figure = base_figure(220, showlegend=False)
    figure.add_bar(
        x=[cache.nbytes for cache in caches], y=[cache.name for cache in caches], orientation="h",
        marker={"color": NEUTRAL},
        text=[_in_bytes(cache.nbytes) + error for cache, error in zip(caches, errors, strict=True)],
        textposition="outside", textangle=0, cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_layout(
        xaxis={**BARE, "showticklabels": False, "range": [0, 1.7 * exact.nbytes]},
        yaxis={**BARE, "autorange": "reversed"},
    )
    share = last.nbytes / exact.nbytes
    return Drawing(
        figure,
        title=f"{last.name} takes {share:.1%} of the bytes and changes the loss by {_difference(changes[-1])}",
        note="Bytes of the stored numbers and of one scale per vector, after the same text. Loss: "
        f"change of its mean over {count(n, 'token')}, ± standard error; top-1: the most likely next token.",
        more="The bytes are counted in the live tensors. "
        "The computation itself runs in float32. The standard error is that of the paired "
        "differences. KIVI (arXiv 2402.02750) scales keys per channel, as some channels are large in all tokens, and "
        "values per token.",
        alt="; ".join(
            f"{cache.name}: {cache.nbytes:,} B, {cache.nbytes / exact.nbytes:.1%}, loss {_difference(change)}, "
            f"{cache.n_changed} of {n} top-1 tokens change, largest logit error {printed(cache.largest_error)}"
            for cache, change in zip(caches, changes, strict=True)
        )
        + ".",
        table={
            "cached in": [cache.name for cache in caches], "bytes": [cache.nbytes for cache in caches],
            "share": [f"{cache.nbytes / exact.nbytes:.1%}" for cache in caches],
            "loss": [round(cache.loss, 4) for cache in caches], "loss change": [round(c.mean, 4) for c in changes],
            "standard error": [round(c.error, 4) for c in changes], "top-1 changed": [e.n_changed for e in caches],
            "largest logit error": [round(cache.largest_error, 4) for cache in caches],
        },
    )  # fmt: skip


# ---- several continuations of one prompt


def blocks(shared: Shared) -> Drawing:
    """Draw the block table of each continuation."""
    n_rows, n_columns = len(shared.tables), max(map(len, shared.tables))
    users = np.array([[shared.users[b] for b in table] for table in shared.tables], np.float32)
    figure = base_figure(70 + 44 * n_rows, showlegend=False)
    figure.add_heatmap(
        z=users, text=shared.tables, texttemplate="%{text}", textfont={"color": TEXT}, colorscale=TABLE, zmin=1,
        zmax=n_rows, xgap=3, ygap=8, showscale=False, hovertemplate="block %{text}, in %{z} tables<extra></extra>",
    )  # fmt: skip
    for row, table in enumerate(shared.tables):
        for column in (i for i, block in enumerate(table) if block in shared.copied):
            figure.add_shape(type="rect", x0=column - 0.48, x1=column + 0.48, y0=row - 0.42, y1=row + 0.42,
                             line={"color": BROWN, "width": 3})  # fmt: skip
    heads = list(range(0, n_columns, math.ceil(n_columns / MAX_HEADS)))
    figure.update_layout(
        xaxis={**BARE, "tickvals": heads, "side": "top", "ticktext": [_head(i, shared.block_size) for i in heads]},
        yaxis={**BARE, "tickvals": list(range(n_rows)), "ticktext": [f"text {i + 1}" for i in range(n_rows)],
               "range": [n_rows - 0.5, -0.5]},
    )  # fmt: skip
    used, alone = sum(n > 0 for n in shared.users), sum(map(len, shared.tables))
    return Drawing(
        figure,
        title=f"{count(n_rows, 'text')} use {count(used, 'block')}; without sharing they need {alone}",
        note="Each text has a block table, which lists the blocks of "
        f"{count(shared.block_size, 'token')} that hold its keys and values. A number is a block of the pool; the "
        f"stronger its colour, the more texts share it. {_copies(shared)}",
        more="PagedAttention (arXiv 2309.06180). A text copies a shared block before it writes into it "
        f"(copy-on-write). The logits differ from those of a plain cache by at most "
        f"{written(shared.difference, '.1e')}.",
        alt=f"{count(n_rows, 'table')} of {count(n_columns, 'block')}; {count(used, 'block')} of the pool in use, "
        f"{alone} without sharing; {count(len(shared.copied), 'block')} copied.",
        table={"text": list(range(1, n_rows + 1)), "blocks": [", ".join(map(str, table)) for table in shared.tables],
               "copied": [", ".join(str(b) for b in table if b in shared.copied) for table in shared.tables],
               "blocks in use": [used] * n_rows, "without sharing": [alone] * n_rows},
    )  # fmt: skip


def sampled(shared: Shared) -> str:
    """State how the texts were sampled, and that they differ, if they do."""
    seeds = [each.seed for each in shared.samplings]
    in_a_row = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    named = f"{seeds[0]} to {seeds[-1]}" if in_a_row else listed(seeds)
    done = "so that the texts differ" if len({*shared.ids}) == len(shared.ids) else "and some of the texts are equal"
    return f"Sampled at temperature {shared.samplings[0].temperature:g} without filters, {done}, with seeds {named}."


def _head(i: int, size: int) -> str:
    """Label a column with its tokens: "tokens 0–7", then "8–15"."""
    first, last = i * size, (i + 1) * size - 1
    return ("tokens " if i == 0 else "") + (f"{first}–{last}" if size > 1 else f"{first}")


def _copies(found: Shared) -> str:
    """Say how many blocks were copied when a text wrote into them, or why none was."""
    if not found.copied:
        return "Nothing was copied: the cached prompt fills its blocks exactly, so no text writes into a shared one."
    copies = listed(f"block {copy} is a copy of block {block}" for copy, block in found.copied.items())
    return f"Framed: {copies}."


def waste(shared: Shared) -> Drawing:
    """Draw the slots that hold no token, with blocks and with one reservation per text."""
    names, values = ["blocks", f"{shared.n_reserved} reserved per text"], [shared.unused, shared.unused_if_reserved]
    figure = base_figure(150, showlegend=False)
    figure.add_bar(
        x=values, y=names, orientation="h", marker={"color": NEUTRAL}, text=[f"{v:,}" for v in values],
        textposition="outside", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_layout(
        xaxis={**BARE, "showticklabels": False, "range": [0, 1.2 * max(1, *values)]},
        yaxis={**BARE, "autorange": "reversed"},
    )
    slot = shared.block_bytes // shared.block_size
    return Drawing(
        figure,
        title=f"Unused slots: {shared.unused:,} with blocks, {shared.unused_if_reserved:,} with a reservation",
        note=f"A slot holds one token in all layers, {slot:,} B. With blocks, only a text's last block can have empty "
        f"slots; a reservation of {shared.n_reserved} tokens per text leaves those after its {shared.n_tokens} empty.",
        alt=f"{names[0]}: {values[0]:,} unused slots; {names[1]}: {values[1]:,}.",
        table={"allocation": names, "unused slots": values, "unused bytes": [v * slot for v in values]},
    )  # fmt: skip
