"""Letters with two values in one legend."""

from __future__ import annotations

import math
from collections.abc import Iterator

from attnviz.equations import Equation


def ambiguous(*equations: Equation) -> list[str]:
    """Return the letters that stand for two numbers in equations that share a legend; results are rounded."""
    seen: dict[str, float] = {}
    found = []
    for symbol, number in _values(equations):
        known = seen.setdefault(symbol, number)
        if not math.isclose(known, number, rel_tol=1e-3, abs_tol=1e-6):
            found.append(f"{symbol} is {known:g} and {number:g}")
    return found


def _values(equations: tuple[Equation, ...]) -> Iterator[tuple[str, float]]:
    for equation in equations:
        yield from ((value.symbol, value.number) for value in equation.right.values() if value.symbol)
        if equation.name and equation.meaning:
            yield equation.name, equation.value
