"""Figures of a few published models: the cache over the context, and a model with another attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, attention_name, count_parameters, kv_cache_bytes, what_if, with_its_scales
from attnviz.cost.cached import state_bytes
from attnviz.cost.sums import mixers
from attnviz.cost.units import bytes_text, context_text, tokens_text
from attnviz.cost.variants import kind_of, with_latent
from attnviz.equations import tex_lines
from attnviz.figures.chart import Chart
from attnviz.figures.cost.axes import binary_decades, log_range, share, spread
from attnviz.figures.cost.captions import (
    beyond_context,
    beyond_note,
    beyond_text,
    cached_tokens_text,
    heads_note,
    is_beyond,
    latent_note,
    latent_widths,
    short_name,
    written,
)
from attnviz.figures.cost.formulas import cache_equation, totals_formula
from attnviz.figures.cost.layered import layers_text
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import FAINT, base_figure, kind_style
from attnviz.mechanisms import Windowed
from attnviz.phrases import count, listed

CONTEXTS = tuple(2**k for k in range(10, 21))  # 1 K to 1 M tokens
HEIGHT = 480  # pixels


def growth_text(model: ModelConfig, precision: str = "bf16") -> str:
    """State the bytes that each token adds to the cache: fewer, once the first has left the window."""
    bits, block = PRECISIONS[precision]
    stored = with_its_scales(precision)

    def cached(n_tokens: int) -> int:
        return kv_cache_bytes(model, n_tokens, bits=bits, block_size=block)

    windows = {m.most_cached for _, m in mixers(model) if isinstance(m, Windowed) and m.most_cached is not None}
    state, held = state_bytes(model), max(windows, default=0)
    bounded = "chunks" if any(isinstance(m, Windowed) and m.chunked for _, m in mixers(model)) else "a window"
    first = cached(1) - state
    later = cached(held + 1) - cached(held) if held else first
    kept = f" A state of **{bytes_text(state)}** per sequence does not grow with the text." if state else ""
    if (span := math.lcm(*(m.entry_tokens for _, m in mixers(model)))) > 1:
        start = -(-held // span) * span  # the windows are full
        mean = (cached(start + span) - cached(start)) / span
        return (
            f"In {stored}, each token after the first {start:,} adds **{mean:,.0f} B** to the cache on average: "
            f"entries that stand for several tokens are added when these are complete.{kept}"
        )
    if not first:
        return f"No token adds to the cache: nothing is kept per token.{kept}"
    if later == first or held >= (model.max_context or math.inf):
        return f"Each token adds **{first:,} B** to the cache in {stored}.{kept}"
    if len(windows) > 1:
        return (
            f"In {stored}, the first token adds **{first:,} B** to the cache, and each token after the first {held:,} "
            f"**{later:,} B**.{kept}"
        )
    return (
        f"In {stored}, each of the first {held:,} tokens adds **{first:,} B** to the cache, and each token after them "
        f"**{later:,} B**: a layer with {bounded} caches at most {held:,} tokens.{kept}"
    )


def totals(models: Sequence[ModelConfig], n_tokens: int) -> Drawing:
    """Draw the bf16 cache of one sequence from 1 K to 1 M tokens; dotted beyond a model's context."""
    longest = max(len(short_name(m)) for m in models)
    figure = base_figure(HEIGHT, showlegend=False, hovermode="x unified", margin={"r": 16 + 7 * longest})
    for model in models:
        for trace in _line(model):
            figure.add_trace(trace)
    ends = [kv_cache_bytes(m, CONTEXTS[-1]) for m in models]
    y = log_range([kv_cache_bytes(m, CONTEXTS[0]) for m in models] + ends)
    _name_ends(figure, models, ends, y)
    ticks = [CONTEXTS[0], CONTEXTS[3], CONTEXTS[5], CONTEXTS[7], CONTEXTS[-1]]
    figure.update_xaxes(type="log", title="tokens", tickvals=ticks, ticktext=[tokens_text(n) for n in ticks])
    figure.update_yaxes(type="log", range=y, **binary_decades(y))
    figure.add_vline(x=n_tokens, line={"color": FAINT, "width": 6})
    sizes = {m: kv_cache_bytes(m, n_tokens) for m in models}
    ranked = sorted(models, key=sizes.__getitem__)
    extremes = listed(f"{short_name(m)} {bytes_text(sizes[m])}" for m in dict.fromkeys((ranked[0], ranked[-1])))
    title = f"At {context_text(n_tokens)}: {extremes}"
    return Drawing(
        figure,
        title=title,
        note="The cache of one sequence in bf16. If layers have a window, the line bends. Dotted: longer than the "
        f"model was made for. {beyond_note(models, n_tokens)}".rstrip(),
        more="Both axes are logarithmic; 1 GiB is 1,073,741,824 bytes.",
        alt=f"{title}. All: {listed(f'{short_name(m)} {bytes_text(n)}' for m, n in sizes.items())}. "
        f"{beyond_text(models, n_tokens)}",
        table={
            "model": [m.name for m in models],
            "attention": [attention_name(m) for m in models],
            "made for (tokens)": [written(m.max_context) for m in models],
            f"{tokens_text(n_tokens)} is beyond that": [is_beyond(m, n_tokens) for m in models],
            "cached": [assumption(m) for m in models],
            **{f"bytes at {tokens_text(n)}": [kv_cache_bytes(m, n) for m in models] for n in (n_tokens, *CONTEXTS)},
        },
        formula=totals_formula({short_name(m): m for m in models}, n_tokens),
    )


