"""Figures of query grouping: the KV head that each head reads, the projections to scale, the KV cache.

H query heads, K KV heads, D head_dim, C d_model, L layers, S tokens. Each hue is a KV head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attnviz.config import ModelConfig
from attnviz.cost import attention_name, kv_cache_bytes
from attnviz.cost.cached import cached_per_token
from attnviz.cost.weights import attention_matrices, matrix
from attnviz.equations import Equation
from attnviz.figures.drawing import Caption
from attnviz.figures.markup import meanings
from attnviz.figures.theme import NEUTRAL, kv_colour
from attnviz.phrases import count, listed

SOFT, STRONG = 0.35, 1.0  # opacity: of the others and of the selected


def sharing(n_heads: int, n_kv_heads: int, read: Sequence[int], selected: int, *, cached: bool = True) -> dict:
    """Return the payload of the group diagram: `read[h]` is the KV head that query head h reads, correct or not.

    cached: the KV heads are kept when decoding, as those of an encoder are not.
    """
    size = n_heads // n_kv_heads
    right = [h // size for h in range(n_heads)]
    readers = {kv: [h for h in range(n_heads) if read[h] == kv] for kv in range(n_kv_heads)}
    how = f"repeat_interleave({size})" if list(read) == right else f"repeat({size})"
    return {
        "label": f"{count(n_heads, 'query head')} reading {count(n_kv_heads, 'KV head')}",
        "rows": {
            "queries": count(n_heads, "query head"),
            "kvs": _cached(n_heads, n_kv_heads) if cached else count(n_kv_heads, "KV head"),
            "reads": f"KV head that each query head reads{'' if list(read) == right else ' (dashed: the wrong one)'}",
            "index": f"arange({n_kv_heads}).{how} = {' '.join(map(str, read))}",
        },
        "queries": [
            {
                "name": f"Q{h}",
                "kv": kv,
                "description": _query_text(h, kv, readers[kv], right[h]),
                "wrong": kv != right[h],
            }
            for h, kv in enumerate(read)
        ],
        "kvs": [
            {
                "name": f"K{kv} · V{kv}",
                "colour": kv_colour(kv, n_kv_heads),
                "description": f"KV head {kv} is read by query head{'s' * (len(heads) > 1)} {listed(heads)}.",
            }
            for kv, heads in readers.items()
        ],
        "selected": selected,
    }


def _cached(n_heads: int, n_kv_heads: int) -> str:
    if n_kv_heads == 1:
        return "Only this KV head is cached."
    return (
        f"All {n_kv_heads} KV heads are cached."
        if n_kv_heads == n_heads
        else f"Only these {n_kv_heads} KV heads are cached."
    )


def projections_panel(config: ModelConfig) -> dict:
    """Return W_q, W_k, W_v and W_o for the `to_scale` component, split into heads in the hue of their KV head.

    Coordinates are numbers of weights, rightwards and downwards.
    """
    rects, labels = _all_stripes(config)
    height = max(y + h for _, y, _, h, *_ in rects)
    below = [[x, height, "below", name, shape] for x, (name, shape) in labels.items()]
    width = max(x + w for x, _, w, *_ in rects)
    return panel(projections_caption(config), width, height, rects, below)


def projections_caption(config: ModelConfig) -> Caption:
    """Return title, note and numbers of the projections."""
    c, equation = config, projection_weights(config)
    shapes, kv_width = _shapes(c), c.n_kv_heads * c.head_dim
    weights = [int(matrix(config, name).value) for name in "qkvo"]
    wide = f"1/{c.group_size} of W_q" if c.group_size > 1 else "as wide as W_q"
    finding = f"W_k and W_v are {kv_width} wide, {wide}"
    return Caption(
        title=finding,
        note="The four projections of one layer to one scale, inputs downwards, outputs to the right. Each stripe is "
        f"one head in the hue of its KV head: {count(c.n_heads, 'query head')} and {count(c.n_kv_heads, 'KV head')}, "
        f"each {c.head_dim} wide." + " Biases are not drawn." * c.qkv_bias,
        alt=f"{finding}. W_q and W_o hold {weights[0]:,} weights each, W_k and W_v {weights[1]:,} each, "
        f"{sum(weights):,} per layer.",
        table={
            "matrix": list(shapes),
            "inputs": [n_in for n_in, _ in shapes.values()],
            "outputs": [n_out for _, n_out in shapes.values()],
            "weights": weights,
        },
        formula=equation.tex(),
        line=equation.text(),
        legend=meanings(equation),
    )


def projection_weights(config: ModelConfig) -> Equation:
    """Return the equation of the weights in W_q, W_k, W_v and W_o of one layer."""
    return Equation(attention_matrices(config), unit="weights")


def _shapes(c: ModelConfig) -> dict[str, tuple[int, int]]:
    """Return the inputs and outputs of each projection."""
    q_width, kv_width = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
    kv = c.d_model, kv_width
    return {"W_q": (c.d_model, q_width), "W_k": kv, "W_v": kv, "W_o": (q_width, c.d_model)}


def _all_stripes(c: ModelConfig) -> tuple[list[list], dict[float, tuple[str, str]]]:
    """Return the matrices side by side, and the name and shape of each by the x of its middle."""
    left, labels, stripes, widest = 0.0, {}, [], max(c.n_heads * c.head_dim, c.d_model)
    for name, (n_in, n_out) in _shapes(c).items():
        room = max(n_out, 0.34 * widest)  # at least the width of its label
        stripes += _stripes(name, left + (room - n_out) / 2, n_in, n_out, c)
        labels[left + room / 2] = name, f"{n_in} × {n_out}"
        left += room + 0.14 * widest
    return stripes, labels


def cache_panel(measured: dict[ModelConfig, int], selected: ModelConfig) -> dict:
    """Return each model's cache per token for the `to_scale` component, one segment per KV head.

    Bytes rightwards, counted from live tensors, and a row per model downwards.
    """
    rects = [
        segment
        for row, (config, n) in enumerate(measured.items())
        for segment in _segments(row, config, n, config == selected)
    ]
    labels = []
    for row, (config, n) in enumerate(measured.items()):
        strong = "strong" if config == selected else ""
        labels.append([0, row + 0.5, f"before {strong}", attention_name(config), ""])
        labels.append([n, row + 0.5, f"after {strong}", f"{n:,} B", ""])
    latent = " For MLA the two segments are the latent and the RoPE key." * any(map(_latent_sizes, measured))
    note = f"KV cache of all layers in float32. Each segment is one KV head.{latent}"
    short = replace(cache_caption(measured, selected), note=note)
    return panel(short, max(measured.values()), len(measured), rects, labels, row=28)


def cache_caption(measured: dict[ModelConfig, int], selected: ModelConfig) -> Caption:
    """Return title, note and numbers of the cache."""
    names, sizes = [attention_name(c) for c in measured], list(measured.values())
    n_bytes, largest = measured[selected], max(sizes)
    title, equation = f"{attention_name(selected)} caches {n_bytes:,} B per token", cache_bytes_per_token(selected)
    if n_bytes < largest:
        title += f", {share_text(n_bytes / largest)} of {names[sizes.index(largest)]}'s"
    return Caption(
        title=title,
        note="KV cache per token over all layers in float32, as run here; 16-bit numbers take half. Each segment is "
        "one KV head. Bytes are counted in the tensors of a cache that the live modules filled."
        + "".join(f" MLA here: {sizes}." for sizes in map(_latent_sizes, measured) if sizes),
        alt=title + ". " + "; ".join(f"{name} {n:,} B" for name, n in zip(names, sizes, strict=True)) + ".",
        table={
            "attention": names,
            "bytes per token, counted": sizes,
            "bytes per token, by formula": [kv_cache_bytes(config, 1, bits=32) for config in measured],
        },
        formula=equation.tex(),
        line=equation.text(),
        legend=meanings(equation),
    )


def _latent_sizes(c: ModelConfig) -> str:
    """Return the widths cached per token that belong to no KV head, under their configuration names."""
    alone = [vectors.width for vectors in c.mixer.cached() if vectors.count is None]
    return ", ".join(f"{width.meaning.split(',')[0]} {width.number}" for width in alone)


def cache_bytes_per_token(c: ModelConfig) -> Equation:
    """Return the equation of the bytes that one token takes in the cache in float32."""
    return Equation(cached_per_token(c, bits=32), unit="B")


def panel(caption: Caption, width: float, height: float, rects: list, labels: list, row: int = 0) -> dict:
    """Return a `to_scale` payload. row: pixels per unit downwards; 0: the same scale in both directions."""
    return {
        "title": caption.title, "note": caption.note, "alt": caption.alt, "width": width, "height": height, "row": row,
        "line": caption.line, "legend": caption.legend, "rects": rects, "labels": labels,
    }  # fmt: skip


def _rect(x: float, y: float, width: float, height: float, colour: str, strong: bool, hover: str) -> list:
    return [x, y, width, height, colour, STRONG if strong else SOFT, hover]


def share_text(share: float) -> str:
    """Format a share: "100%", "33.3%"."""
    return f"{share:.1%}".replace(".0%", "%")


def _stripes(name: str, left: float, n_in: int, n_out: int, c: ModelConfig) -> list[list]:
    """Return one matrix as stripes, one per head; horizontal for W_o, whose inputs are the heads."""
    shared = name in ("W_k", "W_v")
    n = c.n_kv_heads if shared else c.n_heads
    stripes = []
    for i in range(n):
        kv = i * c.n_kv_heads // n
        hover = f"{name}, KV head {kv}" if shared else f"{name}, query head {i}, KV head {kv}"
        paint = kv_colour(kv, c.n_kv_heads), shared, hover
        if name == "W_o":
            stripes.append(_rect(left, i * n_in / n, n_out, n_in / n, *paint))
        else:
            stripes.append(_rect(left + i * n_out / n, 0, n_out / n, n_in, *paint))
    return stripes


def _segments(row: int, config: ModelConfig, n_bytes: int, strong: bool) -> list[list]:
    """Return one row of the cache, split into its parts: one per KV head, or per vector that all heads share."""
    parts: dict[str, tuple[int, str]] = {}
    for vectors in config.mixer.cached():
        if vectors.count is None:
            parts |= {part: (int(vectors.width.number), NEUTRAL) for part in vectors.parts}
        else:
            K = vectors.number
            parts |= {f"KV head {j}": (int(vectors.width.number), kv_colour(j, K)) for j in range(K)}
    start, segments = 0.0, []
    for part, (share, colour) in parts.items():
        length = n_bytes * share / sum(width for width, _ in parts.values())
        hover = f"{attention_name(config)}, {part}: {length:,.0f} B"
        segments.append(_rect(start, row + 0.15, length, 0.7, colour, strong, hover))
        start += length
    return segments


def _query_text(head: int, kv: int, readers: Sequence[int], right: int) -> str:
    others = [h for h in readers if h != head]
    company = f"together with query head{'s' * (len(others) > 1)} {listed(others)}" if others else "alone"
    wrong = "" if kv == right else f"; with repeat_interleave() it reads KV head {right}"
    return f"Query head {head} reads KV head {kv}, {company}{wrong}."
