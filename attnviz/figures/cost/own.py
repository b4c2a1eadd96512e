"""Figures of the selected model with each type of attention: parameters by part and the cache, each on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, attention_name, count_parameters, kv_cache_bytes, with_its_scales
from attnviz.cost.cached import cache_parts
from attnviz.cost.precisions import SCALE_BITS
from attnviz.cost.units import BINARY, bytes_text, count_text
from attnviz.equations import tex_lines
from attnviz.figures.chart import Chart
from attnviz.figures.cost.axes import CHARACTER, PLOT_WIDTHS
from attnviz.figures.cost.captions import (
    cached_tokens_text,
    crowd_text,
    heads_note,
    is_beyond,
    latent_note,
    precision_name,
    precision_note,
    what_if_note,
)
from attnviz.figures.cost.formulas import attention_equation, by_part, cache_equation, sum_equation
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import bold, meanings
from attnviz.figures.theme import FAINT, NEUTRAL, base_figure, kv_colour
from attnviz.phrases import count

HEADING = 0.45  # rows of space above a bar whose parts are named
ROOM = 1.3  # width of the plot in longest bars: leaves room for the total after its end
LARGEST_SPLIT = 16  # most KV heads that are drawn one by one; the hues of narrower ones run into each other
HUES = f"in the hues of the KV heads (dark grey for more than {LARGEST_SPLIT})"
SOFT, SOFTER = 0.5, 0.22  # opacity of q and o, and of non-attention parts: neither depends on the KV heads
PARTS = {"k": 1.0, "v": 0.7, "kv down": 1.0, "kv up": 0.7, "latent": 1.0, "RoPE key": 0.7}  # those that do: opacity


def attention_parameters(
    models: Sequence[ModelConfig], selected: ModelConfig, counted: Sequence[int] | None
) -> Drawing:
    """Draw one layer's attention by part for every model; `counted`: parameters of the live modules, if they run."""
    counts = [count_parameters(model) for model in models]
    figure = _bars(models, [c.attention for c in counts], selected, "parameters of one layer's attention")
    totals = [c.attention_per_layer for c in counts]
    here, first = totals[models.index(selected)], totals[0]
    title = f"{attention_name(selected)}: {here:,} attention parameters per layer"
    if selected != models[0]:
        title += f", {here / first:.0%} of {attention_name(models[0])}'s"
    equation = attention_equation(selected)
    return Drawing(
        figure,
        title=title,
        note="One layer's projections on one scale. Grey: q and o, which serve the query heads; k and, fainter, v: "
        f"{HUES}. {what_if_note(selected)}".rstrip(),
        more="MLA has a down-projection to the latent and an up-projection from it instead, here with "
        f"{latent_note(selected)}.",
        alt=f"{title}. " + "; ".join(f"{attention_name(m)} {n:,}" for m, n in zip(models, totals, strict=True)) + ".",
        table={
            "attention": [attention_name(model) for model in models],
            "by formula": totals,
            **_counted("counted in the live module", counted),
            **_columns([c.attention for c in counts]),
        },
        formula=tex_lines(equation) if selected.mixer.shares_kv_heads else by_part(equation),
        legend=meanings(equation),
    )


def model_parameters(models: Sequence[ModelConfig], selected: ModelConfig, counted: Sequence[int] | None) -> Drawing:
    """Draw the whole model by part for every model; `counted`: parameters of the live models, if they run."""
    counts = [count_parameters(model) for model in models]
    parts = [_merge_small_parts(c.parts, c.attention) for c in counts]
    figure = _bars(models, parts, selected, "parameters of the whole model")
    count_here = counts[models.index(selected)]
    attention = selected.n_layers * count_here.attention_per_layer
    title = f"Attention is {attention / count_here.total:.0%} of all {count_here.total:,} parameters"
    return Drawing(
        figure,
        title=title,
        note="All parameters, tied embeddings counted once. The number of KV heads changes only k and v.",
        alt=f"{title} with {attention_name(selected)}: "
        + "; ".join(f"{part} {n:,}" for part, n in parts[models.index(selected)].items())
        + ".",
        table={
            "attention": [attention_name(model) for model in models],
            "by formula": [c.total for c in counts],
            **_counted("counted in the live model", counted),
            **_columns([c.parts for c in counts]),
        },
        formula=tex_lines(sum_equation(parts[models.index(selected)])),
    )


