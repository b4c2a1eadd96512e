"""Axes of the cost figures: logarithmic ranges and ticks, and names that stand apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from attnviz.cost.units import bytes_text

PLOT_WIDTHS = (260, 560, 1000)  # pixels of the plot: the server does not know the page's width, so all must work
FEW_TICKS = 3  # with fewer, a reader cannot see that an axis is logarithmic
CHARACTER = 6.4  # pixels: width of a character


def share(value: float, ends: list[float]) -> float:
    """Return where a value lies on a logarithmic axis, 0 to 1."""
    low, high = ends
    return (math.log10(value) - low) / (high - low)


def log_range(values: Iterable[float]) -> list[float]:
    """Return the decimal logarithms of the smallest and largest value, with a margin."""
    logs = [math.log10(v) for v in values]
    room = 0.06 * (max(logs) - min(logs)) + 0.05
    return [min(logs) - room, max(logs) + room]


def decades(ends: list[float], text: Callable[[float], str]) -> dict[str, list]:
    """Return ticks at every power of ten between the logarithms `ends`."""
    ticks = [10**k for k in range(math.ceil(ends[0]), math.floor(ends[1]) + 1)]
    return {"tickvals": ticks, "ticktext": [text(n) for n in ticks]}


def binary_decades(ends: list[float]) -> dict[str, list]:
    """Return ticks at every KiB, MiB, GiB … and at 32 times each of them; at 8 times the last where those are few."""
    for step in (5, 3):
        powers = (2.0**k for k in range(10, 70, step))
        ticks = [n for n in powers if ends[0] <= math.log10(n) <= ends[1]]
        if len(ticks) >= FEW_TICKS:
            break
    return {"tickvals": ticks, "ticktext": [bytes_text(n) for n in ticks]}


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights so that no two are closer than `gap`: clusters are spread around their mean, in the same order."""
    clusters: list[list[int]] = []
    for i in sorted(range(len(heights)), key=lambda i: heights[i]):
        clusters.append([i])
        while len(clusters) > 1 and _lowest(clusters[-1], heights, gap) < _highest(clusters[-2], heights, gap) + gap:
            last = clusters.pop()
            clusters[-1] = clusters[-1] + last
    moved = list(heights)
    for cluster in clusters:
        for rank, i in enumerate(cluster):
            moved[i] = _lowest(cluster, heights, gap) + rank * gap
    return moved


def _lowest(cluster: list[int], heights: Sequence[float], gap: float) -> float:
    return sum(heights[i] for i in cluster) / len(cluster) - gap * (len(cluster) - 1) / 2


def _highest(cluster: list[int], heights: Sequence[float], gap: float) -> float:
    return _lowest(cluster, heights, gap) + gap * (len(cluster) - 1)
