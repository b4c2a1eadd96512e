"""Figure of who holds what: what each of several accelerators caches, by KV head, and its share of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from attnviz.cost import PRECISIONS, Serving, bits_with_scales, weight_bytes, with_its_scales
from attnviz.cost.cached import held_by_kind, state_bytes
from attnviz.cost.placed import DATA, without_windows
from attnviz.cost.units import BINARY, bytes_text
from attnviz.figures.chart import Chart
from attnviz.figures.cost.captions import beyond_context, crowd_text, precision_note, short_name
from attnviz.figures.cost.formulas import breaking_lines, cache_equation
from attnviz.figures.cost.placing import PARALLEL, allocation, parallel_text
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import DARK_PETROL, FAINT, LABEL, NEUTRAL, PETROL, base_figure, kv_colour
from attnviz.phrases import in_a_row, listed

MOST_DRAWN = 8  # accelerators
LEGIBLE = 0.05  # share of the axis from which a piece has room for its number
STATE, COPY = "state", "/"  # the pattern of a copy
WEIGHTS = (
    "Weights are those of the accelerator that holds most; hatched is what it holds above an even share. Tensor "
    "parallelism copies norms, routers, the matrices that make MLA's latents and those of copied KV heads; "
    "data-parallel attention copies all weights of attention."
)


@dataclass(frozen=True)
class Piece:
    """A part of the cache on one accelerator. head: its KV head, None if it belongs to none."""

    name: str
    head: int | None
    size: Fraction  # bytes
    copy: bool  # another accelerator, with a lower number, holds it too


def holders(serving: Serving, n_sequences: int, parallel: str) -> Drawing:
    """Draw what each accelerator caches of so many sequences, and its weights, divided in this way."""
    serving = replace(serving, parallel=parallel)
    ranks, (weights, even) = held(serving, n_sequences), _weights(serving)
    cached = [round(sum(piece.size for piece in rank)) for rank in ranks]
    copied = [round(sum(piece.size for piece in rank if piece.copy)) for rank in ranks]
    times = sum(cached) / max(sum(cached) - sum(copied), 1)
    title = _title(serving, cached, times)
    bits, block = PRECISIONS[serving.precision]
    here = serving.here(n_sequences)
    equation = cache_equation(serving.allocated, serving.n_tokens, here, bits, block, page=serving.page)
    return Drawing(
        _chart(ranks[:MOST_DRAWN], weights, even, *_most(serving, n_sequences)),
        title=title,
        note=f"{beyond_context(serving.model, serving.n_tokens)}{_drawn(serving)} Above: what each caches of "
        f"{crowd_text(serving.n_tokens, n_sequences)}{', its hue the KV head' if _has_heads(ranks) else ''}. Below: "
        "its weights. Hatched: copies.",
        more=" ".join(filter(None, (
            f"{short_name(serving.model)} in {with_its_scales(serving.weights)}, cache in "
            f"{with_its_scales(serving.precision)}.",
            parallel_text(serving, n_sequences), *allocation(serving), precision_note(serving.precision), WEIGHTS,
            "The equation is for the accelerator that caches most.",
        ))),
        alt=f"{title}. " + "; ".join(
            f"accelerator {i}: {_holds(rank)}, {bytes_text(size)}"
            for i, (rank, size) in enumerate(zip(ranks[:MOST_DRAWN], cached, strict=False))
        ) + f". Weights on each: {bytes_text(weights)}, of it {bytes_text(weights - even)} copied.",
        table={
            "accelerator": list(range(len(ranks))),
            "holds": list(map(_holds, ranks)),
            "bytes of cache and state": cached,
            "of it copies": copied,
            "times all of it is held": [times] * len(ranks),
            "bytes of weights": [weights] * len(ranks),
            "of it above an even share": [weights - even] * len(ranks),
        },
        formula=breaking_lines(equation),
        legend=meanings(equation),
        below=_below(ranks),
    )  # fmt: skip


def held(serving: Serving, n_sequences: int) -> list[list[Piece]]:
    """Return the pieces of the caches of so many sequences on each accelerator."""
    bits, block = PRECISIONS[serving.precision]
    model = without_windows(serving.model) if serving.full_windows else serving.model
    n, parts = serving.count, 1 if serving.parallel == DATA else serving.count  # parts of one sequence's cache
    kinds = held_by_kind(model, parts, serving.n_tokens, bits, block_size=block, page=serving.page)
    heads_of = [kind.mixer.held_by(parts) for kind in kinds]
    seen: set[tuple[str, int | None]] = set()
    ranks = []
    for rank in range(n):
        sizes: dict[tuple[str, int | None], Fraction] = {}
        for kind, heads in zip(kinds, heads_of, strict=True):
            here = heads[rank % parts]
            found: list[tuple[tuple[str, int | None], Fraction]]
            found = [((f"KV head {head}", head), kind.of_head) for head in here]
            shared = (
                listed(p for v in kind.mixer.cached() if not kind.mixer.of_heads(v) for p in v.parts)
                if kind.shared
                else ""
            )
            found += [((shared, None), kind.shared)] * bool(here) + [((STATE, None), kind.state)]
            for key, size in found:
                if size:
                    sizes[key] = sizes.get(key, Fraction(0)) + size
        n_here = n_sequences if parts == n else n_sequences // n + (rank < n_sequences % n)
        pieces = [
            Piece(name, head, n_here * size, parts > 1 and name != STATE and (name, head) in seen)
            for (name, head), size in sizes.items()
            if n_here
        ]
        ranks.append(sorted(pieces, key=lambda piece: _order(piece.name, piece.head)))
        seen |= sizes.keys()
    return ranks


def _most(serving: Serving, n_sequences: int) -> tuple[Fraction, int]:
    """Return the most bytes of cache and of weights on one accelerator in any way of dividing: one scale for all."""
    ways = [replace(serving, parallel=each) for each in PARALLEL]
    cached = [sum((piece.size for piece in rank), Fraction(0)) for way in ways for rank in held(way, n_sequences)]
    return max(cached), max(_weights(way)[0] for way in ways)


def _weights(serving: Serving) -> tuple[int, int]:
    """Return the bytes of weights on one accelerator, and those of an even share."""
    bits = bits_with_scales(serving.weights)
    here, all_ = weight_bytes(serving.held, bits), weight_bytes(serving.model, bits)
    return here, min(here, -(-all_ // serving.count))


def _title(serving: Serving, cached: Sequence[int], times: float) -> str:
    """State how many times the cache is held, and how much of it most on one accelerator."""
    cache = "cache and state are" if state_bytes(serving.model) else "the cache is"
    held_times = f"held {times:.3g} times" if times > 1 else "held once"
    most = f"{'' if len(set(cached)) == 1 else 'at most '}{bytes_text(max(cached))} on each"
    return f"{PARALLEL[serving.parallel].capitalize()}: {cache} {held_times}, {most} of {serving.count:,}"


def _drawn(serving: Serving) -> str:
    n = serving.count
    if n <= MOST_DRAWN:
        return "A column per accelerator."
    return f"A column for each of the first {MOST_DRAWN} of {n:,} accelerators; the others hold at most as much."


def _holds(rank: Sequence[Piece]) -> str:
    """Name what an accelerator caches: "KV heads 0 to 3 and state"."""
    heads = [piece.head for piece in rank if piece.head is not None]
    named = [f"KV head{'s' * (len(heads) > 1)} {in_a_row(heads)}"] if heads else []
    return listed([*named, *(piece.name for piece in rank if piece.head is None)] or ["no cache"])


def _order(name: str, head: int | None) -> tuple:
    """Return the key that sorts pieces from the bottom of a stack: KV heads, what all heads share, state."""
    return head is None, head or 0, name == STATE, name


def _below(ranks: Sequence[Sequence[Piece]]) -> str:
    """Return the meaning of what is written and drawn in the pieces."""
    said = ["Numbers: KV heads."] if _has_heads(ranks) else []
    said += ["Dark: state."] if any(piece.name == STATE for rank in ranks for piece in rank) else []
    return " ".join([*said, "Hatched: copies."])


def _has_heads(ranks: Sequence[Sequence[Piece]]) -> bool:
    return any(piece.head is not None for rank in ranks for piece in rank)


def _chart(
    ranks: Sequence[Sequence[Piece]], weights: int, even: int, most_cached: Fraction, most_weights: int
) -> Chart:
    """Return a stack per accelerator of what it caches, above its weights; both axes up to these bytes."""
    x = list(range(len(ranks)))
    figure = base_figure(430, barmode="stack", showlegend=False)
    unit, name = _unit(most_cached)
    keys = {(piece.name, piece.head) for rank in ranks for piece in rank}
    for key in sorted(keys, key=lambda key: _order(*key)):
        here = [next((p for p in rank if (p.name, p.head) == key), None) for rank in ranks]
        figure.add_bar(
            x=x, y=[None if p is None else float(p.size / unit) for p in here], yaxis="y",
            marker={"color": _colour(*key), "line": {"width": 1, "color": FAINT}, "pattern": _pattern(here)},
            text=[_label(p) if p and p.size >= LEGIBLE * most_cached else "" for p in here],
            textposition="inside", insidetextanchor="middle", textangle=0,
            customdata=[_hover(p) for p in here], hovertemplate="accelerator %{x}: %{customdata}<extra></extra>",
        )  # fmt: skip
    weight_unit, weight_name = _unit(most_weights)
    for size, shape, said in ((even, "", "an even share of the weights"), (weights - even, COPY, "weights above it")):
        figure.add_bar(
            x=x, y=[size / weight_unit] * len(x), yaxis="y2", marker={"color": NEUTRAL, "pattern": {"shape": shape}},
            hovertemplate=f"accelerator %{{x}}: {said}, {bytes_text(size)}<extra></extra>",
        )  # fmt: skip
    axis = {"gridcolor": FAINT, "tickfont": LABEL, "nticks": 5}
    ranges = [[0, float(1.04 * most / unit)] for most, unit in ((most_cached, unit), (most_weights, weight_unit))]
    figure.update_layout(
        yaxis=axis | {"domain": [0.42, 1], "title": f"cache, {name}", "range": ranges[0]},
        yaxis2=axis | {"domain": [0, 0.34], "title": f"weights, {weight_name}", "range": ranges[1]},
        xaxis={"title": "accelerator", "tickvals": x, "showgrid": False, "anchor": "y2", "range": [-0.6, len(x) - 0.4]},
    )
    return figure


def _pattern(here: Sequence[Piece | None]) -> dict:
    shapes = [COPY if piece and piece.copy else "" for piece in here]
    return {"shape": shapes, "size": 7, "solidity": 0.25, "fillmode": "overlay"}


def _colour(name: str, head: int | None) -> str:
    if head is None:
        return DARK_PETROL if name == STATE else PETROL
    return kv_colour(head, head + 1)


def _label(piece: Piece) -> str:
    if piece.head is None:
        return "" if piece.name == STATE else piece.name.partition(" ")[0]
    return str(piece.head)


def _hover(piece: Piece | None) -> str:
    return f"{piece.name}, {bytes_text(float(piece.size))}{', a copy' * piece.copy}" if piece else ""


def _unit(size: float | Fraction) -> tuple[int, str]:
    """Return the unit of an axis up to this number of bytes: the largest power of 1,024 that is not above it."""
    step = next((i for i in range(len(BINARY) - 1, 0, -1) if size >= 1024**i), 0)
    return 1024**step, BINARY[step]
