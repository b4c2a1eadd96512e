"""Pictures of the sharing itself: who reads whom, the projections to scale, what is remembered and what is computed.

H query heads, K KV heads, D head_dim, C d_model, L layers, S tokens. Every hue is a KV head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.config import AttentionConfig, ModelConfig
from attnviz.cost import attention_name, count_parameters, kv_cache_bytes
from attnviz.cost.decode import attention_flops
from attnviz.figures.drawing import Drawing, Words, drawn
from attnviz.figures.phrases import bold, count, listed, tex
from attnviz.figures.theme import DIVERGING, FAINT, NEUTRAL, base_figure, kv_colour

SOFT, STRONG = 0.35, 1.0  # opacity of what is beside the point and of the point


def sharing(n_heads: int, n_kv_heads: int, read: Sequence[int], selected: int) -> dict:
    """What the group diagram draws: `read[h]` is the KV head that query head h reads, interleaved or not."""
    size = n_heads // n_kv_heads
    right = [h // size for h in range(n_heads)]
    readers = {kv: [h for h in range(n_heads) if read[h] == kv] for kv in range(n_kv_heads)}
    how = f"repeat_interleave({size})" if list(read) == right else f"repeat({size})"
    return {
        "label": f"{count(n_heads, 'query head')} reading {count(n_kv_heads, 'KV head')}",
        "hint": "Point at a head, or walk with the arrow keys, to see its partners.",
        "rows": {
            "queries": count(n_heads, "query head"),
            "kvs": f"{count(n_kv_heads, 'KV head')}: all that the cache keeps.",
            "index": f"The KV head that each query head reads: arange({n_kv_heads}).{how} = {' '.join(map(str, read))}",
        },
        "queries": [
            {"name": f"Q{h}", "kv": kv, "says": _says_query(h, kv, readers[kv], right[h]), "wrong": kv != right[h]}
            for h, kv in enumerate(read)
        ],
        "kvs": [
            {
                "name": f"K{kv} · V{kv}",
                "colour": kv_colour(kv, n_kv_heads),
                "says": f"KV head {kv} is read by query head{'s' * (len(heads) > 1)} {listed(heads)}.",
            }
            for kv, heads in readers.items()
        ],
        "selected": selected,
    }


def projections(config: ModelConfig) -> Drawing:
    """W_q, W_k, W_v and W_o to one scale, cut into heads in the hue of the KV head they belong to."""
    stripes, labels = _all_stripes(config.layer)
    figure = base_figure(height=210, showlegend=False, bargap=0)
    figure.add_trace(_bars(stripes))
    texts = [f"<b>{name}</b><br>{shape}" for name, shape in labels.values()]
    figure.update_xaxes(tickvals=list(labels), ticktext=texts, showgrid=False, zeroline=False)
    figure.update_yaxes(visible=False, autorange="reversed", scaleanchor="x", constrain="domain")
    return drawn(figure, projections_words(config))


def projections_panel(config: ModelConfig) -> dict:
    """The same for the `to_scale` component: rectangles and labels in weights, rightwards and downwards."""
    stripes, labels = _all_stripes(config.layer)
    rects = [_rect(bar, bar.at - bar.width / 2, bar.base, bar.width, bar.length) for bar in stripes]
    height = max(y + h for _, y, _, h, *_ in rects)
    below = [[x, height, "below", name, shape] for x, (name, shape) in labels.items()]
    width = max(x + w for x, _, w, *_ in rects)
    return _panel(projections_words(config), width, height, rects, below)


def projections_words(config: ModelConfig) -> Words:
    """What is said of the projections."""
    c = config.layer
    shapes, kv_width = _shapes(c), c.n_kv_heads * c.head_dim
    weights = [n_in * n_out for n_in, n_out in shapes.values()]
    heads = count(c.n_kv_heads, "KV head")
    finding = f"W_k and W_v are {kv_width} wide, 1/{c.group_size} of W_q: {heads} of {c.head_dim}"
    if c.group_size == 1:
        finding = f"W_k and W_v are {kv_width} wide, as W_q is: every query head has a key and a value of its own"
    return Words(
        title=finding,
        note="The four projections of one layer to one scale, inputs downwards, outputs to the right. Each stripe is a "
        "head, in the hue of its KV head. Only W_k and W_v change with the number of KV heads.",
        alt=f"{finding}. W_q and W_o hold {weights[0]:,} weights each, W_k and W_v {weights[1]:,} each, "
        f"{sum(weights):,} a layer.",
        table={
            "matrix": list(shapes),
            "inputs": [n_in for n_in, _ in shapes.values()],
            "outputs": [n_out for _, n_out in shapes.values()],
            "weights": weights,
        },
        formula=rf"2\,C\,(H + K)\,D = 2\cdot{c.d_model}\,({c.n_heads} + {c.n_kv_heads})\,{c.head_dim} = "
        + tex(sum(weights)),
        line=f"2·C·(H + K)·D = 2·{c.d_model}·({c.n_heads} + {c.n_kv_heads})·{c.head_dim} = {sum(weights):,} weights",
    )


def _shapes(c: AttentionConfig) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of every projection."""
    q_width, kv_width = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
    kv = c.d_model, kv_width
    return {"W_q": (c.d_model, q_width), "W_k": kv, "W_v": kv, "W_o": (q_width, c.d_model)}


