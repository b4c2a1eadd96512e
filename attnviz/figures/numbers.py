"""Rounding and printing of scores, weights and losses, by the same rule everywhere on a page.

A number is printed with a fixed number of decimals. One that would print as zero although it is not has two significant
digits instead, and two that differ but would print the same have as many decimals as show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TypedDict

import numpy as np

from attnviz.equations import number_text

DIGITS = 4  # decimals of a score and of a weight
MOST_DIGITS = 7  # decimals of two numbers that differ in the last ones: about what float32 tells apart
THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)


def steps(values: np.ndarray | float) -> np.ndarray:
    """Round to units of the last decimal printed, float64: 0.93405 gives 9341. Halves away from zero, as toFixed."""
    values = np.asarray(values, np.float64)
    return np.copysign(np.floor(np.abs(values) * 10**DIGITS + 0.5), values) + 0.0  # no minus before a zero


def rounded(values: np.ndarray | Sequence[float] | float) -> np.ndarray:
    """Round the numbers to the digits that are printed, float64; a small one keeps two significant digits."""
    values = np.asarray(values, np.float64)
    found = np.array(steps(values) / 10**DIGITS)
    small = (found == 0) & (values != 0)
    found[small] = [float(f"{x:.1e}") for x in values[small]]
    return found


def printed(value: float) -> str:
    """Format a score or a weight: "0.9341", "−1.5000", "3.2·10⁻⁵", "0"; packed_weights.js does the same."""
    shown = float(rounded(value))
    if is_small(shown):
        return number_text(shown, digits=1, scientific=True)
    return f"{shown:.{DIGITS}f}".replace("-", "−") if shown else "0"


def is_small(value: float) -> bool:
    """Check whether the number is not zero but would print as zero."""
    return 0 < abs(value) < 0.5 / 10**DIGITS


class Form(TypedDict):
    """How a `Value` or an `Equation` prints a number."""

    digits: int
    scientific: bool


def form(value: float) -> Form:
    """Return the form in which this number is printed as `printed` prints it."""
    small = is_small(float(rounded(value)))
    return {"digits": 1 if small else DIGITS, "scientific": small}


def told_apart(*values: float, digits: int, change: int | None = None) -> list[str]:
    """Format numbers with these decimals, or with as many more as show that they differ: ["2.2808", "2.2811"].

    change: decimals of a change from the first number, printed beside them. Then there are also as many decimals as
    it takes for the printed numbers to differ by the printed change: 2.276 and 9.083 for +6.81, not 2.28 and 9.08.
    """
    for decimals in range(digits, MOST_DIGITS + 1):
        shown = [f"{value:z.{decimals}f}".replace("-", "−") for value in values]
        if len(set(shown)) == len(set(values)) and (change is None or _subtract(values, decimals, change)):
            return shown
    return [f"{value:z.{digits}f}".replace("-", "−") for value in values]  # equal but for rounding error


def _subtract(values: Sequence[float], decimals: int, change: int) -> bool:
    """Check that numbers printed with these decimals differ from the first by their changes, printed with `change`."""
    printed = [Decimal(f"{value:z.{decimals}f}") for value in values]
    changes = zip(values[1:], printed[1:], strict=True)
    return all(f"{a - values[0]:z.{change}f}" == f"{b - printed[0]:z.{change}f}" for a, b in changes)


def percent(share: float, digits: int = 1) -> str:
    """Format a share: "30.3%"; with more decimals where it would print as 0 or 100% and is not: "0.004%", "99.97%"."""
    whole = {f"{100 * end:.{digits}f}" for end in (0, 1)} if 0 < share < 1 else set()
    shown = f"{100 * share:.{digits}f}"
    if shown not in whole:
        return f"{shown}%"
    return percent(share, digits + 1) if digits < MOST_DIGITS else f"{shown}%"


def significant(value: float) -> str:
    """Format a number with three significant digits, halves away from zero, as the browser: "0.563", "0.25"."""
    return f"{THREE_DIGITS.create_decimal_from_float(value).normalize():f}"


def signed(change: float, digits: int = 3) -> str:
    """Format a change with its sign: "+0.132", "−0.050"."""
    return f"{change:+.{digits}f}".replace("-", "−")
