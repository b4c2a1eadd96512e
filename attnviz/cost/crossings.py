"""Where one cost becomes less than another as the context grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from attnviz.config import ModelConfig


@dataclass(frozen=True)
class Crossing:
    """The first context at which a comparison of two costs turns. less: from there on the first cost is less."""

    n_tokens: int
    less: bool


def bends(model: ModelConfig) -> set[int]:
    """Return the contexts at which a model's costs stop growing with the context as they did before."""
    mixers = [mixer for layer in model.layers for mixer in layer.mixers]
    windows = {mixer.window + n for mixer in mixers if mixer.window for n in (0, mixer.n_sinks)}
    return windows | {mixer.top_k for mixer in mixers if mixer.top_k}


def crossings(
    first: Callable[[int], float], second: Callable[[int], float], bends: Iterable[int], most: int
) -> list[Crossing]:
    """Return from which n on, of 1 … most, another one of first(n) and second(n) is less, exactly.

    Both costs are straight lines between the bends, so that they cross at most once between two of them.
    """

    def order(n: int) -> int:
        return (first(n) > second(n)) - (first(n) < second(n))

    edges = sorted({1, most, *(n for bend in bends for n in (bend, bend + 1) if 1 <= n <= most)})
    before, found = order(1), list[Crossing]()
    for low, high in pairwise(edges):
        now = order(high)
        if now in (0, before):
            continue
        found.append(Crossing(_first(low, high, order, now), now < 0))
        before = now
    return found


def _first(low: int, high: int, order: Callable[[int], int], now: int) -> int:
    """Return the first n of low + 1 … high with this order, which all after it have, by halving."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if order(middle) == now else (middle, high)
    return high