def cache(
    models: Sequence[ModelConfig],
    selected: ModelConfig,
    counted: Sequence[int] | None,
    n_tokens: int,
    batch_size: int = 1,
    precision: str = "bf16",
) -> Drawing:
    """Draw the cache at this context and batch for every model; `counted`: bf16 bytes of live caches, if they run."""
    bits, block = PRECISIONS[precision]
    sizes = [kv_cache_bytes(m, n_tokens, batch_size, bits, block_size=block) for m in models]
    parts = [cache_parts(m, n_tokens, batch_size, bits, block_size=block) for m in models]
    floats = [{part: float(n) for part, n in own.items()} for own in parts]
    figure = _bars(models, floats, selected, "bytes", [bytes_text(n) for n in sizes])
    here, first = sizes[models.index(selected)], sizes[0]
    title = f"{attention_name(selected)} caches {bytes_text(here)}"
    if selected != models[0]:
        title += f", {here / first:.1%} of {attention_name(models[0])}'s"
    equation = cache_equation(selected, n_tokens, batch_size, bits, block)
    return Drawing(
        figure,
        title=title,
        note=" ".join(filter(None, (
            f"{crowd_text(n_tokens, batch_size)} in {with_its_scales(precision)}: keys and values of "
            f"{count(selected.n_layers, 'layer')}, {HUES}.",
            what_if_note(selected), heads_note(selected), _context_note(selected, n_tokens),
        ))),
        more=" ".join(filter(None, (
            f"MLA has {latent_note(selected)}. 1 MiB is 1,048,576 bytes.", _window_note(selected, n_tokens),
            precision_note(precision),
        ))),
        alt=f"{title}. " + "; ".join(
            f"{attention_name(m)} {bytes_text(n)}" for m, n in zip(models, sizes, strict=True)) + ".",
        table={
            "attention": [attention_name(model) for model in models],
            f"bytes in {precision}": sizes,
            **{f"bytes in {p}": [kv_cache_bytes(m, n_tokens, batch_size, b, block_size=s) for m in models]
               for p, (b, s) in PRECISIONS.items() if p != precision},
            **_counted("bf16 bytes counted in live tensors", counted),
            "bf16 bytes for one token": [kv_cache_bytes(m, 1) for m in models],
        },
        formula=tex_lines(equation),
        legend=meanings(equation),
    )  # fmt: skip


def precisions(model: ModelConfig, n_tokens: int, batch_size: int = 1, precision: str = "bf16") -> Drawing:
    """Draw one model's cache in each precision; the selected one, if it is narrower than bf16, is compared with it."""
    sizes = {p: kv_cache_bytes(model, n_tokens, batch_size, b, block_size=s) for p, (b, s) in PRECISIONS.items()}
    rows = list(range(len(sizes)))
    figure = bar_rows(list(map(precision_name, sizes)), [False] * len(sizes), max(sizes.values()), "bytes", rows)
    figure.add_bar(orientation="h", x=list(sizes.values()), y=rows, width=0.6, marker={"color": NEUTRAL})
    bar_totals(figure, list(sizes.values()), [bytes_text(n) for n in sizes.values()], [False] * len(sizes), rows)
    narrow = precision if PRECISIONS[precision][0] < 16 else "int4"
    per_numbers = f"{precision_name(narrow)}{' numbers' * bool(PRECISIONS[narrow][1])}"
    title = f"{per_numbers}: {sizes['bf16'] / sizes[narrow]:.4g} times smaller than bf16"
    scales = precision_note(narrow if PRECISIONS[narrow][1] else "int4")
    equation = cache_equation(model, n_tokens, batch_size, *PRECISIONS[narrow])
    return Drawing(
        figure,
        title=title,
        note=f"The cache of {attention_name(model)} for {crowd_text(n_tokens, batch_size)}. Scales have {SCALE_BITS} "
        "bits; fp8 has one per tensor, which is not counted.",
        more=f"{scales} A partial block has its own scale. {precision_note('fp8')}",
        alt=f"{title}. " + "; ".join(f"{with_its_scales(p)}: {bytes_text(n)}" for p, n in sizes.items()) + ".",
        table={"precision": list(map(with_its_scales, sizes)), "bytes": list(sizes.values())},
        formula=tex_lines(equation),
        legend=meanings(equation),
    )


def _bars(
    models: Sequence[ModelConfig], parts: list[dict], selected: ModelConfig, unit: str, totals: list[str] | None = None
) -> Chart:
    """Draw a stacked bar for every model, its parts in order, the total at its end."""
    sizes, chosen = [sum(p.values()) for p in parts], [model == selected for model in models]
    named = [i == 0 or list(own) != list(parts[i - 1]) for i, own in enumerate(parts)]
    rows = list(accumulate(1 + HEADING * new for new in named))
    figure = bar_rows([attention_name(model) for model in models], chosen, max(sizes), unit, rows)
    for row, new, model, own in zip(rows, named, models, parts, strict=True):
        figure.add_trace(_stack(row, model, own))
        if new:
            figure.add_trace(_names(row - 0.4, own, max(sizes)))
    bar_totals(figure, sizes, totals or [count_text(n) for n in sizes], chosen, rows)
    return figure


def bar_rows(names: list[str], chosen: list[bool], longest: int, unit: str, rows: Sequence[float]) -> Chart:
    """Return an empty chart for bars at these heights, with their names beside them."""
    span = [max(rows) + 0.5, min(rows) - 0.5 - HEADING]
    figure = base_figure(height=52 + round(34 * (span[0] - span[1])), showlegend=False, barmode="overlay")
    labels = [bold(name, yes) for name, yes in zip(names, chosen, strict=True)]
    figure.update_yaxes(tickvals=list(rows), ticktext=labels, range=span, showgrid=False, zeroline=False)
    ticks, texts = _ticks(longest, binary="byte" in unit)
    figure.update_xaxes(
        range=[0, longest * ROOM], title=unit, showgrid=False, zeroline=False, tickvals=ticks, ticktext=texts
    )
    return figure


