"""Figures of the Decode page's tabs: caches of limited size, shared blocks, speculative decoding, the roofline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.analysis.groups import Difference, paired_difference
from attnviz.config import SHIPPED
from attnviz.cost.units import bytes_text
from attnviz.equations import Equation, Value
from attnviz.figures.chart import Chart
from attnviz.figures.decode import quartiles, stored_text, time_columns, unsteady
from attnviz.figures.drawing import Drawing, escaped
from attnviz.figures.numbers import printed, signed, told_apart
from attnviz.figures.phrases import meanings
from attnviz.figures.theme import BROWN, FAINT, NEUTRAL, OUTLINE, PETROL, TABLE, TEXT, base_figure
from attnviz.figures.token_maps import BARE
from attnviz.mechanisms import letter
from attnviz.phrases import count, listed

if TYPE_CHECKING:
    from attnviz.decode import Round
    from attnviz.decode.comparisons import Bounded, Quantised, Roofline, Shared, Speculated, Spread

SMOOTHED = 16  # tokens that are averaged per point of the loss
STYLES = (("solid", FAINT, 9), ("solid", NEUTRAL, 5), ("solid", BROWN, 3), ("dot", PETROL, 2))  # narrower over wider
ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom"}  # a legend that grows upwards where it wraps
MAX_HEADS = 6  # labels of the block table's columns


def losses(found: Sequence[Bounded], limit: int, own: bool) -> Drawing:
    """Draw the loss along the text for each way to bound the cache."""
    figure = base_figure(300, legend=ABOVE)
    for each, (dash, colour, width) in zip(found, STYLES, strict=True):
        figure.add_scatter(
            x=list(range(1, len(each.losses) + 1)), y=_smooth(each.losses).round(4), mode="lines", name=each.name,
            line={"color": colour, "dash": dash, "width": width},
        )  # fmt: skip
    figure.add_vline(limit, line={"color": FAINT, "width": 1})
    figure.update_layout(
        xaxis={"title": {"text": "token of the text"}}, yaxis={"title": {"text": "loss, nats per token"}}
    )
    full = found[0]
    after = [float(np.mean(each.losses[limit:])) if len(each.losses) > limit else math.nan for each in found]
    whole = {"loss after it is full": [None if math.isnan(a) else round(a, 3) for a in after]}
    n = len(full.losses) + 1
    if n > limit + 1:
        stopped = _smooth(found[1].losses)
        figure.add_scatter(
            x=[len(stopped)], y=[stopped[-1].round(4)], mode="markers", showlegend=False, hoverinfo="skip",
            marker={"symbol": "square", "size": 14, "color": NEUTRAL},
        )  # fmt: skip
    text = "your text and its continuation" if own else "a story shipped with AttnViz, as your text is too short"
    if n <= limit + 1:
        title, finding = f"The text's {count(n, 'token')} fit: no cache of {limit} is full", ""
    else:
        of_all, sliding, with_sinks = told_apart(after[0], *after[2:], digits=3)
        title = f"After {limit} tokens: loss {of_all} with all tokens, {sliding} sliding, {with_sinks} with sinks"
        worse = paired_difference(np.array(found[2].losses[limit:]), np.array(full.losses[limit:]))
        finding = f" Sliding changes the loss by {_difference(worse)} nats per token over {count(worse.n, 'token')}"
        finding += "." if worse.mean > 1 else ": no collapse here without the first tokens."
    return Drawing(
        figure,
        title=title,
        note=f"Text: {text}. The vertical line marks where a cache of {limit} tokens is full; “{found[1].name}” ends "
        f"at the square.{finding}",
        more=f"Each point is the mean loss of up to {SMOOTHED} tokens. Where curves coincide, the narrower is on top. "
        "±: standard error of the paired differences. StreamingLLM (arXiv 2309.17453) reports that large models "
        "collapse without the first tokens. As there, the sinks' keys are rotated further, so that RoPE uses the "
        "positions in the cache, not those in the text.",
        alt=f"{title}. The loss along {count(n, 'token')} of text, for {len(found)} caches.",
        table={"cache": [each.name for each in found], "tokens read": [len(e.losses) for e in found], **whole,
               "bytes at the end": [each.nbytes for each in found]},
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


def held(found: Sequence[Bounded]) -> Drawing:
    """Draw the tokens that each cache holds at the end; dropped ones are grey."""
    n, rows = len(found[0].losses), range(len(found))
    figure = base_figure(90 + 34 * len(found), barmode="overlay", bargap=0.25, legend=ABOVE)
    dropped = [sorted({*range(len(each.losses))} - {*each.held}) for each in found]
    for name, positions, marker in (
        ("held", [each.held for each in found], {"color": PETROL}),
        ("dropped", dropped, {"color": FAINT, "pattern": {"shape": "/"}}),
        ("not read", [range(len(each.losses), n) for each in found], {"color": "rgba(0, 0, 0, 0)", "line": OUTLINE}),
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
        yaxis={**BARE, "tickvals": list(rows), "ticktext": [each.name for each in found],
               "range": [len(found) - 0.5, -0.5]},
    )  # fmt: skip
    least = found[2]
    return Drawing(
        figure,
        title=f"At the end, “{least.name}” holds {len(least.held)} of {n} tokens, {_in_bytes(least.nbytes)}",
        note="Read from the caches' slots: a sliding cache is a ring buffer, in which a new token overwrites the "
        f"oldest; the dotted line marks the cut. The last of the text's {n + 1} tokens is predicted, not read.",
        alt="; ".join(f"{each.name}: {len(each.held)} of {n} tokens, {_in_bytes(each.nbytes)}" for each in found) + ".",
        table={"cache": [each.name for each in found], "tokens held": [len(each.held) for each in found],
               "of": [n] * len(found), "bytes": [each.nbytes for each in found]},
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


def precisions(found: Sequence[Quantised]) -> Drawing:
    """Draw the cache bytes with keys and values in fewer bits, with the loss and the error."""
    exact, last = found[0], found[-1]
    changes = [paired_difference(np.array(each.losses), np.array(exact.losses)) for each in found]
    n = len(exact.losses)
    errors = [
        f"<br>loss {_difference(change)}<br>{each.n_changed} of {n} top-1 tokens change" if each is not exact else ""
        for each, change in zip(found, changes, strict=True)
    ]
    figure = base_figure(220, showlegend=False)
    figure.add_bar(
        x=[each.nbytes for each in found], y=[each.name for each in found], orientation="h", marker={"color": NEUTRAL},
        text=[_in_bytes(each.nbytes) + error for each, error in zip(found, errors, strict=True)],
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
        note="Bytes of the stored numbers and their scales, counted in the live tensors after the same text. Loss: "
        f"change of its mean over {count(n, 'token')}, ± standard error; top-1: the most likely next token.",
        more="One scale per vector; the computation itself runs in float32. The standard error is that of the paired "
        "differences. KIVI (arXiv 2402.02750) scales keys per channel, as some channels are large in all tokens, and "
        "values per token.",
        alt="; ".join(
            f"{each.name}: {each.nbytes:,} B, {each.nbytes / exact.nbytes:.1%}, loss {_difference(change)}, "
            f"{each.n_changed} of {n} top-1 tokens change, largest logit error {printed(each.largest_error)}"
            for each, change in zip(found, changes, strict=True)
        )
        + ".",
        table={
            "cached in": [each.name for each in found], "bytes": [each.nbytes for each in found],
            "share": [f"{each.nbytes / exact.nbytes:.1%}" for each in found],
            "loss": [round(each.loss, 4) for each in found], "loss change": [round(c.mean, 4) for c in changes],
            "standard error": [round(c.error, 4) for c in changes], "top-1 changed": [e.n_changed for e in found],
            "largest logit error": [round(each.largest_error, 4) for each in found],
        },
    )  # fmt: skip


# ---- several continuations of one prompt


def blocks(found: Shared) -> Drawing:
    """Draw the block table of each continuation."""
    n_rows, n_columns = len(found.tables), max(map(len, found.tables))
    users = np.array([[found.users[b] for b in table] for table in found.tables], np.float32)
    figure = base_figure(70 + 44 * n_rows, showlegend=False)
    figure.add_heatmap(
        z=users, text=found.tables, texttemplate="%{text}", textfont={"color": TEXT}, colorscale=TABLE, zmin=1,
        zmax=n_rows, xgap=3, ygap=8, showscale=False, hovertemplate="block %{text}, in %{z} tables<extra></extra>",
    )  # fmt: skip
    for row, table in enumerate(found.tables):
        for column in (i for i, block in enumerate(table) if block in found.copied):
            figure.add_shape(type="rect", x0=column - 0.48, x1=column + 0.48, y0=row - 0.42, y1=row + 0.42,
                             line={"color": BROWN, "width": 3})  # fmt: skip
    heads = list(range(0, n_columns, math.ceil(n_columns / MAX_HEADS)))
    figure.update_layout(
        xaxis={**BARE, "tickvals": heads, "side": "top", "ticktext": [_head(i, found.block_size) for i in heads]},
        yaxis={**BARE, "tickvals": list(range(n_rows)), "ticktext": [f"text {i + 1}" for i in range(n_rows)],
               "range": [n_rows - 0.5, -0.5]},
    )  # fmt: skip
    used, alone = sum(n > 0 for n in found.users), sum(map(len, found.tables))
    return Drawing(
        figure,
        title=f"{count(n_rows, 'text')} use {count(used, 'block')}; without sharing they need {alone}",
        note="Each text has a block table, which lists the blocks of "
        f"{count(found.block_size, 'token')} that hold its keys and values. A number is a block of the pool; the "
        f"stronger its colour, the more texts share it. {_copies(found)}",
        more="PagedAttention (arXiv 2309.06180). A text copies a shared block before it writes into it "
        f"(copy-on-write). The logits differ from those of a plain cache by at most {found.difference:.1e}.",
        alt=f"{count(n_rows, 'table')} of {count(n_columns, 'block')}; {count(used, 'block')} of the pool in use, "
        f"{alone} without sharing; {count(len(found.copied), 'block')} copied.",
        table={"text": list(range(1, n_rows + 1)), "blocks": [", ".join(map(str, table)) for table in found.tables],
               "copied": [", ".join(str(b) for b in table if b in found.copied) for table in found.tables],
               "blocks in use": [used] * n_rows, "without sharing": [alone] * n_rows},
    )  # fmt: skip


def sampled(found: Shared) -> str:
    """State how the texts were sampled, and that they differ, if they do."""
    seeds = [each.seed for each in found.samplings]
    in_a_row = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    named = f"{seeds[0]} to {seeds[-1]}" if in_a_row else listed(seeds)
    done = "so that the texts differ" if len({*found.ids}) == len(found.ids) else "and some of the texts are equal"
    return f"Sampled at temperature {found.samplings[0].temperature:g} without filters, {done}, with seeds {named}."


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


def waste(found: Shared) -> Drawing:
    """Draw the slots that hold no token, with blocks and with one reservation per text."""
    names, values = ["blocks", f"{found.n_reserved} reserved per text"], [found.unused, found.unused_if_reserved]
    figure = base_figure(150, showlegend=False)
    figure.add_bar(
        x=values, y=names, orientation="h", marker={"color": NEUTRAL}, text=[f"{v:,}" for v in values],
        textposition="outside", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_layout(
        xaxis={**BARE, "showticklabels": False, "range": [0, 1.2 * max(1, *values)]},
        yaxis={**BARE, "autorange": "reversed"},
    )
    slot = found.block_bytes // found.block_size
    return Drawing(
        figure,
        title=f"Unused slots: {found.unused:,} with blocks, {found.unused_if_reserved:,} with a reservation",
        note=f"A slot holds one token in all layers, {slot:,} B. With blocks, only a text's last block can have empty "
        f"slots; a reservation of {found.n_reserved} tokens per text leaves those after its {found.n_tokens} empty.",
        alt=f"{names[0]}: {values[0]:,} unused slots; {names[1]}: {values[1]:,}.",
        table={"allocation": names, "unused slots": values, "unused bytes": [v * slot for v in values]},
    )  # fmt: skip


# ---- speculation


def rounds(found: Speculated, seconds: Sequence[Spread], drafter: str) -> Drawing:
    """Draw the accepted and rejected tokens of each pass."""
    accepted = [each.n_accepted for each in found.rounds]
    rejected = [len(each.proposed) - each.n_accepted for each in found.rounds]
    x = list(range(1, len(accepted) + 1))
    figure = base_figure(260, barmode="relative", legend=ABOVE)
    for name, values, colour in (("accepted", accepted, PETROL), ("the model's own", [1] * len(x), NEUTRAL),
                                 ("rejected", [-r for r in rejected], BROWN)):  # fmt: skip
        figure.add_bar(x=x, y=values, name=name, marker={"color": colour}, hoverinfo="skip")
    figure.update_layout(
        xaxis={"title": {"text": "pass of the model"}, "dtick": 1}, yaxis={"title": {"text": "tokens"}}
    )
    passes = Value(len(x), "p", "passes of the model")
    agreed = Equation(Value(found.n_accepted, "a", "tokens accepted") / passes, digits=2)
    written = Equation(Value(found.n_tokens, "n", "tokens written") / passes, digits=2)
    saved = found.n_tokens - len(x)
    n_passes = f"{len(x)} pass{'es' * (len(x) != 1)}"
    proposes = f"{SHIPPED[drafter]} proposes" if drafter in SHIPPED else f"{drafter} propose"
    drafted, alone = seconds
    measured = f"Measured here: {quartiles(drafted)} with the drafter and {quartiles(alone)} without"
    if drafted.overlaps(alone):
        measured += "; the two ranges overlap"
    else:
        measured += f", {drafted.median / alone.median:.2f} times the time"
    return Drawing(
        figure,
        title=f"{found.n_tokens} tokens in {n_passes}: {agreed.value:.2f} accepted per pass",
        note=f"{proposes[0].upper()}{proposes[1:]} tokens, and one pass of the model scores all of them. From the "
        "first to the last, each is accepted or rejected; a rejection ends the pass. With the model's own token, "
        f"{written.value:.2f} are written per pass, which saves {saved} of {found.n_tokens} passes.",
        more=f"Accepted: {found.n_accepted} of {found.n_proposed}. Below zero: the rejected token and those after it. "
        f"{measured}"
        + (f"; each token that {proposes} takes a pass of it." if drafter in SHIPPED else ".")
        + f"{unsteady(seconds)} The tokens have the same distribution as those sampled from the model alone (arXiv "
        "2211.17192).",
        alt=f"{found.n_accepted} of {found.n_proposed} proposed tokens are accepted, {agreed.value:.2f} per pass; "
        f"{found.n_tokens} tokens in {n_passes}, {written.value:.2f} per pass.",
        table={
            "pass": x, "proposed": [len(each.proposed) for each in found.rounds], "accepted": accepted,
            "rejected": rejected, "written": [len(each.ids) for each in found.rounds],
        },
        formula=f"{agreed.tex()}\n{written.tex()}", legend=meanings(agreed, written),
    )  # fmt: skip


def no_proposal(found: Speculated) -> str:
    """Say why a drafter that looks for the text's last two tokens proposed nothing."""
    return (
        "Nothing was proposed: whenever tokens could be proposed, the last two tokens had not occurred earlier in the "
        f"text. Each of the {len(found.rounds)} passes wrote one token, as without a drafter."
    )


