"""Figures of the Decode page's tabs: caches of limited size, shared blocks, speculative decoding, the roofline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.cost.units import bytes_text
from attnviz.equations import Equation, Value
from attnviz.figures.decode import NAMES
from attnviz.figures.drawing import Drawing
from attnviz.figures.phrases import count, meanings
from attnviz.figures.theme import BROWN, FAINT, NEUTRAL, PETROL, SEQUENTIAL, base_figure
from attnviz.figures.token_maps import BARE

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Bounded, Kept, Roofline, Shared, Speculated

SMOOTHED = 16  # tokens that are averaged per point of the loss
STYLES = (("solid", NEUTRAL), ("longdash", NEUTRAL), ("dot", BROWN), ("dash", PETROL))


def losses(found: Sequence[Bounded], limit: int, own: bool) -> Drawing:
    """Draw the loss along the text for each way to bound the cache."""
    figure = base_figure(300, legend={"orientation": "h", "y": 1.18})
    for each, (dash, colour) in zip(found, STYLES, strict=True):
        figure.add_scatter(
            x=list(range(1, len(each.losses) + 1)), y=_smooth(each.losses).round(4), mode="lines", name=each.name,
            line={"color": colour, "dash": dash, "width": 2},
        )  # fmt: skip
    figure.add_vline(limit, line={"color": FAINT, "width": 1})
    figure.update_layout(xaxis={"title": {"text": "token of the text"}}, yaxis={"title": {"text": "loss, nats"}})
    full = found[0]
    after = [float(np.mean(each.losses[limit:])) if len(each.losses) > limit else math.nan for each in found]
    whole = {"loss after it is full": [None if math.isnan(a) else round(a, 3) for a in after]}
    n = len(full.losses) + 1
    text = "your text and its continuation" if own else "a story shipped with AttnViz, as your text is too short"
    if n <= limit + 1:
        title, finding = f"The text's {count(n, 'token')} fit: no cache of {limit} is full", ""
    else:
        title = f"After {limit} tokens: loss {after[0]:.3f} with all, {after[2]:.3f} sliding, {after[3]:.3f} with sinks"
        worse = after[2] - after[0]
        finding = (
            f" Sliding without the first tokens raises the loss by {worse:.3f} nats."
            if worse > 1
            else f" Sliding changes the loss by {worse:+.3f} nats: no collapse here, with or without the first tokens. "
            "StreamingLLM (arXiv 2309.17453) reports that large models collapse without them."
        )
    return Drawing(
        figure,
        title=title,
        note=f"Text: {text}. Each point is the mean loss of up to {SMOOTHED} tokens; the vertical line marks where a "
        f"cache of {limit} tokens is full. The curve “{found[1].name}” ends there.{finding}",
        alt=f"{title}. The loss along {count(n, 'token')} of text, for {len(found)} caches.",
        table={"cache": [each.name for each in found], "tokens read": [len(e.losses) + 1 for e in found], **whole,
               "bytes at the end": [each.nbytes for each in found]},
    )  # fmt: skip


def _smooth(values: Sequence[float]) -> np.ndarray:
    """Return the running means of the last SMOOTHED values."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    at = np.arange(1, len(values) + 1)
    first = np.maximum(at - SMOOTHED, 0)
    return (total[at] - total[first]) / (at - first)


def held(found: Sequence[Bounded], n_tokens: int) -> Drawing:
    """Draw the tokens that each cache holds at the end; dropped ones are grey."""
    z = np.zeros((len(found), n_tokens), np.float32)
    for row, each in zip(z, found, strict=True):
        row[list(each.held)] = 1
    figure = base_figure(60 + 34 * len(found), showlegend=False)
    figure.add_heatmap(z=z, colorscale=[[0, FAINT], [1, PETROL]], zmin=0, zmax=1, ygap=6, showscale=False,
                       hoverinfo="skip")  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "token of the text"}},
        yaxis={**BARE, "tickvals": list(range(len(found))), "ticktext": [each.name for each in found],
               "range": [len(found) - 0.5, -0.5]},
    )  # fmt: skip
    least = found[2]
    return Drawing(
        figure,
        title=f"At the end, “{least.name}” holds {len(least.held)} of {n_tokens} tokens, {least.nbytes:,} B",
        note="Read from the caches' slots: a sliding cache is a ring buffer, in which a new token overwrites the "
        "oldest. Grey: dropped, or never read because the cache was full.",
        alt="; ".join(f"{each.name}: {len(each.held)} of {n_tokens} tokens, {each.nbytes:,} B" for each in found) + ".",
        table={"cache": [each.name for each in found], "tokens held": [len(each.held) for each in found],
               "of": [n_tokens] * len(found), "bytes": [each.nbytes for each in found]},
    )  # fmt: skip