def _all_stripes(c: AttentionConfig) -> tuple[list[_Bar], dict[float, tuple[str, str]]]:
    """The matrices side by side, and under the middle of each its name and shape."""
    left, labels, stripes, widest = 0.0, {}, [], max(c.n_heads * c.head_dim, c.d_model)
    for name, (n_in, n_out) in _shapes(c).items():
        room = max(n_out, 0.34 * widest)  # what its label takes
        stripes += _stripes(name, left + (room - n_out) / 2, n_in, n_out, c)
        labels[left + room / 2] = name, f"{n_in} × {n_out}"
        left += room + 0.14 * widest
    return stripes, labels


def cache(measured: dict[ModelConfig, int], selected: ModelConfig) -> Drawing:
    """What every model remembers of one token, a segment for each KV head; bytes as counted from live tensors."""
    rows, chosen = list(range(len(measured))), [c == selected for c in measured]
    figure = base_figure(height=60 + 32 * len(rows), showlegend=False)
    figure.add_trace(_bars(_all_segments(measured, selected), orientation="h"))
    totals = [bold(f" {n:,} B", yes) for n, yes in zip(measured.values(), chosen, strict=True)]
    beside = {"mode": "text", "textposition": "middle right", "hoverinfo": "skip"}
    figure.add_scatter(x=list(measured.values()), y=rows, text=totals, **beside)
    labels = [bold(attention_name(c), yes) for c, yes in zip(measured, chosen, strict=True)]
    bare = {"showgrid": False, "zeroline": False}
    figure.update_yaxes(tickvals=rows, ticktext=labels, autorange="reversed", **bare)
    figure.update_xaxes(range=[0, max(measured.values()) * 1.25], title="bytes a token, all layers", **bare)
    return drawn(figure, cache_words(measured, selected))


def cache_panel(measured: dict[ModelConfig, int], selected: ModelConfig) -> dict:
    """The same for the `to_scale` component: bytes rightwards, a row for every model downwards."""
    rects = [
        _rect(bar, bar.base, bar.at + 0.5 - bar.width / 2, bar.length, bar.width)
        for bar in _all_segments(measured, selected)
    ]
    labels = []
    for row, (config, n) in enumerate(measured.items()):
        strong = "strong" if config == selected else ""
        labels.append([0, row + 0.5, f"before {strong}", attention_name(config), ""])
        labels.append([n, row + 0.5, f"after {strong}", f"{n:,} B", ""])
    return _panel(cache_words(measured, selected), max(measured.values()), len(measured), rects, labels, row=32)


def cache_words(measured: dict[ModelConfig, int], selected: ModelConfig) -> Words:
    """What is said of the cache."""
    names, sizes = [attention_name(c) for c in measured], list(measured.values())
    n_bytes, largest = measured[selected], max(sizes)
    title = f"{attention_name(selected)} remembers {n_bytes:,} B of every token"
    if n_bytes < largest:
        title += f", {n_bytes / largest:.1%} of what {names[sizes.index(largest)]} does"
    return Words(
        title=title,
        note="The KV cache of one token in float32, as it is run here; 16 bits take half. A segment is one KV head. "
        "The lengths are counted from the tensors of a cache that the live model filled.",
        alt=title + ". " + "; ".join(f"{name} {n:,} B" for name, n in zip(names, sizes, strict=True)) + ".",
        table={
            "attention": names,
            "bytes a token, counted": sizes,
            "bytes a token, by formula": [kv_cache_bytes(config, 1, bits=32) for config in measured],
        },
        formula=_cache_formula(selected, n_bytes),
        line=_cache_line(selected, n_bytes),
    )


def _all_segments(measured: dict[ModelConfig, int], selected: ModelConfig) -> list[_Bar]:
    rows = (_segments(row, config, n, config == selected) for row, (config, n) in enumerate(measured.items()))
    return [bar for row in rows for bar in row]


