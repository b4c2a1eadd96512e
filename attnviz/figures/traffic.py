"""What softmax in tiles saves: bytes to and from slow memory, and time measured on this machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.decode.comparisons import Spread
from attnviz.equations import Equation, tex_lines
from attnviz.experiments.traffic import moved
from attnviz.figures.chart import Chart
from attnviz.figures.decode import unsteady
from attnviz.figures.drawing import Drawing
from attnviz.figures.markup import meanings
from attnviz.figures.theme import NEUTRAL, PETROL, base_figure
from attnviz.phrases import count

USUAL = 128  # the width of a head in many models, and a usual tile: the line to compare with


def traffic(n_tokens: int, head_dim: int, value_dim: int, block: int) -> Drawing:
    """Draw how many times the bytes of tiles the full score matrix moves for one head, over the number of tokens.

    head_dim: width of a query and a key. value_dim: width of a value, which differs in MLA.
    """
    lengths = sorted({*(2**i for i in range(5, 18)), n_tokens})
    whole, tiled = ([moved(T, head_dim, value_dim, block)[i].value for T in lengths] for i in (0, 1))
    usual = [first.value / second.value for first, second in (moved(T, USUAL, USUAL, USUAL) for T in lengths)]
    ratios = np.divide(whole, tiled).tolist()
    figure = _ratios(lengths, "full score matrix / tiles, bytes")
    for name, values, line in (
        (f"this head, tiles of {block}", ratios, {"color": PETROL}),
        (f"head of {USUAL}, tiles of {USUAL}", usual, {"color": NEUTRAL, "dash": "dash"}),
    ):
        figure.add_scatter(
            x=lengths, y=values, mode="lines", name=name, line=line,
            hovertemplate="%{x:,} tokens: %{y:.2f} times<extra></extra>",
        )  # fmt: skip
    at = lengths.index(n_tokens)
    figure.add_scatter(
        x=[n_tokens], y=[ratios[at]], mode="markers", marker={"color": PETROL, "size": 9}, showlegend=False,
        hovertemplate="this text: %{y:.2f} times<extra></extra>",
    )  # fmt: skip
    equations = [Equation(each, unit="B") for each in moved(n_tokens, head_dim, value_dim, block)]
    title = f"At {count(n_tokens, 'token')} the full matrix moves {ratios[at]:.2f} times the bytes of tiles of {block}"
    return Drawing(
        figure,
        title=title,
        note="One head, no mask: bytes read from and written to slow memory (HBM on a GPU). Tiles move fewer above "
        f"the line at 1; the dot is this text. With many tokens the ratio approaches 4 · {block} / "
        f"({head_dim} + {value_dim}) = {4 * block / (head_dim + value_dim):.3g}.",
        more="With the full score matrix, scores and weights are each written and read once. With tiles, keys and "
        "values are read once per block of queries. The tile size is chosen on this page; FlashAttention takes "
        "⌈M / 4d⌉ keys per tile, where M "
        "is the SRAM's size in numbers and d the width of a head, and makes Θ(N²d² / M) HBM accesses instead of "
        "Θ(Nd + N²) for N tokens (arXiv 2205.14135).",
        alt=f"{title}. Two lines over the number of tokens, from {lengths[0]} to {lengths[-1]:,}.",
        table={
            "tokens": lengths, "full score matrix, B": whole, f"tiles of {block}, B": tiled,
            "full score matrix / tiles": ratios, f"head of {USUAL}, tiles of {USUAL}": usual,
        },
        formula=tex_lines(*equations),
        legend=f"{meanings(*equations)} 4 bytes per number.",
    )  # fmt: skip


def kernel_times(lengths: Sequence[int], seconds: Sequence[Spread], head_dim: int) -> Drawing:
    """Draw how many times as long the written-out attention takes as PyTorch's tiled kernel, by number of tokens.

    seconds: of the written-out attention at each length, then of the kernel.
    """
    full, tiled = seconds[: len(lengths)], seconds[len(lengths) :]
    ratios = [one.median / other.median for one, other in zip(full, tiled, strict=True)]
    figure = _ratios(lengths, "full score matrix / tiles, time")
    figure.update_layout(xaxis={"tickvals": list(lengths), "ticktext": [f"{n:,}" for n in lengths]})
    figure.add_scatter(
        x=lengths, y=ratios, mode="lines+markers", line={"color": PETROL}, marker={"size": 7}, showlegend=False,
        hovertemplate="%{x:,} tokens: %{y:.2f} times<extra></extra>",
    )  # fmt: skip
    times = "times as long" if ratios[-1] >= 1 else "times the time"
    title = f"At {lengths[-1]:,} tokens the full score matrix takes {ratios[-1]:.1f} {times}"
    return Drawing(
        figure,
        title=title,
        note=f"One head of width {head_dim}, fp32, no mask, on this machine's processor: attention as this page "
        f"shows it line by line, over PyTorch's kernel in tiles; medians of {full[0].n_runs} runs.{unsteady(seconds)}",
        more="Both do the same multiplications: the kernel saves traffic, since a tile of scores stays in the "
        "processor's cache. On a GPU the ratio is another.",
        alt=f"{title}. " + "; ".join(f"{n:,} tokens: {r:.2f} times" for n, r in zip(lengths, ratios, strict=True)),
        table={
            "tokens": list(lengths),
            "full score matrix, ms": [round(1e3 * each.median, 3) for each in full],
            "tiles, ms": [round(1e3 * each.median, 3) for each in tiled],
            "full score matrix / tiles": [round(ratio, 2) for ratio in ratios],
        },
    )  # fmt: skip


def _ratios(lengths: Sequence[int], title: str) -> Chart:
    """Return an empty chart of a ratio over the number of tokens, with a line at 1."""
    figure = base_figure(300, showlegend=True, legend={"orientation": "h", "y": 1.15})
    figure.add_scatter(
        x=[lengths[0], lengths[-1]], y=[1, 1], mode="lines", line={"color": NEUTRAL, "width": 1}, hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip
    figure.update_layout(
        xaxis={"type": "log", "title": {"text": "tokens"}, "dtick": 1},
        yaxis={"title": {"text": title}, "rangemode": "tozero"},
    )
    return figure