def precisions(found: Sequence[Kept]) -> Drawing:
    """Draw the cache bytes with keys and values in fewer bits; loss and error are in the table."""
    figure = base_figure(190, showlegend=False)
    figure.add_bar(
        x=[each.nbytes for each in found], y=[each.name for each in found], orientation="h", marker={"color": NEUTRAL},
        text=[bytes_text(each.nbytes) for each in found], textposition="outside", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_layout(
        xaxis={**BARE, "showticklabels": False, "range": [0, 1.25 * found[0].nbytes]},
        yaxis={**BARE, "autorange": "reversed"},
    )
    exact, last = found[0], found[-1]
    changes = [each.loss - exact.loss for each in found]
    share = last.nbytes / exact.nbytes
    return Drawing(
        figure,
        title=f"{last.name} takes {share:.1%} of the bytes and changes the loss by {changes[-1]:+.4f}",
        note="Bytes of the stored numbers and their scales, one scale per vector, counted in the live tensors after "
        "the same text as above. The computation itself runs in float32.",
        alt="; ".join(
            f"{each.name}: {each.nbytes:,} B, {each.nbytes / exact.nbytes:.1%}, loss {change:+.4f}"
            for each, change in zip(found, changes, strict=True)
        )
        + ".",
        table={
            "keys and values in": [each.name for each in found], "bytes": [each.nbytes for each in found],
            "share of float32": [f"{each.nbytes / exact.nbytes:.1%}" for each in found],
            "loss": [round(each.loss, 4) for each in found], "change of the loss": [round(c, 4) for c in changes],
            "largest error of a logit": [round(each.largest_error, 4) for each in found],
        },
    )  # fmt: skip


# ---- several continuations of one prompt


def blocks(found: Shared) -> Drawing:
    """Draw the block table of each continuation."""
    n_rows, n_columns = len(found.tables), max(map(len, found.tables))
    users = np.array([[found.users[b] for b in table] for table in found.tables], np.float32)
    figure = base_figure(70 + 44 * n_rows, showlegend=False)
    figure.add_heatmap(
        z=users, text=[[str(b) for b in table] for table in found.tables], texttemplate="%{text}",
        colorscale=SEQUENTIAL,
        zmin=0, zmax=max(2, 1.6 * n_rows), xgap=3, ygap=8, showscale=False,
        hovertemplate="block %{text}, in %{z} tables<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis={**BARE, "tickvals": list(range(n_columns)), "side": "top",
               "ticktext": [f"from {i * found.block_size}" for i in range(n_columns)]},
        yaxis={**BARE, "tickvals": list(range(n_rows)), "ticktext": [f"text {i + 1}" for i in range(n_rows)],
               "range": [n_rows - 0.5, -0.5]},
    )  # fmt: skip
    used, alone = sum(n > 0 for n in found.users), sum(map(len, found.tables))
    return Drawing(
        figure,
        title=f"{count(n_rows, 'text')} share {count(used, 'block')}; without sharing they need {alone}",
        note=f"PagedAttention (arXiv 2309.06180): each text has a block table, which lists the blocks of "
        f"{found.block_size} tokens that hold its keys and values. A number is a block of the pool; the stronger its "
        "colour, the more texts share it. A text that writes into a shared block copies it first (copy-on-write). The "
        f"logits differ from those of a plain cache by at most {found.difference:.1e}.",
        alt=f"{n_rows} tables of {n_columns} blocks; {count(used, 'block')} of the pool in use, "
        f"{alone} without sharing.",
        table={"text": list(range(1, n_rows + 1)), "blocks": [", ".join(map(str, table)) for table in found.tables],
               "blocks in use": [used] * n_rows, "without sharing": [alone] * n_rows},
    )  # fmt: skip


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