def _panel(words: Words, width: float, height: float, rects: list, labels: list, row: int = 0) -> dict:
    """A picture of rectangles. row: pixels that one unit downwards takes; 0: the same scale in both directions."""
    return {
        "title": words.title, "note": words.note, "alt": words.alt, "width": width, "height": height, "row": row,
        "line": words.line, "rects": rects, "labels": labels,
    }  # fmt: skip


def _rect(bar: _Bar, x: float, y: float, width: float, height: float) -> list:
    return [x, y, width, height, bar.colour, STRONG if bar.strong else SOFT, bar.says]


def work(configs: Sequence[ModelConfig], selected: ModelConfig, n_tokens: int) -> Drawing:
    """What one new token costs after n_tokens, for every number of KV heads, as a share of the first config's."""
    costs, words = _costs(configs, n_tokens), work_words(configs, selected, n_tokens)
    names, here = [attention_name(c) for c in configs], configs.index(selected)
    figure = base_figure(height=300, hovermode="x unified", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    styles = (("solid", "circle", DIVERGING[-1][1]), ("dash", "square", DIVERGING[0][1]), ("dot", "diamond", NEUTRAL))
    for (what, values), (dash, symbol, colour) in zip(costs.items(), styles, strict=True):
        figure.add_scatter(
            x=list(range(len(names))), y=[value / values[0] for value in values], name=what, mode="lines+markers",
            line={"dash": dash, "color": colour}, marker={"symbol": symbol, "size": 9},
            text=[f"{value:,}" for value in values], hovertemplate="%{y:.1%} (%{text})",
        )  # fmt: skip
    figure.add_vrect(x0=here - 0.2, x1=here + 0.2, fillcolor=FAINT, line={"width": 0}, layer="below")
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=names, showgrid=False)
    figure.update_yaxes(title=f"share of {names[0]}", tickformat=".0%", rangemode="tozero")
    return drawn(figure, words)


def work_panel(configs: Sequence[ModelConfig], selected: ModelConfig, n_tokens: int) -> dict:
    """The selected one alone for the `to_scale` component: a bar for every cost, as a share of the first config's."""
    here, rects, labels, longest = configs.index(selected), [], [], 1.0
    for row, (what, values) in enumerate(_costs(configs, n_tokens).items()):
        share = values[here] / values[0]
        rects.append([0, row + 0.15, share, 0.7, NEUTRAL, STRONG, f"{values[here]:,} of {values[0]:,}"])
        labels += [[0, row + 0.5, "before", what, ""], [share, row + 0.5, "after strong", f"{share:.1%}", ""]]
        longest = max(longest, share)
    return _panel(work_words(configs, selected, n_tokens), longest, len(rects), rects, labels, row=32)


def work_words(configs: Sequence[ModelConfig], selected: ModelConfig, n_tokens: int) -> Words:
    """What is said of the work."""
    costs, here = _costs(configs, n_tokens), configs.index(selected)
    names = [attention_name(c) for c in configs]
    flops, memory = (costs[what][here] / costs[what][0] for what in ("attention FLOPs", "cache bytes read"))
    title = f"{names[here]} computes {flops:.0%} of {names[0]}'s attention FLOPs and reads {memory:.1%} of its cache"
    return Words(
        title=title,
        note=f"One new token that attends to {n_tokens:,}. {_why(selected)}",
        alt=f"{title}; {costs['parameters'][here]:,} of {costs['parameters'][0]:,} parameters.",
        table={"attention": names, **costs},
        formula=_work_formula(selected, n_tokens),
    )


def _why(selected: ModelConfig) -> str:
    if selected.attention == "mla":
        return (
            "MLA is counted as it decodes, absorbed: every head compares itself with the latent, which is longer than "
            "a key, so more is multiplied while less is read."
        )
    return (
        "Every query head still compares itself with every key, so scores and weighted sums cost the same; what is "
        "remembered and read shrinks, and with it W_k and W_v."
    )


def _costs(configs: Sequence[ModelConfig], n_tokens: int) -> dict[str, list[int]]:
    return {
        "attention FLOPs": [attention_flops(c, n_tokens) for c in configs],
        "cache bytes read": [kv_cache_bytes(c, n_tokens, bits=32) for c in configs],
        "parameters": [count_parameters(c).total for c in configs],
    }


@dataclass(frozen=True)
class _Bar:
    """One coloured rectangle: where it stands on the axis that bars stand on, how wide, from where and how long."""

    at: float
    width: float
    base: float
    length: float
    colour: str
    strong: bool
    says: str


