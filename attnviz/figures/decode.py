"""Captions and figures of the Decode page: the cache in bytes, work with and without it, the sampled token.

S tokens cached, L layers, K KV heads, D head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnviz.config import ModelConfig
from attnviz.equations import Equation, Expression, Value
from attnviz.figures.chart import Chart
from attnviz.figures.drawing import Drawing
from attnviz.figures.numbers import printed
from attnviz.figures.phrases import count, meanings
from attnviz.figures.theme import FAINT, NEUTRAL, base_figure, kind_style
from attnviz.figures.token_maps import BARE

if TYPE_CHECKING:
    from attnviz.decode.comparisons import Compared, Member, Spread
    from attnviz.decode.writing import WrittenStep

FLOAT32 = 4  # bytes per number
NAMES = {"mha": "MHA", "gqa-4": "GQA-4", "gqa-2": "GQA-2", "mqa": "MQA", "mla": "MLA"}
KINDS_OF = {"mha": "mha", "gqa-4": "gqa", "gqa-2": "gqa", "mqa": "mqa", "mla": "mla"}
FILTERS = ("top-k", "top-p", "min-p")  # stages that can remove tokens
DASHES = {"mha": "solid", "gqa-4": "solid", "gqa-2": "dash", "mqa": "solid", "mla": "dot"}


def cache_equation(config: ModelConfig, n_tokens: int) -> Equation:
    """Return the equation of the cache bytes of all layers, in float32."""
    layers, tokens = Value(config.n_layers, "L", "layers"), Value(n_tokens, "S", "tokens cached")
    width = Value(FLOAT32, "b", "bytes per number")
    if config.attention == "mla":
        latent = Value(config.kv_lora_rank, "R", "kv_lora_rank, width of the latent")
        rotated = Value(config.qk_rope_head_dim, "P", "qk_rope_head_dim, width of the rotated key")
        n_bytes: Expression = layers * tokens * (latent + rotated) * width
    else:
        heads, dims = Value(config.n_kv_heads, "K", "KV heads"), Value(config.head_dim, "D", "head_dim")
        n_bytes = 2 * layers * tokens * heads * dims * width
    return Equation(n_bytes, unit="B")


def cache_text(config: ModelConfig, n_tokens: int, counted: int) -> str:
    """Return the formula with its numbers, and the bytes counted in the live tensors."""
    return f"{cache_equation(config, n_tokens).text()}; {counted:,} B counted in the live tensors"


def cache_legend(config: ModelConfig) -> str:
    """Return the meanings of the formula's letters; the number of tokens is only in the formula."""
    return meanings(cache_equation(config, 1)).replace("S = 1: tokens cached", "S: tokens cached")


def cache_parts(config: ModelConfig) -> list[list]:
    """List the vectors cached per token in one layer: [name, numbers, KV head or −1] for each tensor and head."""
    if config.attention == "mla":
        return [["latent", config.kv_lora_rank, -1], ["RoPE key", config.qk_rope_head_dim, -1]]
    return [[f"{name}{head}", config.head_dim, head] for head in range(config.n_kv_heads) for name in "KV"]


def said_of(step: WrittenStep, n_tokens: int) -> str:
    """State what prefill caches of the text, and what each step reads after it."""
    held = sum(step.layer_bytes)
    return (
        f"Prefill reads the prompt's {count(n_tokens, 'token')} in one pass and caches {held:,} B, "
        f"{held // n_tokens:,} B per token. Each step then reads one token and the cache."
    )


def choice_title(step: WrittenStep, vocabulary: Sequence[str]) -> str:
    """Name the token that is written with its probability, and the most likely one if that is another."""
    probabilities = dict(zip(step.candidates, step.stages[0][1], strict=True))
    best = max(probabilities, key=probabilities.__getitem__)
    token = f"“{vocabulary[step.id]}”, probability {printed(step.probability)}"
    if probabilities[step.id] == probabilities[best]:
        return f"{token}, the most likely"
    return f"{token}; most likely “{vocabulary[best]}”, {printed(probabilities[best])}"