def _ticks(longest: int, binary: bool) -> tuple[list[float], list[str]]:
    """Return ticks at zero, half and the whole of the longest bar, rounded down to one digit of its unit."""
    base = 1024 if binary else 1000
    unit = base ** next(k for k in range(len(BINARY) - 1, -1, -1) if longest >= base**k or k == 0)
    step = 10 ** (len(str(int(longest / unit))) - 1)
    top = int(longest / unit / step) * step * unit
    return [0, top / 2, top], [(bytes_text if binary else count_text)(n) if n else "0" for n in (0, top / 2, top)]


def _stack(row: float, model: ModelConfig, parts: dict[str, int]) -> dict:
    """Return one stacked bar; parts that belong to KV heads are split into them, in their hues."""
    pieces = [piece for part, n in parts.items() for piece in _pieces(model, part, n)]
    lengths = [piece[1] for piece in pieces]
    return {
        "type": "bar",
        "orientation": "h",
        "x": lengths,
        "y": [row] * len(pieces),
        "base": [sum(lengths[:i]) for i in range(len(pieces))],
        "width": 0.7,
        "marker": {
            "color": [piece[2] for piece in pieces],
            "opacity": [piece[3] for piece in pieces],
            "line": {"width": 0.5, "color": FAINT},
        },
        "hovertext": [f"{attention_name(model)}, {name}: {n:,.0f}" for name, n, *_ in pieces],
        "hoverinfo": "text",
    }


def _names(height: float, parts: dict[str, int], longest: int) -> dict:
    """Return the part names above a bar, for parts wide enough for theirs at the smallest plot width."""
    pixel = longest * ROOM / PLOT_WIDTHS[0]
    ends = list(accumulate(parts.values()))
    wide = {part: end - n / 2 for (part, n), end in zip(parts.items(), ends, strict=True)
            if n > CHARACTER * len(part) * pixel}  # fmt: skip
    return {
        "type": "scatter", "mode": "text", "x": list(wide.values()), "y": [height] * len(wide), "text": list(wide),
        "textposition": "top center", "textfont": {"size": 12}, "hoverinfo": "skip",
    }  # fmt: skip


def _pieces(model: ModelConfig, part: str, n: int) -> list[tuple[str, float, str, float]]:
    """Return name, length, colour and opacity of each rectangle of a part."""
    if part not in PARTS:
        return [(part, n, NEUTRAL, SOFT if part[0] in "qo" and part != "output layer" else SOFTER)]
    if not model.mixer.shares_kv_heads or model.n_kv_heads > LARGEST_SPLIT:
        return [(part, n, NEUTRAL, PARTS[part])]
    K = model.n_kv_heads
    return [(f"{part} of KV head {j}", n / K, kv_colour(j, K), PARTS[part]) for j in range(K)]


def bar_totals(figure: Chart, sizes: list[int], texts: list[str], chosen: list[bool], rows: Sequence[float]) -> None:
    """Add each bar's total after its end."""
    figure.add_scatter(
        x=sizes, y=list(rows), mode="text", textposition="middle right", hoverinfo="skip",
        text=[bold(f" {text}", yes) for text, yes in zip(texts, chosen, strict=True)], cliponaxis=False,
    )  # fmt: skip


def _merge_small_parts(parts: dict[str, int], attention: dict[str, int]) -> dict[str, int]:
    """Merge attention's small parts (norms, sinks) into the model's norms."""
    small = {"q and k norms", "latent norms", "sinks"} & attention.keys()
    merged = {part: n for part, n in parts.items() if part not in small}
    return merged | {"norms": merged["norms"] + sum(parts[part] for part in small)}


def _counted(name: str, counted: Sequence[int] | None) -> dict[str, list[int]]:
    return {} if counted is None else {name: list(counted)}


def _columns(rows: list[dict[str, int]]) -> dict[str, list[int]]:
    """Return one column for every part that any of the rows has."""
    return {part: [row.get(part, 0) for row in rows] for part in dict.fromkeys(p for row in rows for p in row)}


def _window_note(model: ModelConfig, n_tokens: int) -> str:
    """Describe what the windowed layers cache; "" if there are none."""
    if model.sliding_window is None:
        return ""
    n_full, most = len(set(model.full_layers)), model.sliding_window + model.n_sinks
    held = f"{count(model.n_layers - n_full, 'layer')} with at most {count(most, 'token')}: {cached_tokens_text(model)}"
    full = f"; {count(n_full, 'layer')} without a window: {n_tokens:,}" if n_full else ""
    larger = " The live modules cache every token, so the counted bytes are larger." if most < n_tokens else ""
    return f"{held}{full}.{larger}"


def _context_note(model: ModelConfig, n_tokens: int) -> str:
    """Return a warning if the selected model is shown beyond its context, else ""."""
    if not is_beyond(model, n_tokens):
        return ""
    return f"The selected model was made for {model.max_context:,} tokens; {n_tokens:,} is beyond that."
