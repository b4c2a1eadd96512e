"""The measured duration of a decode step on this server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import quantiles
from typing import TYPE_CHECKING

from attnviz.config import ModelConfig
from attnviz.cost import attention_name, kv_cache_bytes
from attnviz.cost.units import bytes_text, context_text, tokens_text
from attnviz.equations import tex_lines
from attnviz.figures.cost.captions import latent_widths
from attnviz.figures.cost.formulas import cache_equation
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import base_figure, kind_style
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.experiments.measurement import Timing


def measured(timings: Sequence[Timing], n_threads: int) -> Drawing:
    """Draw the milliseconds of a decode step over the tokens in the cache: median and interquartile range."""
    figure = base_figure(400, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    by_model: dict[ModelConfig, list[Timing]] = {}
    for timing in timings:
        by_model.setdefault(timing.config, []).append(timing)
    for config, own in by_model.items():
        figure.add_trace(_line(config, own))
    contexts = sorted({t.n_tokens for t in timings})
    figure.update_xaxes(
        type="log", title="tokens in the cache", tickvals=contexts, ticktext=[tokens_text(n) for n in contexts]
    )
    figure.update_yaxes(title="milliseconds per token", rangemode="tozero")
    n_repeats, title, first = len(timings[0].seconds), _finding(by_model), timings[0].config
    equation = cache_equation(first, max(contexts), bits=32)
    return Drawing(
        figure,
        title=title,
        note=f"One new token on this server's CPU, {count(n_threads, 'thread')}: the median of {n_repeats} steps; "
        "error bars span the middle half.",
        more="The live modules run in float32. The cache holds random keys and values; its buffers have room for the "
        f"new token, so no step copies it.{_latent_note(by_model)} The equation is the cache of "
        f"{attention_name(first)}.",
        alt=f"{title}. " + "; ".join(
            f"{attention_name(t.config)} after {t.n_tokens:,} tokens {t.median * 1000:.2f} ms" for t in timings
        ) + ".",
        table={
            "attention": [attention_name(t.config) for t in timings],
            "tokens": [t.n_tokens for t in timings],
            "median, ms": [round(t.median * 1000, 3) for t in timings],
            "fastest, ms": [round(min(t.seconds) * 1000, 3) for t in timings],
            "slowest, ms": [round(max(t.seconds) * 1000, 3) for t in timings],
            "repeats": [len(t.seconds) for t in timings],
            "cache bytes, counted": [t.cache_bytes for t in timings],
            "cache bytes, by formula": [kv_cache_bytes(t.config, t.n_tokens, bits=32) for t in timings],
        },
        formula=tex_lines(equation),
        legend=meanings(equation),
    )  # fmt: skip


def _line(config: ModelConfig, timings: list[Timing]) -> dict:
    style, medians = kind_style(config.mixer.kind), [t.median * 1000 for t in timings]
    middle = [quantiles(t.seconds, n=4) for t in timings]
    return {
        "type": "scatter",
        "x": [t.n_tokens for t in timings],
        "y": medians,
        "name": attention_name(config),
        "mode": "lines+markers",
        "line": {"color": style["colour"], "dash": style["dash"]},
        "marker": {"symbol": style["symbol"], "size": 9},
        "error_y": {
            "array": [high * 1000 - m for (_, _, high), m in zip(middle, medians, strict=True)],
            "arrayminus": [m - low * 1000 for (low, _, _), m in zip(middle, medians, strict=True)],
            "thickness": 1,
            "width": 3,
        },
        "customdata": [bytes_text(t.cache_bytes) for t in timings],
        "hovertemplate": "%{y:.2f} ms, cache %{customdata}",
    }


def _finding(by_model: dict[ModelConfig, list[Timing]]) -> str:
    """Compare the first model with the fastest other one, at the longest context of the first."""
    first, own = next(iter(by_model.items()))
    last = own[-1]
    others = [t for config, ts in by_model.items() if config != first for t in ts if t.n_tokens == last.n_tokens]
    where = f"after {context_text(last.n_tokens)}"
    if not others:
        return f"{attention_name(first)} takes {last.median * 1000:.2f} ms per token {where}"
    fastest = min(others, key=lambda t: t.median)
    name, other = attention_name(first), attention_name(fastest.config)
    return f"{name} takes {last.median * 1000:.1f} ms per token {where}, {other} {fastest.median * 1000:.1f} ms"


def _latent_note(configs: Iterable[ModelConfig]) -> str:
    widths = [latent_widths(config) for config in configs if config.mixer.absorbed]
    return f" MLA runs in its absorbed form, with {widths[0]}." if widths else ""