def rounds(found: Speculated, drafter: str) -> Drawing:
    """Draw the accepted and rejected tokens of each pass."""
    accepted = [each.n_accepted for each in found.rounds]
    rejected = [len(each.proposed) - each.n_accepted for each in found.rounds]
    x = list(range(1, len(accepted) + 1))
    figure = base_figure(260, barmode="stack", legend={"orientation": "h", "y": 1.2})
    for name, values, colour in (("accepted", accepted, PETROL), ("the model's own", [1] * len(x), NEUTRAL),
                                 ("rejected", [-r for r in rejected], FAINT)):  # fmt: skip
        figure.add_bar(x=x, y=values, name=name, marker={"color": colour}, hoverinfo="skip")
    figure.update_layout(
        xaxis={"title": {"text": "pass of the model"}, "dtick": 1}, yaxis={"title": {"text": "tokens"}}
    )
    per_pass = Equation(Value(found.n_tokens, "N", "tokens written") / Value(len(accepted), "P", "passes of the model"))
    passes = f"{len(accepted)} pass{'es' * (len(accepted) != 1)}"
    ratio = found.seconds / found.plain_seconds
    proposed = sum(accepted) + sum(rejected)
    return Drawing(
        figure,
        title=f"{found.n_tokens} tokens in {passes}: {per_pass.value:.2f} per pass",
        note=f"Speculative decoding (arXiv 2211.17192): {NAMES.get(drafter, drafter)} proposes tokens, and the model "
        f"checks all of them in one pass. Accepted: {sum(accepted)} of {proposed}. Below zero: rejected. Measured "
        f"here, it takes {ratio:.2f} times as long as decoding without a drafter."
        + (f" Each token that {NAMES[drafter]} proposes takes a pass of {NAMES[drafter]}." if drafter in NAMES else "")
        + " The tokens have the same distribution as those sampled from the model alone.",
        alt=f"{sum(accepted)} of {proposed} proposed tokens are accepted; {found.n_tokens} tokens in {passes}, "
        f"{per_pass.value:.2f} per pass.",
        table={
            "pass": x, "proposed": [len(each.proposed) for each in found.rounds], "accepted": accepted,
            "rejected": rejected, "written": [len(each.ids) for each in found.rounds],
            "all tokens": [found.n_tokens] * len(x), "passes": [len(x)] * len(x),
        },
        formula=per_pass.tex(), legend=meanings(per_pass),
    )  # fmt: skip


# ---- prefill and decode


def roofline(found: Roofline) -> Drawing:
    """Draw the FLOP/s of prefill and of a decode step by FLOPs per byte read, under this machine's roofline."""
    peak, stream = found.flops_per_second, found.bytes_per_second
    ridge = peak / stream
    intensity = [phase.flops / phase.bytes_read for phase in found.phases]
    speed = [phase.flops / phase.seconds.median for phase in found.phases]
    x = [min(*intensity, ridge) / 4, ridge, max(*intensity, ridge) * 4]
    figure = base_figure(320, showlegend=False)
    figure.add_scatter(x=x, y=[min(peak, stream * i) for i in x], mode="lines", line={"color": FAINT, "width": 3},
                       hoverinfo="skip")  # fmt: skip
    figure.add_scatter(
        x=intensity, y=speed, mode="markers+text", text=[phase.name for phase in found.phases],
        textposition="bottom center", marker={"color": PETROL, "size": 12}, hoverinfo="skip",
    )  # fmt: skip
    figure.update_layout(
        xaxis={"type": "log", "title": {"text": "FLOPs per byte read"}, "dtick": 1},
        yaxis={"type": "log", "title": {"text": "FLOP/s"}, "dtick": 1, "tickformat": "~s"},
    )
    prefill, one = found.phases
    equation = Equation(
        Value(one.flops, "F", "FLOPs of a decode step") / Value(one.bytes_read, "B", "bytes it reads"), digits=2
    )
    per_token = [phase.seconds.median / phase.n_tokens for phase in found.phases]
    return Drawing(
        figure,
        title=f"Per byte read, prefill does {intensity[0]:.1f} FLOPs and a decode step {intensity[1]:.2f}",
        note=f"Measured on this machine, one thread. Line: the roofline, {peak / 1e9:.1f} GFLOP/s in a matrix product "
        f"and {bytes_text(stream, binary=False)}/s in a copy. Prefill reads the weights once for "
        f"{count(prefill.n_tokens, 'token')}, {1e3 * per_token[0]:.3f} ms per token; a decode step reads them for one "
        f"token, {1e3 * per_token[1]:.3f} ms.",
        alt=f"Prefill at {intensity[0]:.1f} FLOPs per byte, decode at {intensity[1]:.2f}; the roofline bends at "
        f"{ridge:.1f}.",
        table={
            "phase": [phase.name for phase in found.phases], "tokens": [phase.n_tokens for phase in found.phases],
            "FLOPs": [phase.flops for phase in found.phases],
            "bytes read": [phase.bytes_read for phase in found.phases],
            "FLOPs per byte": [round(i, 2) for i in intensity],
            "ms per token": [round(1e3 * t, 3) for t in per_token],
        },
        formula=equation.tex(), legend=meanings(equation),
    )  # fmt: skip
