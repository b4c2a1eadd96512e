"""The caches of a few models as bars to scale."""

from __future__ import annotations

from collections.abc import Sequence

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, attention_name, kv_cache_bytes, with_its_scales
from attnviz.cost.units import bytes_text
from attnviz.cost.variants import KINDS, kind_of
from attnviz.figures.cost.captions import beyond_text, crowd_text, is_beyond, short_name
from attnviz.figures.cost.formulas import cache_equation
from attnviz.figures.markup import meanings
from attnviz.figures.theme import kind_style
from attnviz.phrases import listed

ROW = 26  # pixels


def caches_panel(rows: Sequence[ModelConfig], n_tokens: int, batch_size: int, precision: str) -> dict:
    """Return the `to_scale` payload: bytes rightwards, a row per model downwards, last the model asked about."""
    bits, block = PRECISIONS[precision]
    sizes = [kv_cache_bytes(m, n_tokens, batch_size, bits, block_size=block) for m in rows]
    names = [short_name(m) for m in rows]
    shares = [n / max(sizes) for n in sizes]  # browsers do not draw shapes that are billions of units wide
    equation = cache_equation(rows[0], n_tokens, batch_size, bits, block)
    title = _title(names, sizes)
    beyond = f" Faint: {beyond_text(rows, n_tokens)}" if any(is_beyond(m, n_tokens) for m in rows) else ""
    return {
        "title": title,
        "note": f"KV cache of {crowd_text(n_tokens, batch_size)} in {with_its_scales(precision)}, to scale, by "
        f"formula. The colour is the type of attention.{beyond}",
        "alt": f"{title}. {listed(f'{name} {n:,} B' for name, n in zip(names, sizes, strict=True))}.",
        "width": 1, "height": len(rows), "row": ROW,
        "line": f"{names[0]}: {equation.text()}", "legend": meanings(equation),
        "rects": [
            [0, row + 0.15, share, 0.7, kind_style(kind_of(m))["colour"], 0.4 if is_beyond(m, n_tokens) else 1,
             f"{m.name}, {attention_name(m)}: {n:,} B"]
            for row, (m, n, share) in enumerate(zip(rows, sizes, shares, strict=True))
        ],
        "labels": [
            label
            for row, (m, n, share) in enumerate(zip(rows, sizes, shares, strict=True))
            for label in ([0, row + 0.5, "before", _row_label(m), ""], [share, row + 0.5, "after", bytes_text(n), ""])
        ],
    }  # fmt: skip


def kinds_of(models: Sequence[ModelConfig]) -> list[tuple[str, str]]:
    """Return (colour, name) of each type of attention among these models."""
    kinds = {kind_of(m) for m in models}
    return [(kind_style(kind)["colour"], name) for kind, name in KINDS.items() if kind in kinds]


def _row_label(model: ModelConfig) -> str:
    """Name model and attention: "Llama 3 8B, GQA-8"."""
    name, attention = short_name(model), attention_name(model)
    return name if attention in name else f"{name}, {attention}"


def _title(names: Sequence[str], sizes: Sequence[int]) -> str:
    """Compare the largest cache with the smallest."""
    largest, smallest = (sizes.index(pick(sizes)) for pick in (max, min))
    if sizes[largest] == sizes[smallest]:
        return f"{listed(names)} {'caches' if len(names) == 1 else 'cache'} {bytes_text(sizes[largest])}"
    times = float(f"{sizes[largest] / sizes[smallest]:.2g}")  # from the sizes as printed, two digits are sure
    return f"{names[largest]} caches {times:,.{int(times < 10)}f} times as much as {names[smallest]}"