def _bars(bars: Sequence[_Bar], orientation: str = "v") -> dict:
    """All rectangles as one trace: a trace of its own for each would take the browser several times as long."""
    at, length = [bar.at for bar in bars], [bar.length for bar in bars]
    return {
        "type": "bar",
        "orientation": orientation,
        "x": at if orientation == "v" else length,
        "y": length if orientation == "v" else at,
        "base": [bar.base for bar in bars],
        "width": [bar.width for bar in bars],
        "marker": {
            "color": [bar.colour for bar in bars],
            "opacity": [STRONG if bar.strong else SOFT for bar in bars],
            "line": {"width": 1, "color": FAINT},
        },
        "hovertext": [bar.says for bar in bars],
        "hoverinfo": "text",
    }


def _stripes(name: str, left: float, n_in: int, n_out: int, c: AttentionConfig) -> list[_Bar]:
    """One matrix as stripes that fill it, one for each head; lying for W_o, whose inputs are the heads."""
    shared = name in ("W_k", "W_v")
    n = c.n_kv_heads if shared else c.n_heads
    stripes = []
    for i in range(n):
        kv = i * c.n_kv_heads // n
        whose = f"{name}, KV head {kv}" if shared else f"{name}, query head {i}, KV head {kv}"
        paint = kv_colour(kv, c.n_kv_heads), shared, whose
        if name == "W_o":
            stripes.append(_Bar(left + n_out / 2, n_out, i * n_in / n, n_in / n, *paint))
        else:
            stripes.append(_Bar(left + (i + 0.5) * n_out / n, n_out / n, 0, n_in, *paint))
    return stripes


def _segments(row: int, config: ModelConfig, n_bytes: int, strong: bool) -> list[_Bar]:
    """One bar of the cache in the parts it is made of."""
    if config.attention == "mla":
        parts = {"latent": config.kv_lora_rank, "rotated key": config.qk_rope_head_dim}
        colours = [NEUTRAL] * 2
    else:
        parts = {f"KV head {j}": 1 for j in range(config.n_kv_heads)}
        colours = [kv_colour(j, config.n_kv_heads) for j in range(config.n_kv_heads)]
    start, segments = 0.0, []
    for (part, share), colour in zip(parts.items(), colours, strict=True):
        length = n_bytes * share / sum(parts.values())
        says = f"{attention_name(config)}, {part}: {length:,.0f} B"
        segments.append(_Bar(row, 0.7, start, length, colour, strong, says))
        start += length
    return segments


def _cache_formula(c: ModelConfig, n_bytes: int) -> str:
    if c.attention == "mla":
        symbols, numbers = r"L\,(R + P)", rf"{c.n_layers}\,({c.kv_lora_rank} + {c.qk_rope_head_dim})"
    else:
        symbols, numbers = r"2\,L K D", rf"2\cdot{c.n_layers}\cdot{c.n_kv_heads}\cdot{c.head_dim}"
    return rf"{symbols}\cdot 4\text{{ B}} = {numbers}\cdot 4\text{{ B}} = {tex(n_bytes)}\text{{ B}}"


def _cache_line(c: ModelConfig, n_bytes: int) -> str:
    if c.attention == "mla":
        return f"L·(R + P)·4 B = {c.n_layers}·({c.kv_lora_rank} + {c.qk_rope_head_dim})·4 B = {n_bytes:,} B"
    return f"2·L·K·D·4 B = 2·{c.n_layers}·{c.n_kv_heads}·{c.head_dim}·4 B = {n_bytes:,} B"


def _work_formula(c: ModelConfig, n_tokens: int) -> str:
    """Scores and weighted sum of one token; in MLA's absorbed form every head works on the latent itself."""
    flops = tex(attention_flops(c, n_tokens))
    if c.attention == "mla":
        width = rf"(2\cdot{c.kv_lora_rank} + {c.qk_rope_head_dim})"
        return rf"2\,L H (2R + P)\,S = 2\cdot{c.n_layers}\cdot{c.n_heads}\,{width}\,{n_tokens} = {flops}"
    return rf"4\,L H D S = 4\cdot{c.n_layers}\cdot{c.n_heads}\cdot{c.head_dim}\cdot{n_tokens} = {flops}"


def _says_query(head: int, kv: int, readers: Sequence[int], right: int) -> str:
    others = [h for h in readers if h != head]
    company = f"together with query head{'s' * (len(others) > 1)} {listed(others)}" if others else "alone"
    wrong = "" if kv == right else f"; the one it learnt to read is KV head {right}"
    return f"Query head {head} reads KV head {kv}, {company}{wrong}."