def passing_text(step: WrittenStep, n_vocabulary: int) -> str:
    """State how many tokens pass the filters of one step."""
    names = [name for name, _ in step.stages]
    if names[-1] == "greedy":
        return "Greedy decoding takes the most likely token."
    removing = [name for name in names if name in FILTERS]
    if not removing:
        return "No filter removes a token."
    left, by = step.left[-1], removing[0] if len(removing) == 1 else "the filters"
    return f"{left:,} of {n_vocabulary:,} tokens {'passes' if left == 1 else 'pass'} {by}."


def single_text(steps: Sequence[WrittenStep]) -> str:
    """State in how many steps one token alone passes the filters, if in more than half of them; "" otherwise."""
    single = sum(step.left[-1] == 1 for step in steps)
    if steps[0].stages[-1][0] == "greedy" or 2 * single <= len(steps):
        return ""
    return f"In {single} of {count(len(steps), 'step')} computed so far, only one token passes the filters."


# ---- with and without a cache


def work(found: Compared) -> Drawing:
    """Draw the multiplications and bytes read of one step, with a cache and without."""
    with_cache, without = found.cached, found.anew
    rows = {
        "multiplications": (with_cache.multiplications, without.multiplications),
        "bytes of weights read": (with_cache.weight_bytes, without.weight_bytes),
        "bytes of cache read": (with_cache.cache_bytes, without.cache_bytes),
    }
    figure = base_figure(240, barmode="group", bargap=0.3)
    for name, colour, values in (
        ("with a cache", NEUTRAL, [row[0] for row in rows.values()]),
        ("without a cache", FAINT, [row[1] for row in rows.values()]),
    ):
        figure.add_bar(
            x=[v or None for v in values], y=list(rows), orientation="h", name=name, marker={"color": colour},
            text=[f"{v:,}" for v in values], textposition="outside", cliponaxis=False, hoverinfo="skip",
        )  # fmt: skip
    most = max(max(row) for row in rows.values())
    figure.update_layout(
        xaxis={**BARE, "type": "log", "range": [3, math.log10(most) + 1.6], "showticklabels": False},
        yaxis={**BARE, "autorange": "reversed"}, legend={"orientation": "h", "y": 1.2},
    )  # fmt: skip
    share = Equation(
        Value(without.multiplications, "A", "multiplications without a cache")
        / Value(with_cache.multiplications, "C", "multiplications with a cache")
    )
    return Drawing(
        figure,
        title=f"With a cache one step takes 1/{share.value:.1f} of the multiplications",
        note=f"The step that reads the last of {found.n_tokens} tokens: with the cache of all tokens before it, and "
        "without a cache, where all of them are recomputed. By formula; the axis is logarithmic. Weights are read once "
        f"either way: the cache saves arithmetic. Largest difference of the logits: {found.difference:.1e}.",
        alt=f"A step with a cache takes {with_cache.multiplications:,} multiplications, without a cache "
        f"{without.multiplications:,}: 1/{share.value:.1f}.",
        table={
            "": list(rows), "with a cache": [row[0] for row in rows.values()],
            "without a cache": [row[1] for row in rows.values()],
        },
        formula=share.tex(), legend=meanings(share),
    )  # fmt: skip


def step_times(found: Compared) -> Drawing:
    """Draw the milliseconds of one step, measured here."""
    names, times = ["with a cache", "without a cache"], [found.cached_seconds, found.anew_seconds]
    slower = found.anew_seconds.median / found.cached_seconds.median
    return Drawing(
        _times(names, times),
        title=f"Measured here: without a cache, {found.n_tokens} tokens take {slower:.1f} times as long",
        note="Bars: median of 9 runs on this machine; lines: from the first to the third quartile. A short text needs "
        "so little arithmetic that reading the weights takes most of the time either way.",
        alt=f"A step over {found.n_tokens} tokens: median {_ms(times[0].median)} with a cache, {_ms(times[1].median)} "
        f"without, {slower:.1f} times as long.",
        table={
            "": names, "median, ms": [round(1e3 * t.median, 3) for t in times],
            "first quartile, ms": [round(1e3 * t.low, 3) for t in times],
            "third quartile, ms": [round(1e3 * t.high, 3) for t in times],
            "times as long": [1.0, round(slower, 1)],
        },
    )  # fmt: skip


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _times(names: Sequence[str], times: Sequence[Spread], colours: Sequence[str] | None = None) -> Chart:
    """Draw milliseconds as bars with their quartiles."""
    figure = base_figure(60 + 40 * len(names), showlegend=False)
    middle = [1e3 * t.median for t in times]
    figure.add_bar(
        x=middle, y=list(names), orientation="h", marker={"color": colours or NEUTRAL}, hoverinfo="skip",
        text=[f"{m:.2f} ms" for m in middle], textposition="inside", insidetextanchor="start",
        error_x={
            "type": "data", "symmetric": False, "array": [1e3 * (t.high - t.median) for t in times],
            "arrayminus": [1e3 * (t.median - t.low) for t in times], "color": FAINT, "thickness": 2,
        },
    )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "milliseconds"}, "rangemode": "tozero"}, yaxis={**BARE, "autorange": "reversed"}
    )
    return figure


