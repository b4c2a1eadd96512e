"""Figures of a decoder whose layers differ: parameters by part, and cache and state by kind of layer."""

from __future__ import annotations

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, count_parameters, kv_cache_bytes, with_its_scales
from attnviz.cost.cached import CachedByKind, cached_by_kind, state_bytes
from attnviz.cost.units import bytes_text, count_text
from attnviz.cost.weights import parameters
from attnviz.equations import Equation
from attnviz.figures.cost.captions import crowd_text, precision_note
from attnviz.figures.cost.formulas import breaking_lines, cache_equation
from attnviz.figures.cost.own import bar_rows, bar_totals
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import NEUTRAL
from attnviz.mechanisms import Mixer
from attnviz.phrases import count, listed

STATES = (
    "States are counted in 32 bits and the inputs of convolutions in 16, as transformers keeps them, whatever the "
    "cache's precision; engines may keep both in 16."
)


def mixer_name(mixer: Mixer) -> str:
    """Name a mixer with the keys that it attends to: "GQA-4, window 512"."""
    return ", ".join(filter(None, (mixer.name, mixer.seen())))


def layers_text(model: ModelConfig) -> str:
    """Say which layers the model has: "36 × gated delta rule and 12 × GQA-2"."""
    kinds = cached_by_kind(model, 1)
    if not all(kind.mixer.work_known for kind in kinds):
        return f"{model.n_layers}, {kinds[0].mixer.name} together"
    said = listed([f"{kind.n_layers} × {mixer_name(kind.mixer)}" for kind in kinds])
    n_readers = sum(kind.n_readers for kind in kinds)
    if not n_readers:
        return said
    return f"{said}; {count(n_readers, 'layer')} more read{'s' * (n_readers == 1)} the cache of one of these"


def only_costs(model: ModelConfig) -> list[str]:
    """Return what AttnViz cannot show of this model, a sentence for each mechanism that has no module."""
    return list(dict.fromkeys(filter(None, (kind.mixer.cannot("run") for kind in cached_by_kind(model, 1)))))


def parts_of_layers(model: ModelConfig) -> Drawing:
    """Draw the parameters by part, all layers together."""
    counted = count_parameters(model)
    rows = list(range(len(counted.parts)))
    figure = bar_rows(list(counted.parts), [False] * len(rows), max(counted.parts.values()), "parameters", rows)
    figure.add_bar(orientation="h", x=list(counted.parts.values()), y=rows, width=0.6, marker={"color": NEUTRAL})
    sizes = list(counted.parts.values())
    bar_totals(figure, sizes, [count_text(n) for n in sizes], [False] * len(sizes), rows)
    largest = max(counted.parts, key=counted.parts.__getitem__)
    title = f"{largest}: {counted.parts[largest] / counted.total:.0%} of all {counted.total:,} parameters"
    equation = Equation(parameters(model))
    return Drawing(
        figure, title=title, note="All layers together; tied embeddings are counted once.",
        alt=f"{title}. " + "; ".join(f"{part} {n:,}" for part, n in counted.parts.items()) + ".",
        table={
            "part": list(counted.parts), "parameters": sizes,
            "share of all": [round(n / counted.total, 4) for n in sizes],
        },
        formula=breaking_lines(equation), legend=meanings(equation),
    )  # fmt: skip


def memory_of_layers(model: ModelConfig, n_tokens: int, batch_size: int, precision: str) -> Drawing:
    """Draw the bytes of cache and state by kind of layer."""
    bits, block = PRECISIONS[precision]
    kinds = cached_by_kind(model, n_tokens, batch_size, bits, block_size=block)
    names, sizes = [_row_name(kind) for kind in kinds], [kind.cache + kind.state for kind in kinds]
    rows = list(range(len(kinds)))
    figure = bar_rows(names, [False] * len(rows), max([*sizes, 1]), "bytes", rows)
    figure.add_bar(orientation="h", x=sizes, y=rows, width=0.6, marker={"color": NEUTRAL})
    bar_totals(figure, sizes, [bytes_text(n) for n in sizes], [False] * len(sizes), rows)
    title = memory_text(model, n_tokens, batch_size, precision)
    equation = cache_equation(model, n_tokens, batch_size, bits, block)
    return Drawing(
        figure, title=title,
        note=f"{crowd_text(n_tokens, batch_size)}, cache in {with_its_scales(precision)}: each kind of layer "
        "with its number.",
        more=" ".join(filter(None, (STATES if state_bytes(model) else "", precision_note(precision)))),
        alt=f"{title}. " + "; ".join(f"{n}: {bytes_text(b)}" for n, b in zip(names, sizes, strict=True)) + ".",
        table={
            "layers": [kind.n_layers for kind in kinds], "kind": [mixer_name(kind.mixer) for kind in kinds],
            f"bytes of cache in {precision}": [kind.cache for kind in kinds],
            "bytes of state": [kind.state for kind in kinds],
            "layers that read this cache": [kind.n_readers for kind in kinds],
        },
        formula=breaking_lines(equation), legend=meanings(equation),
    )  # fmt: skip


def _row_name(kind: CachedByKind) -> str:
    return f"{kind.n_layers} × {mixer_name(kind.mixer)}" if kind.mixer.work_known else mixer_name(kind.mixer)


def memory_text(model: ModelConfig, n_tokens: int, batch_size: int, precision: str) -> str:
    """State the bytes of cache and of state: "768 MiB of KV cache in 12 layers and 75 MiB of state in 36"."""
    bits, block = PRECISIONS[precision]
    kinds = cached_by_kind(model, n_tokens, batch_size, bits, block_size=block)
    state = sum(kind.state for kind in kinds)
    cached = kv_cache_bytes(model, n_tokens, batch_size, bits, block_size=block) - state
    n_cached = sum(kind.n_layers for kind in kinds if kind.mixer.cached())
    n_states = sum(kind.n_layers for kind in kinds if kind.mixer.state())
    known = all(kind.mixer.work_known for kind in kinds)  # else all layers are counted together
    there = (f" in {count(n, 'layer')}" if known else "" for n in (n_cached, n_states))
    said = [(cached, "KV cache", n_cached), (state, "state", n_states)]
    return " and ".join(
        f"{bytes_text(size)} of {what}{where}" for (size, what, n), where in zip(said, there, strict=True) if n
    )