PASSES_LEGEND = ":blue-background[proposed and accepted] :orange-background[~~proposed and rejected~~] " \
    ":gray-background[**the model's own token**]"  # fmt: skip


def passes_text(found: Speculated, text_of: Callable[[Sequence[int]], str]) -> str:
    """Format the tokens of all passes in markdown, with their own spaces: those not struck through are the text.

    text_of: returns the running text of token ids.
    """
    return "".join(_pass_text(each, text_of) for each in found.rounds)


def _pass_text(each: Round, text_of: Callable[[Sequence[int]], str]) -> str:
    """Format one pass: accepted tokens, rejected ones, and the model's own that replaces them."""
    pieces = (
        (each.proposed[: each.n_accepted], ":blue-background[", "]"),
        (each.proposed[each.n_accepted :], ":orange-background[~~", "~~]"),
        (each.ids[-1:], ":gray-background[**", "**]"),
    )
    return "".join(_marked(text_of(ids), *marks) for ids, *marks in pieces if ids)


def _marked(text: str, opening: str, closing: str) -> str:
    """Mark the words; spaces at their ends stay outside, where markdown needs them."""
    text = text.replace("\n", "⏎")
    inside = text.strip() or text.replace(" ", "·")  # nothing but spaces gets their sign
    before, _, after = text.partition(inside)
    return f"{before}{opening}{escaped(inside)}{closing}{after}"