# ---- the five checkpoints


def rate_of(member: Member) -> int:
    """Return the tokens per second of the median step."""
    return round(1 / member.seconds.median)


def growth(found: Sequence[Member], n_tokens: int) -> Drawing:
    """Draw the growth of the checkpoints' caches on one scale."""
    figure = base_figure(300, legend={"orientation": "h", "y": 1.15})
    n = max(len(member.ids) for member in found)
    x = [n_tokens, n_tokens + n]
    for member in found:
        style = kind_style(KINDS_OF[member.model])
        figure.add_scatter(
            x=x, y=[member.token_bytes * t for t in x], mode="lines", name=NAMES[member.model],
            line={"color": style["colour"], "dash": DASHES[member.model], "width": 2},
            hovertemplate="%{x} tokens: %{y:,} B<extra>" + NAMES[member.model] + "</extra>",
        )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "tokens"}}, yaxis={"title": {"text": "bytes cached"}, "rangemode": "tozero"}
    )
    most, least = max(found, key=lambda m: m.token_bytes), min(found, key=lambda m: m.token_bytes)
    return Drawing(
        figure,
        title=f"{NAMES[most.model]} caches {most.token_bytes:,} B per token, {NAMES[least.model]} "
        f"{least.token_bytes:,} B",
        note=f"The five trained checkpoints continue the same text by {count(n, 'token')}. Bytes are counted in the "
        "live caches of all layers, float32.",
        alt="; ".join(f"{NAMES[m.model]} caches {m.token_bytes:,} B per token" for m in found) + ".",
        table={
            "model": [NAMES[m.model] for m in found], "bytes per token": [m.token_bytes for m in found],
            f"bytes after {x[1]} tokens": [m.token_bytes * x[1] for m in found],
        },
    )  # fmt: skip


def family_times(found: Sequence[Member]) -> Drawing:
    """Draw the milliseconds of each checkpoint's decode step, measured here."""
    fastest = min(found, key=lambda m: m.seconds.median)
    slowest = max(found, key=lambda m: m.seconds.median)
    apart = slowest.seconds.median / fastest.seconds.median
    names = [NAMES[m.model] for m in found]
    rates = [rate_of(m) for m in found]
    return Drawing(
        _times(names, [m.seconds for m in found]),
        title=f"Measured here: the slowest step takes {apart:.1f} times the fastest",
        note="Bars: median time of a decode step, the models measured in turn; lines: from the first to the third "
        f"quartile. {_smallest_vs_largest(found)} In models this small, a step reads more bytes of weights than of "
        "cache. If a cache takes gigabytes, reading it limits the step.",
        alt="; ".join(f"{name} {_ms(m.seconds.median)}" for name, m in zip(names, found, strict=True))
        + f". The slowest takes {apart:.1f} times the fastest.",
        table={
            "model": names, "median, ms": [round(1e3 * m.seconds.median, 3) for m in found], "tokens per second": rates,
            "times the fastest": [round(m.seconds.median / fastest.seconds.median, 1) for m in found],
        },
    )  # fmt: skip


def _smallest_vs_largest(found: Sequence[Member]) -> str:
    """Compare the step with the smallest cache with that of the largest."""
    most, least = max(found, key=lambda m: m.token_bytes), min(found, key=lambda m: m.token_bytes)
    return (
        f"{NAMES[least.model]} caches 1/{most.token_bytes / least.token_bytes:g} of {NAMES[most.model]}'s bytes, and "
        f"its step takes {least.seconds.median / most.seconds.median:.2f} times as long."
    )