def alternatives(model: ModelConfig, n_tokens: int) -> Drawing:
    """Draw the cache of this model as MHA, GQA, MQA and MLA."""
    others = what_if(model)
    names = [f"{attention_name(m)} (as it is)" if m == model else attention_name(m) for m in others]
    if model not in others:
        others, names = [model, *others], [f"{attention_name(model)} (as it is)", *names]
    sizes = [kv_cache_bytes(m, n_tokens) for m in others]
    figure = base_figure(56 + 40 * len(others), showlegend=False)
    figure.add_bar(
        orientation="h", x=sizes, y=names,
        marker={
            "color": [kind_style(kind_of(m))["colour"] for m in others],
            "pattern": {"shape": "/" if is_beyond(model, n_tokens) else ""},
        },
        text=[f" {bytes_text(n)}" for n in sizes], textposition="outside", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(range=[0, max(sizes) * 1.3], visible=False)
    here, least, most = kv_cache_bytes(model, n_tokens), min(sizes), max(sizes)
    heads = f"{heads} " if (heads := heads_note(model, n_tokens)) else ""
    smallest, largest = (attention_name(others[sizes.index(n)]) for n in (least, most))
    title = (
        f"{short_name(model)}: {bytes_text(here)}; as {smallest} {bytes_text(least)}, as {largest} {bytes_text(most)}"
    )
    equation = cache_equation(model, n_tokens)
    return Drawing(
        figure,
        title=title,
        note=f"{beyond_context(model, n_tokens)}One sequence of {context_text(n_tokens)} in bf16, with another "
        f"attention, all else unchanged. MLA: {latent_widths(with_latent(model))}. "
        f"{heads}Effects on quality are not computed."
        f"{' Hatched: beyond its context.' if is_beyond(model, n_tokens) else ''}",
        more=f"MLA has {latent_note(model)}.",
        alt=f"{title}. " + "; ".join(f"{name}: {bytes_text(n)}" for name, n in zip(names, sizes, strict=True)) + ".",
        table={
            "attention": names,
            "cache bytes": sizes,
            "cache bytes for one token": [kv_cache_bytes(m, 1) for m in others],
            "attention parameters per layer": [count_parameters(m).attention_per_layer for m in others],
            "parameters": [count_parameters(m).total for m in others],
        },
        formula=tex_lines(equation),
        legend=meanings(equation),
    )


def assumption(model: ModelConfig) -> str:
    """Describe in a few words what a layer caches per token, or the layers where they differ."""
    if model.mixed_layers:
        return layers_text(model)
    heads = model.mixer.assumption(model.d_model)
    if model.sliding_window is None:
        return heads
    n_full = len(set(model.full_layers))
    windowed = f"{model.n_layers - n_full} of {count(model.n_layers, 'layer')}"
    return f"{heads}; {windowed} cache at most {cached_tokens_text(model)}"


def _line(model: ModelConfig) -> list[dict]:
    """Return one model's line, solid up to its context and dotted beyond it."""
    style, made_for = kind_style(kind_of(model)), min(model.max_context or CONTEXTS[-1], CONTEXTS[-1])
    contexts = sorted({*CONTEXTS, made_for})
    parts = [n for n in contexts if n <= made_for], [n for n in contexts if n >= made_for]
    return [
        {
            "type": "scatter", "mode": "lines+markers", "name": short_name(model),
            "x": part, "y": [kv_cache_bytes(model, n) for n in part],
            "line": {"color": style["colour"], "dash": dash, "width": 2},
            "marker": {"symbol": style["symbol"] + hollow, "size": 6},
            "customdata": [bytes_text(kv_cache_bytes(model, n)) for n in part], "hovertemplate": "%{customdata}",
            "hoverinfo": None if dash == "solid" else "skip",
        }
        for part, dash, hollow in zip(parts, ("solid", "dot"), ("", "-open"), strict=True)
        if len(part) > 1
    ]  # fmt: skip


def _name_ends(figure: Chart, models: Sequence[ModelConfig], ends: list[int], y: list[float]) -> None:
    """Add every line's name at its right end, moved apart if lines end close together."""
    plot = HEIGHT - 60
    heights = spread([share(n, y) * plot for n in ends], gap=15)
    for model, height in zip(models, heights, strict=True):
        figure.add_annotation(
            x=1, y=height / plot, xref="paper", yref="paper", text=short_name(model), showarrow=False,
            xanchor="left", yanchor="middle", font={"size": 12}, xshift=4,
        )  # fmt: skip