# ---- prefill and decode


COUNTED = (
    "Bytes read are those of weights and cache, without intermediate results; a copy counts bytes read and written. "
    "FLOPs include masked scores and the logits of each token."
)


def _stored(weights: str) -> str:
    """Say in which dtype the numbers are, and what that does to the FLOPs per byte."""
    if weights == "float32":
        halved = "With 2 bytes per number, a decode step would do twice as many FLOPs per byte."
    else:
        halved = "Bytes of weights are those stored; the time includes their conversion."
    return f"{stored_text(weights)} {halved}"


def roofline(found: Roofline) -> Drawing:
    """Draw the FLOP/s of prefill and of a decode step by FLOPs per byte read, under this machine's roofline."""
    prefill, one = found.phases
    peak, stream = found.flops.median, found.nbytes.median
    intensity = [phase.flops / phase.bytes_read for phase in found.phases]
    speed = [phase.seconds.per_second(phase.flops) for phase in found.phases]
    equation = Equation(
        letter("f", one.flops, "FLOPs of a decode step") / Value(one.bytes_read, "r", "bytes it reads"), digits=2
    )
    per_token = 1e3 * prefill.seconds.median / prefill.n_tokens
    measured = [phase.seconds for phase in found.phases]
    reached = [each.median / min(peak, stream * at) for each, at in zip(speed, intensity, strict=True)]
    return Drawing(
        _roofline_chart(found, intensity, speed),
        title=f"Per byte read, prefill does {intensity[0]:.1f} FLOPs and a decode step {intensity[1]:.2f}",
        note=f"Prefill reads the weights once for {count(prefill.n_tokens, 'token')}, the prompt and all written ones: "
        f"{per_token:.3f} ms per token. A decode step reads them for one: {1e3 * one.seconds.median:.2f} ms. The roof "
        f"is a bound: prefill reaches {reached[0]:.0%} of it and the decode step {reached[1]:.0%}; starting many small "
        "operations takes time too.",
        more=f"Measured on this machine, one thread: medians of {one.seconds.n_runs} runs; error bars: quartiles. The "
        f"roofline's quartiles are {_range(found.flops)}FLOP/s in a matrix product and {_range(found.nbytes)}B/s in a "
        f"copy. Prefill: {quartiles(prefill.seconds)}; decode step: {quartiles(one.seconds)}."
        f"{unsteady((*measured, found.flops, found.nbytes))}",
        alt=f"Prefill at {intensity[0]:.1f} FLOPs per byte, decode at {intensity[1]:.2f}; the roofline bends at "
        f"{peak / stream:.1f}.",
        table={
            "phase": [phase.name for phase in found.phases], "tokens": [phase.n_tokens for phase in found.phases],
            "FLOPs": [phase.flops for phase in found.phases],
            "bytes read": [phase.bytes_read for phase in found.phases],
            "FLOPs per byte": [round(i, 2) for i in intensity],
            "share of the roof": [f"{share:.0%}" for share in reached], **time_columns(measured),
        },
        formula=equation.tex(), legend=f"{meanings(equation)} {COUNTED} {_stored(found.weights)}",
    )  # fmt: skip


