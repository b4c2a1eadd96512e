"""Figures of published models: cache per token, cache over the context, and each model with another attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from attnviz.config import ModelConfig
from attnviz.cost import attention_name, count_parameters, expanded_cache_bytes, kv_cache_bytes, what_if
from attnviz.cost.cached import state_bytes
from attnviz.cost.sums import mixers
from attnviz.cost.units import bytes_text, context_text, count_text, tokens_text
from attnviz.cost.variants import with_latent
from attnviz.equations import tex_lines, tex_text
from attnviz.figures.chart import Chart
from attnviz.figures.cost.captions import (
    beyond_context,
    beyond_note,
    beyond_text,
    cached_tokens_text,
    is_beyond,
    latent_note,
    latent_widths,
    short_name,
    written,
)
from attnviz.figures.cost.formulas import cache_equation, totals_formula
from attnviz.figures.cost.labels import FAR, MARK, Spot, place, spread
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import bold, meanings
from attnviz.figures.theme import FAINT, NEUTRAL, base_figure, faded, kind_style
from attnviz.mechanisms import MIXERS, Windowed
from attnviz.phrases import count, listed

CONTEXTS = tuple(2**k for k in range(10, 21))  # 1 K to 1 M tokens
HEIGHT, TALL, LEGEND = 480, 580, 40  # pixels; TALL: of the plot with a label for each model
SMALL, LARGE = 8, 13  # marker sizes
WELL_KNOWN = (  # named first if names would overlap
    "llama-3-8b", "deepseek-v3", "gpt2-small", "mistral-7b-v0.1", "qwen3-8b", "gemma-3-27b", "gpt-oss-120b",
    "llama-3.1-405b",
)  # fmt: skip


def growth_text(model: ModelConfig) -> str:
    """State the bytes that each token adds to the bf16 cache: fewer, once the first has left the window."""
    windows = {m.most_cached for _, m in mixers(model) if isinstance(m, Windowed) and m.most_cached is not None}
    state, held = state_bytes(model), max(windows, default=0)
    bounded = "chunks" if any(isinstance(m, Windowed) and m.chunked for _, m in mixers(model)) else "a window"
    first = kv_cache_bytes(model, 1) - state
    later = kv_cache_bytes(model, held + 1) - kv_cache_bytes(model, held) if held else first
    kept = f" A state of **{bytes_text(state)}** per sequence does not grow with the text." if state else ""
    if (span := math.lcm(*(m.entry_tokens for _, m in mixers(model)))) > 1:
        start = -(-held // span) * span  # the windows are full
        mean = (kv_cache_bytes(model, start + span) - kv_cache_bytes(model, start)) / span
        return (
            f"In bf16, each token after the first {start:,} adds **{mean:,.0f} B** to the cache on average: entries "
            f"that stand for several tokens are added when these are complete.{kept}"
        )
    if not first:
        return f"No token adds to the cache: nothing is kept per token.{kept}"
    if later == first or held >= (model.max_context or math.inf):
        return f"Each token adds **{first:,} B** to the cache in bf16.{kept}"
    if len(windows) > 1:
        return (
            f"In bf16, the first token adds **{first:,} B** to the cache, and each token after the first {held:,} "
            f"**{later:,} B**.{kept}"
        )
    return (
        f"In bf16, each of the first {held:,} tokens adds **{first:,} B** to the cache, and each token after them "
        f"**{later:,} B**: a layer with {bounded} caches at most {held:,} tokens.{kept}"
    )


def published(models: Sequence[ModelConfig], chosen: Sequence[ModelConfig]) -> Drawing:
    """Draw each model's bf16 cache per token over its parameters, both logarithmic; the chosen ones stand out."""
    size = {m: count_parameters(m).total for m in models}
    cost = {m: kv_cache_bytes(m, 1) for m in models}
    figure = base_figure(TALL, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"}, margin={"t": LEGEND})
    for kind in MIXERS:
        figure.add_trace(_kind([m for m in models if m.mixer.kind == kind], kind, size, cost, chosen))
    x, y = _log_range(size.values()), _log_range(cost.values())
    figure.update_xaxes(type="log", range=x, title="parameters", **_decades(x, count_text))
    figure.update_yaxes(
        type="log", range=y, title="cache per token, bf16", **_decades(y, lambda n: bytes_text(n, binary=False))
    )
    rest = sorted((m for m in models if m not in chosen), key=lambda m: m.id not in WELL_KNOWN)
    numbered = _label(figure, [*chosen, *rest], len(chosen), size, cost, x, y)
    largest = max(models, key=size.__getitem__)
    dearer = min((m for m in models if cost[m] > cost[largest]), key=size.__getitem__, default=largest)
    title = f"{short_name(largest)} ({count_text(size[largest])} parameters) has the largest cache per token"
    if dearer != largest:
        title = (
            f"{short_name(largest)} ({count_text(size[largest])} parameters) caches less per token than "
            f"{short_name(dearer)} ({count_text(size[dearer])})"
        )
    equation = cache_equation(largest, 1)
    return Drawing(
        figure,
        title=title,
        note=f"{len(models)} published models: bytes cached per token in bf16 against the number of parameters. The "
        "marker's shape is the type of attention; numbers stand for names listed below. With sliding windows, a long "
        "text takes less than this number times its tokens.",
        more="Counted by formula; 1 kB is 1,000 bytes. A number stands where a name does not fit; overlapping models "
        "share a label.",
        below=" · ".join(f"**{i}** {short_name(m)}" for i, m in enumerate(numbered, 1)),
        alt=f"{title}: {cost[largest]:,} and {cost[dearer]:,} bytes. Most: {_extreme(cost, max)}; least: "
        f"{_extreme(cost, min)}.",
        table=published_table(models),
        formula=rf"{tex_text(f'{short_name(largest)}, one token: ')}{tex_lines(equation)}",
        legend=meanings(equation),
    )


def published_table(models: Sequence[ModelConfig]) -> dict[str, list]:
    """Return the table of the models, in the order given."""
    counts = [count_parameters(m) for m in models]
    return {
        "model": [m.name for m in models],
        "year": ["–" if m.year is None else str(m.year) for m in models],
        "attention": [attention_name(m) for m in models],
        "parameters": [c.total for c in counts],
        "used per token (one row of an untied embedding)": [c.used_per_token for c in counts],
        "attention parameters per layer": [c.attention_per_layer for c in counts],
        "layers": [m.n_layers for m in models],
        "query heads": [m.n_heads for m in models],
        "KV heads": [m.n_kv_heads for m in models],
        "head_dim": [m.head_dim for m in models],
        "window": [written(m.sliding_window) for m in models],
        "made for (tokens)": [written(m.max_context) for m in models],
        "cache bytes for one token (bf16)": [kv_cache_bytes(m, 1) for m in models],
    }


def totals(models: Sequence[ModelConfig], n_tokens: int) -> Drawing:
    """Draw the bf16 cache of one sequence from 1 K to 1 M tokens; dotted beyond a model's context."""
    longest = max(len(short_name(m)) for m in models)
    figure = base_figure(HEIGHT, showlegend=False, hovermode="x unified", margin={"r": 16 + 7 * longest})
    for model in models:
        for trace in _line(model):
            figure.add_trace(trace)
    ends = [kv_cache_bytes(m, CONTEXTS[-1]) for m in models]
    y = _log_range([kv_cache_bytes(m, CONTEXTS[0]) for m in models] + ends)
    _name_ends(figure, models, ends, y)
    ticks = [CONTEXTS[0], CONTEXTS[3], CONTEXTS[5], CONTEXTS[7], CONTEXTS[-1]]
    figure.update_xaxes(type="log", title="tokens", tickvals=ticks, ticktext=[tokens_text(n) for n in ticks])
    figure.update_yaxes(type="log", range=y, **_binary_decades(y))
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
            "color": [kind_style(m.mixer.kind)["colour"] for m in others],
            "pattern": {"shape": "/" if is_beyond(model, n_tokens) else ""},
        },
        text=[f" {bytes_text(n)}" for n in sizes], textposition="outside", cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(range=[0, max(sizes) * 1.3], visible=False)
    here, least, most = kv_cache_bytes(model, n_tokens), min(sizes), max(sizes)
    expanded, own = "", expanded_cache_bytes(model, n_tokens)
    if own is not None:
        expanded = f"With each head's keys and values expanded, it would cache {bytes_text(own)}. "
    smallest, largest = (attention_name(others[sizes.index(n)]) for n in (least, most))
    title = (
        f"{short_name(model)}: {bytes_text(here)}; as {smallest} {bytes_text(least)}, as {largest} {bytes_text(most)}"
    )
    equation = cache_equation(model, n_tokens)
    return Drawing(
        figure,
        title=title,
        note=f"{beyond_context(model, n_tokens)}One sequence of {context_text(n_tokens)} in bf16, with another "
        f"attention and all else unchanged. MLA: {latent_widths(with_latent(model))}. Effects on quality are not "
        f"computed.{' Hatched: beyond its context.' if is_beyond(model, n_tokens) else ''}",
        more=f"{expanded}MLA has {latent_note(model)}.",
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
    """Describe in a few words what a layer caches per token."""
    heads = model.mixer.assumption(model.d_model)
    if model.sliding_window is None:
        return heads
    n_full = len(set(model.full_layers))
    windowed = f"{model.n_layers - n_full} of {count(model.n_layers, 'layer')}"
    return f"{heads}; {windowed} cache at most {cached_tokens_text(model)}"


def _kind(models: Sequence[ModelConfig], kind: str, size: dict, cost: dict, chosen: Sequence[ModelConfig]) -> dict:
    style = kind_style(kind)
    return {
        "type": "scatter",
        "x": [size[m] for m in models],
        "y": [cost[m] for m in models],
        "mode": "markers",
        "name": kind.upper(),
        "marker": {
            "symbol": style["symbol"],
            "color": [style["colour"] if m in chosen or not chosen else faded(style["colour"], 0.4) for m in models],
            "size": [LARGE if m in chosen else SMALL for m in models],
            "line": {"width": [2 if m in chosen else 1 for m in models], "color": style["colour"]},
            "opacity": 1,  # plotly's own, where sizes differ, is 0.7
        },
        "customdata": [[m.name, attention_name(m), f"{size[m]:,}", f"{cost[m]:,}", assumption(m)] for m in models],
        "hovertemplate": "<b>%{customdata[0]}</b>, %{customdata[1]}<br>%{customdata[2]} parameters<br>"
        "%{customdata[3]} bytes for one token<br>%{customdata[4]}<extra></extra>",
    }


def _label(
    figure: Chart, models: Sequence[ModelConfig], n_chosen: int, size: dict, cost: dict, x: list[float], y: list[float]
) -> list[ModelConfig]:
    """Add names beside the markers, the chosen ones first, and numbers elsewhere; return the numbered models."""
    points = [(_share(size[m], x), _share(cost[m], y)) for m in models]
    names = [short_name(m) for m in models]
    labels = place(points, names, TALL - LEGEND - 60, n_chosen)
    named = [(i, bold(names[i], i < n_chosen), spot, NEUTRAL) for i, spot in enumerate(labels.names)]
    for i, text, spot, line in [*named, *((n.point, n.text, n.spot, FAINT) for n in labels.numbers)]:
        if spot:
            stands = _led_to(spot, line) if spot in FAR else _at(spot)
            figure.add_annotation(
                x=math.log10(size[models[i]]), y=math.log10(cost[models[i]]), text=text, font={"size": 12},
                xanchor=spot.xanchor, yanchor="middle", borderpad=0, **stands,
            )  # fmt: skip
    return [models[i] for i in labels.numbered]


def _at(spot: Spot) -> dict:
    return {"showarrow": False, "xshift": spot.xshift, "yshift": spot.yshift}  # an invisible arrow takes twice the time


def _led_to(spot: Spot, colour: str) -> dict:
    return {
        "showarrow": True, "ax": spot.xshift, "ay": -spot.yshift,
        "arrowhead": 0, "arrowwidth": 1, "arrowcolor": colour, "standoff": MARK,
    }  # fmt: skip


def _line(model: ModelConfig) -> list[dict]:
    """Return one model's line, solid up to its context and dotted beyond it."""
    style, made_for = kind_style(model.mixer.kind), min(model.max_context or CONTEXTS[-1], CONTEXTS[-1])
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
    heights = spread([_share(n, y) * plot for n in ends], gap=15)
    for model, height in zip(models, heights, strict=True):
        figure.add_annotation(
            x=1, y=height / plot, xref="paper", yref="paper", text=short_name(model), showarrow=False,
            xanchor="left", yanchor="middle", font={"size": 12}, xshift=4,
        )  # fmt: skip


def _share(value: float, log_range: list[float]) -> float:
    low, high = log_range
    return (math.log10(value) - low) / (high - low)


def _log_range(values: Iterable[float]) -> list[float]:
    """Return the decimal logarithms of the smallest and largest value, with a margin."""
    logs = [math.log10(v) for v in values]
    room = 0.06 * (max(logs) - min(logs)) + 0.05
    return [min(logs) - room, max(logs) + room]


def _decades(log_range: list[float], text: Callable[[float], str]) -> dict[str, list]:
    ticks = [10**k for k in range(math.ceil(log_range[0]), math.floor(log_range[1]) + 1)]
    return {"tickvals": ticks, "ticktext": [text(n) for n in ticks]}


def _binary_decades(log_range: list[float]) -> dict[str, list]:
    """Return ticks at every KiB, MiB, GiB … and at 32 times each of them."""
    powers = [2.0 ** (5 * k) for k in range(4, 14)]
    ticks = [n for n in powers if log_range[0] <= math.log10(n) <= log_range[1]]
    return {"tickvals": ticks, "ticktext": [bytes_text(n) for n in ticks]}


def _extreme(cost: dict, best: Callable) -> str:
    model = best(cost, key=cost.__getitem__)
    return f"{short_name(model)} with {cost[model]:,} bytes"
