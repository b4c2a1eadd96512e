"""Rounding and printing of scores and weights, with the same number of digits everywhere on a page."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context

import numpy as np

DIGITS = 4  # decimals of a score and of a weight
THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)


def steps(values: np.ndarray | float) -> np.ndarray:
    """Round to units of the last decimal printed, float64: 0.93405 gives 9341. Halves away from zero, as toFixed."""
    values = np.asarray(values, np.float64)
    return np.copysign(np.floor(np.abs(values) * 10**DIGITS + 0.5), values) + 0.0  # no minus before a zero


def rounded(values: np.ndarray | float) -> np.ndarray:
    """Round the numbers to the decimals that are printed, float64."""
    return steps(values) / 10**DIGITS


def printed(value: float) -> str:
    """Format a score or a weight: "0.9341", "−1.5000"."""
    return f"{float(rounded(value)):.{DIGITS}f}".replace("-", "−")


def significant(value: float) -> str:
    """Format a number with three significant digits, halves away from zero, as the browser: "0.563", "0.25"."""
    return f"{THREE_DIGITS.create_decimal_from_float(value).normalize():f}"


def signed(change: float, digits: int = 3) -> str:
    """Format a change with its sign: "+0.132", "−0.050"."""
    return f"{change:+.{digits}f}".replace("-", "−")