def _roofline_chart(found: Roofline, intensity: list[float], speed: list[Spread]) -> Chart:
    """Return the roof, and a point per phase at its FLOPs per byte and its FLOP/s."""
    peak, stream = found.flops.median, found.nbytes.median
    ridge = peak / stream
    x = [min(*intensity, ridge) / 4, ridge, max(*intensity, ridge) * 4]
    y = [min(peak, stream * i) for i in x]
    figure = base_figure(360, showlegend=False)
    figure.add_scatter(x=x, y=y, mode="lines", line={"color": FAINT, "width": 3}, hoverinfo="skip")
    for text, at, xanchor, yanchor in (
        (f"copy: {_rate(found.nbytes)}B/s", (math.sqrt(x[0] * x[1]), math.sqrt(y[0] * y[1])), "left", "top"),
        (f"matrix product: {_rate(found.flops)}FLOP/s", (x[2], peak), "right", "bottom"),
    ):
        away = {"xshift": 10, "yshift": -4} if yanchor == "top" else {"yshift": 4}  # pixels off the line
        figure.add_annotation(
            text=text, x=math.log10(at[0]), y=math.log10(at[1]), xanchor=xanchor, yanchor=yanchor, showarrow=False,
            **away,
        )  # fmt: skip
    figure.add_scatter(
        x=intensity, y=[each.median for each in speed], mode="markers+text", text=[p.name for p in found.phases],
        textposition="bottom right", marker={"color": PETROL, "size": 12}, hoverinfo="skip",
        error_y={
            "type": "data", "symmetric": False, "array": [each.high - each.median for each in speed],
            "arrayminus": [each.median - each.low for each in speed], "color": PETROL, "thickness": 2,
        },
    )  # fmt: skip
    lowest = min(y[0], *(each.low for each in speed))
    figure.update_layout(
        xaxis={"type": "log", "title": {"text": "FLOPs per byte read"}, **_log_ticks(x[0], x[2])},
        yaxis={"type": "log", "title": {"text": "FLOP/s"}, "tickformat": "~s", "showgrid": False,  # labels stand there
               "tickvals": _log_ticks(lowest, peak)["tickvals"],
               "range": [math.log10(lowest / 2), math.log10(peak * 2)]},
    )  # fmt: skip
    return figure


def _rate(each: Spread) -> str:
    """Format a median rate in billions, to stand before its unit: "94.2 G"."""
    return f"{each.median / 1e9:.1f} G"


def _range(each: Spread) -> str:
    """Format the quartiles of a rate in billions, to stand before their unit: "90.1–95.0 G"."""
    return f"{each.low / 1e9:.1f}–{each.high / 1e9:.1f} G"


def _log_ticks(low: float, high: float) -> dict[str, list]:
    """Return ticks of a logarithmic axis: 1, 2, 5 of each power of ten, or the powers alone where those are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**power for power in powers for digit in ((1, 2, 5) if len(powers) < 5 else (1,))]
    return {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
