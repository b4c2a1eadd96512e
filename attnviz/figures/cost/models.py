"""Every published model as a point: the cache per token over the parameters, or by year."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from attnviz.config import ModelConfig
from attnviz.cost import attention_name, count_parameters, kv_cache_bytes
from attnviz.cost.cached import state_bytes
from attnviz.cost.units import bytes_text, count_text
from attnviz.cost.variants import KINDS, kind_of
from attnviz.equations import tex_lines, tex_text
from attnviz.figures.chart import Chart
from attnviz.figures.cost.axes import binary_decades, decades, log_range, share, spread
from attnviz.figures.cost.captions import short_name, written
from attnviz.figures.cost.formulas import cache_equation
from attnviz.figures.cost.published import assumption
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import bold, meanings
from attnviz.figures.theme import NEUTRAL, base_figure, faded, kind_style
from attnviz.phrases import listed

TALL, LEGEND = 580, 40  # pixels
SMALL, LARGE = 8, 13  # marker sizes
LINE, BESIDE = 17, 12  # pixels: between the middles of two names, and between a marker and its name
LANE = 0.15  # years between the lanes of two kinds
FIRST = 128  # tokens whose mean is drawn: no window is shorter, and they are whole compressed entries
FEW = 3  # models of a year whose median is not named in the title


def bytes_per_token(model: ModelConfig) -> int:
    """Return the bf16 bytes that a token adds to the cache, the mean of the first ones where entries are compressed."""
    return (kv_cache_bytes(model, FIRST) - state_bytes(model)) // FIRST


def published(models: Sequence[ModelConfig], chosen: Sequence[ModelConfig], by: str) -> Drawing:
    """Draw each model's bf16 cache per token over its parameters or its year; the chosen ones stand out with names."""
    cost = {m.id: bytes_per_token(m) for m in models}
    drawn = [m for m in models if cost[m.id]]
    size = {m.id: count_parameters(m).total for m in models}
    figure = base_figure(TALL, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"}, margin={"t": LEGEND})
    y = log_range(cost[m.id] for m in drawn)
    figure.update_yaxes(type="log", range=y, title="cache per token, bf16", **binary_decades(y))
    at = _by_year(figure, drawn) if by == "year" else _by_parameters(figure, drawn, size)
    for kind, name in KINDS.items():
        of_kind = [m for m in drawn if kind_of(m) == kind]
        if of_kind:
            figure.add_trace(_points(of_kind, kind, name, at, size, cost, chosen))
    _name(figure, [m for m in chosen if cost[m.id]], at, cost, y, logarithmic=by != "year")
    largest = max(drawn, key=lambda m: size[m.id])
    title = _years_title(drawn, cost) if by == "year" else _size_title(drawn, largest, size, cost)
    most, least = (pick(drawn, key=lambda m: cost[m.id]) for pick in (max, min))
    without = [short_name(m) for m in models if not cost[m.id]]
    example = _example(chosen, drawn, cost)
    equation = cache_equation(example, 1)
    return Drawing(
        figure,
        title=title,
        note=f"{len(models)} published models: bytes cached per token in bf16 against "
        f"{'the year' if by == 'year' else 'the number of parameters'}. The marker's shape is the type of attention. "
        "The models compared and the one asked about are named; point at or tap the others, or read the list below.",
        more=f"Counted by formula, over the first {FIRST} tokens; 1 KiB is 1,024 bytes. With sliding windows, a long "
        "text takes less than this number times its tokens. Linear and recurrent layers keep a state per sequence, "
        "which is not part of these bytes."
        + (f" Not drawn, since nothing is cached per token: {listed(without)}." if without else ""),
        alt=f"{title}. Most: {short_name(most)} with {cost[most.id]:,} bytes; least: {short_name(least)} with "
        f"{cost[least.id]:,} bytes.{_chosen_text(chosen, cost)}",
        table=published_table(models),
        formula="\n".join([tex_text(f"{short_name(example)}, one token: "), tex_lines(equation)]),
        legend=meanings(equation),
    )


def _example(chosen: Sequence[ModelConfig], drawn: Sequence[ModelConfig], cost: Mapping[str, int]) -> ModelConfig:
    """Return the model that is calculated: the first named one whose mean is what each token takes, else any such."""
    simple = [m for m in (*chosen, *drawn) if not m.mixed_layers and kv_cache_bytes(m, 1) == cost[m.id] > 0]
    return (simple or [*drawn])[0]


def _chosen_text(chosen: Sequence[ModelConfig], cost: Mapping[str, int]) -> str:
    return f" Chosen: {listed(f'{short_name(m)} {cost[m.id]:,} bytes' for m in chosen)}." if chosen else ""


def _by_parameters(figure: Chart, models: Sequence[ModelConfig], size: Mapping[str, int]) -> dict[str, float]:
    """Draw the axis of the parameters; return each model's place on it."""
    x = log_range(size[m.id] for m in models)
    figure.update_xaxes(type="log", range=x, title="parameters", **decades(x, count_text))
    return {m.id: size[m.id] for m in models}


def _by_year(figure: Chart, models: Sequence[ModelConfig]) -> dict[str, float]:
    """Draw the axis of the years, in each a lane per kind; return each model's place on it."""
    years = sorted({m.year for m in models if m.year is not None})
    lanes = {kind: LANE * (i - (len(KINDS) - 1) / 2) for i, kind in enumerate(KINDS)}
    ticks = list(range(years[0], years[-1] + 1))
    figure.update_xaxes(
        range=[years[0] - 0.6, years[-1] + 0.6], title="year", tickvals=ticks, ticktext=[str(n) for n in ticks]
    )
    return {m.id: m.year + lanes[kind_of(m)] for m in models if m.year is not None}


def _points(
    models: Sequence[ModelConfig], kind: str, name: str, at: Mapping[str, float], size: Mapping[str, int],
    cost: Mapping[str, int], chosen: Sequence[ModelConfig],
) -> dict:  # fmt: skip
    style, ids = kind_style(kind), {m.id for m in chosen}
    shown = [m.id in ids for m in models]
    return {
        "type": "scatter",
        "x": [at[m.id] for m in models],
        "y": [cost[m.id] for m in models],
        "mode": "markers",
        "name": name,
        "marker": {
            "symbol": style["symbol"],
            "color": [style["colour"] if each or not chosen else faded(style["colour"], 0.4) for each in shown],
            "size": [LARGE if each else SMALL for each in shown],
            "line": {"width": [2 if each else 1 for each in shown], "color": style["colour"]},
            "opacity": 1,  # plotly's own, where sizes differ, is 0.7
        },
        "customdata": [
            [m.name, m.year, attention_name(m), f"{size[m.id]:,}", f"{cost[m.id]:,}", assumption(m)] for m in models
        ],
        "hovertemplate": "<b>%{customdata[0]}</b>, %{customdata[1]}, %{customdata[2]}<br>%{customdata[3]} parameters"
        "<br>%{customdata[4]} bytes per token<br>%{customdata[5]}<extra></extra>",
    }


def _name(
    figure: Chart, chosen: Sequence[ModelConfig], at: Mapping[str, float], cost: Mapping[str, int], y: list[float],
    *, logarithmic: bool,
) -> None:  # fmt: skip
    """Name the chosen models beside their points, on the side with more room; no two names at the same height."""
    low, high = figure.layout["xaxis"]["range"]
    place = {m.id: math.log10(at[m.id]) if logarithmic else at[m.id] for m in chosen}
    plot = TALL - LEGEND - 60
    heights = [share(cost[m.id], y) * plot for m in chosen]
    for model, height, moved in zip(chosen, heights, spread(heights, LINE), strict=True):
        side = -1 if place[model.id] > (low + high) / 2 else 1
        figure.add_annotation(
            x=place[model.id], y=math.log10(cost[model.id]), text=bold(short_name(model), True), font={"size": 12},
            xanchor="left" if side > 0 else "right", yanchor="middle", borderpad=0, **_beside(side, moved - height),
        )  # fmt: skip


def _beside(side: int, up: float) -> dict:
    """Return where a name stands: beside its marker, or moved `up` with a line that leads to it."""
    if abs(up) < 1:
        return {"showarrow": False, "xshift": side * BESIDE}
    return {
        "showarrow": True, "ax": side * 2 * BESIDE, "ay": -up, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": NEUTRAL,
        "standoff": SMALL,
    }  # fmt: skip


def _size_title(
    models: Sequence[ModelConfig], largest: ModelConfig, size: Mapping[str, int], cost: Mapping[str, int]
) -> str:
    """Compare the largest model with the smallest of those that cache more per token."""
    dearer = [m for m in models if cost[m.id] > cost[largest.id]]
    said = f"{short_name(largest)} ({count_text(size[largest.id])} parameters)"
    if not dearer:
        return f"{said} has the largest cache per token"
    other = min(dearer, key=lambda m: size[m.id])
    return f"{said} caches less per token than {short_name(other)} ({count_text(size[other.id])})"


def _years_title(models: Sequence[ModelConfig], cost: Mapping[str, int]) -> str:
    """Compare the medians of the first and the last year with more than a few models."""
    of_year: dict[int, list[int]] = {}
    for m in models:
        if m.year is not None:
            of_year.setdefault(m.year, []).append(cost[m.id])
    years = sorted(year for year, found in of_year.items() if len(found) > FEW)
    said = [f"{bytes_text(median(of_year[year]))} in {year}" for year in dict.fromkeys(years[:1] + years[-1:])]
    return f"Median cache per token of these models: {', '.join(said)}" if said else "Cache per token by year"


def published_table(models: Sequence[ModelConfig]) -> dict[str, list]:
    """Return the table of the models, in the order given; "–" for what differs from layer to layer."""
    counts = [count_parameters(m) for m in models]

    def of_each_layer(name: str) -> list[str]:
        return [written(None if m.mixed_layers else getattr(m, name)) for m in models]

    return {
        "model": [m.name for m in models],
        "year": ["–" if m.year is None else str(m.year) for m in models],
        "attention": [attention_name(m) for m in models],
        "parameters": [c.total for c in counts],
        "used per token (one row of an untied embedding)": [c.used_per_token for c in counts],
        "attention parameters per layer": [
            written(None if m.mixed_layers else c.attention_per_layer) for m, c in zip(models, counts, strict=True)
        ],
        "layers": [m.n_layers for m in models],
        "query heads": of_each_layer("n_heads"),
        "KV heads": of_each_layer("n_kv_heads"),
        "head_dim": of_each_layer("head_dim"),
        "window": of_each_layer("sliding_window"),
        "made for (tokens)": [written(m.max_context) for m in models],
        "cache bytes per token (bf16)": [bytes_per_token(m) for m in models],
        "state bytes per sequence": [state_bytes(m) for m in models],
    }
