"""Figures of who reads whose cache, and of memory and FLOPs of a decode step against the context."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from attnviz.config import ModelConfig
from attnviz.cost import decode_cost, decode_step, kv_cache_bytes
from attnviz.cost.cached import cached_in_layer, state_bytes, state_bytes_of
from attnviz.cost.crossings import Crossing, bends, crossings
from attnviz.cost.units import bytes_text, count_text, tokens_text
from attnviz.equations import Equation
from attnviz.figures.chart import Chart, rows_height
from attnviz.figures.cost.axes import decades, log_range, spread
from attnviz.figures.cost.formulas import breaking_lines, cache_equation
from attnviz.figures.drawing import Drawing
from attnviz.figures.label_width import label_width
from attnviz.figures.markup import meanings
from attnviz.figures.theme import FAINT, LABEL, NEUTRAL, OUTLINE, PETROL, TEXT, base_figure
from attnviz.mechanisms import Mixer
from attnviz.phrases import count, in_a_row, last_of, listed

BYTES = 2  # per cached number, bf16
FEWEST, MOST = 16, 2**20  # tokens of the curves
CONTEXTS = [2**i for i in range(4, 21)]
DASHES = "dot", "dash", "dashdot", "longdash"
FRONT = "GQA-4"  # what a crossing in a title is with, if there is one


# ---- whose cache each layer reads


def sharing_layers(config: ModelConfig, name: str) -> Drawing:
    """Draw what each layer caches per token, with an arrow from each layer that reads another layer's cache."""
    rows = list(range(config.n_layers))
    own = [0 if layer.shares_cache_of is not None else _layer_bytes(layer.mixer) for layer in config.layers]
    reads = {i: layer.shares_cache_of for i, layer in enumerate(config.layers) if layer.shares_cache_of is not None}
    figure = base_figure(70 + rows_height(len(rows), 38), showlegend=False)
    kept = [_kept_text(config, i, own[i]) for i in rows]
    figure.add_bar(
        x=own,
        y=rows,
        orientation="h",
        marker={"color": PETROL},
        text=kept,
        textposition="outside",
        cliponaxis=False,
        hovertemplate="layer %{y}: %{text}<extra></extra>",
        width=0.6,
    )
    widest = max([*own, 1])
    step = 0.03 * widest
    for n, (i, source) in enumerate(reads.items(), 1):
        figure.add_annotation(
            x=-n * step, y=source - 0.1, ax=-n * step, ay=i, axref="x", ayref="y", text="",
            showarrow=True, arrowhead=2, arrowwidth=2, arrowcolor=NEUTRAL,
        )  # fmt: skip
    figure.update_yaxes(
        tickvals=rows,
        ticktext=[f"layer {i}" for i in rows],
        range=[len(rows) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
    )
    figure.update_xaxes(title="bytes per token, bf16", range=[-step * (len(reads) + 1), 1.7 * widest])
    return Drawing(
        figure,
        title=_sharing_title(name, reads, own),
        note="A bar is what a layer caches per token; an arrow leads from a layer without keys and values of its own "
        "to the one whose cache it reads.",
        more="Layers that read another's cache: cross-layer attention (arXiv 2405.12981) and YOCO (arXiv 2405.05254).",
        alt=f"{_sharing_title(name, reads, own)}. " + "; ".join(f"layer {i}: {kept[i]}" for i in rows) + ".",
        table={"layer": rows, "bytes per token": own, "keeps": kept},
    )


def _layer_bytes(mixer: Mixer) -> int:
    return BYTES * int(cached_in_layer(mixer).value) if mixer.cached() else 0


def _kept_text(config: ModelConfig, i: int, own: int) -> str:
    layer = config.layers[i]
    if layer.shares_cache_of is not None:
        return f"reads layer {layer.shares_cache_of}'s cache"
    if not layer.mixer.attends:
        return f"a state of {state_bytes_of(layer.mixer):,} B, nothing per token"
    window = layer.mixer.window
    return f"{own:,} B" + (f", of the {last_of(window, 'token')}" if window else "")


def _sharing_title(name: str, reads: Mapping[int, int], own: list[int]) -> str:
    total = sum(own)
    if reads:
        verb, n = ("reads" if len(reads) == 1 else "read"), len(reads)
        return f"{name}: layer{'s' * (n > 1)} {in_a_row(list(reads))} {verb} another layer's cache"
    if caching := sum(1 for size in own if size):
        verb = "caches" if caching == 1 else "cache"
        return f"{name}: {caching} of {count(len(own), 'layer')} {verb} {total:,} B per token, none shared"
    return f"{name}: no layer caches anything per token"


# ---- bytes per token of all


def per_token(models: Mapping[str, ModelConfig], selected: str) -> Drawing:
    """Draw the bytes that each model's cache grows by per token, at first and for good, on one scale."""
    names = list(models)
    first = [kv_cache_bytes(c, 2) - kv_cache_bytes(c, 1) for c in models.values()]
    later = [kv_cache_bytes(c, MOST) - kv_cache_bytes(c, MOST - 1) for c in models.values()]
    states = [state_bytes(c) for c in models.values()]
    texts = [_growth_text(*each) for each in zip(first, later, states, strict=True)]
    figure = base_figure(60 + rows_height(len(names), 34), barmode="overlay", showlegend=False)
    looks = {"color": [PETROL if name == selected else NEUTRAL for name in names]}
    figure.add_bar(
        x=first,
        y=names,
        orientation="h",
        marker={"color": FAINT, "line": OUTLINE},
        hoverinfo="skip",
        width=0.6,
        text=texts,
        textposition="outside",
        cliponaxis=False,
    )
    figure.add_bar(
        x=later,
        y=names,
        orientation="h",
        marker=looks,
        width=0.6,
        text=texts,
        textposition="none",
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
    figure.update_yaxes(range=[len(names) - 0.5, -0.5], showgrid=False)
    figure.update_xaxes(title="bytes per token, all layers, bf16", range=[0, 1.75 * max(first)], rangemode="tozero")
    least = min(range(len(names)), key=lambda i: (later[i], first[i]))
    here = names.index(selected)
    title = f"{names[here]} grows by {later[here]:,} B per token; {names[least]} by the least, {later[least]:,} B"
    if later[here] == later[least]:
        as_little = "the least per token" if here == least else f"as little as {names[least]} per token"
        title = f"{names[here]} grows by {as_little}: {later[here]:,} B"
    return Drawing(
        figure,
        title=title,
        note="Filled: what each further token adds to the cache after a long text. Outlined: what the first tokens "
        "add, before windows are full.",
        alt=f"{title}. " + "; ".join(f"{n}: {t}" for n, t in zip(names, texts, strict=True)) + ".",
        table={
            "model": names,
            "bytes of an early token": first,
            "bytes of a late token": later,
            "bytes of states": states,
        },
    )


def _growth_text(first: int, later: int, state: int) -> str:
    size = f"{later:,} B" if first == later else f"{first:,} B, later {later:,} B"
    return f"{size} + a state of {bytes_text(state, binary=False)}" if state else size


# ---- cost against context


@dataclass(frozen=True)
class Cost:
    """A cost of a model with a context, and how it is named and written."""

    of: Callable[[ModelConfig, int], int]
    takes: str  # "takes less memory"
    axis: str
    text: Callable[[float], str]
    note: str
    equation: Callable[[ModelConfig, int], Equation]


MEMORY = Cost(
    kv_cache_bytes,
    "takes less memory",
    "bytes of cache and state",
    lambda n: bytes_text(n, binary=False),
    "Cache in bf16 and states in their own precision, on logarithmic axes.",
    cache_equation,
)
FLOPS = Cost(
    lambda c, n: decode_step(c, n).flops,
    "takes fewer FLOPs",
    "FLOPs per decode step",
    count_text,
    "Products with weights, scores and weighted sums, on logarithmic axes.",
    lambda c, n: Equation(decode_cost(c, n), unit="FLOPs"),
)


def against_context(models: Mapping[str, ModelConfig], selected: str, cost: Cost) -> Drawing:
    """Draw a cost of each model against the context, the selected one in colour, and name where its line crosses."""
    found = {name: _crossings(models[selected], c, cost) for name, c in models.items() if name != selected}
    ends = {name: cost.of(c, MOST) for name, c in models.items()}
    y = log_range([cost.of(c, n) for c in models.values() for n in (FEWEST, MOST)])
    heights = spread([math.log10(v) for v in ends.values()], 0.06 * (y[1] - y[0]))
    y = [min(y[0], *heights), max(y[1], max(heights) + 0.1)]
    figure = base_figure(420, showlegend=False, hovermode="x unified")
    for i, (name, c) in enumerate(models.items()):
        values = [cost.of(c, n) for n in CONTEXTS]
        is_selected = name == selected
        figure.add_scatter(
            x=CONTEXTS,
            y=values,
            name=name,
            mode="lines",
            text=[cost.text(v) for v in values],
            line={
                "color": PETROL if is_selected else NEUTRAL,
                "width": 3 if is_selected else 1,
                "dash": "solid" if is_selected else DASHES[i % len(DASHES)],
            },
            hovertemplate="%{text}",
        )
    for name, at in found.items():
        for crossing in at:
            _mark(figure, crossing, cost.of(models[name], crossing.n_tokens))
    _name_lines(figure, dict(zip(models, heights, strict=True)), selected)
    figure.update_xaxes(
        type="log",
        title="tokens of context",
        tickvals=CONTEXTS[::2],
        ticktext=[tokens_text(n) for n in CONTEXTS[::2]],
        range=[math.log10(FEWEST), math.log10(MOST)],
        showgrid=False,
    )
    figure.update_layout(margin={"r": 12 + round(max(map(label_width, models)))})
    figure.update_yaxes(type="log", range=y, title=cost.axis, **decades(y, cost.text))
    title = _crossing_title(selected, found, cost)
    equation = cost.equation(models[selected], MOST)
    return Drawing(
        figure,
        title=title,
        note=f"{cost.note} {_all_crossings(selected, found)}",
        more="Counted by formula from each layer's mechanism; a crossing is the first whole number of tokens at which "
        "the order changes. The checkpoints were trained on texts of 256 tokens.",
        alt=f"{title}. At {tokens_text(MOST)} tokens: {listed(f'{n} {cost.text(v)}' for n, v in ends.items())}.",
        table={"tokens": CONTEXTS, **{name: [cost.of(c, n) for n in CONTEXTS] for name, c in models.items()}},
        formula=breaking_lines(equation),
        legend=f"{selected} at {tokens_text(MOST)} tokens. {meanings(equation)}",
    )


def _crossings(one: ModelConfig, other: ModelConfig, cost: Cost) -> list[Crossing]:
    return crossings(lambda n: cost.of(one, n), lambda n: cost.of(other, n), bends(one) | bends(other), MOST)


def _mark(figure: Chart, crossing: Crossing, value: int) -> None:
    if crossing.n_tokens >= FEWEST:
        figure.add_scatter(
            x=[crossing.n_tokens],
            y=[value],
            mode="markers",
            hoverinfo="skip",
            marker={"symbol": "circle-open", "size": 9, "color": TEXT, "line": {"width": 1.5}},
        )


def _name_lines(figure: Chart, heights: Mapping[str, float], selected: str) -> None:
    """Write each model's name at the right end of its line."""
    for name, height in heights.items():
        text = f"<b>{name}</b>" if name == selected else name
        look = {"xanchor": "left", "xshift": 4, "showarrow": False, "font": LABEL}
        figure.add_annotation(x=math.log10(MOST), y=height, text=text, **look)


def _crossing_title(selected: str, found: Mapping[str, list[Crossing]], cost: Cost) -> str:
    crossed = {name: at for name, at in found.items() if at}
    if not crossed:
        return f"{selected}: its line crosses no other up to {tokens_text(MOST)} tokens"
    name = FRONT if FRONT in crossed else next(iter(crossed))
    return f"{_sentence(selected, name, crossed[name][-1], cost)}"


def _sentence(selected: str, other: str, crossing: Crossing, cost: Cost) -> str:
    less, more = (selected, other) if crossing.less else (other, selected)
    return f"{less} {cost.takes} than {more} from {count(crossing.n_tokens, 'token')} on"


def _all_crossings(selected: str, found: Mapping[str, list[Crossing]]) -> str:
    """List the other crossings: "It crosses MHA at 29 and MQA at 223 tokens."."""
    said = [f"{name} at {listed(f'{each.n_tokens:,}' for each in at)}" for name, at in found.items() if at]
    return f"{selected} crosses {listed(said)} tokens (circles)." if said else ""
