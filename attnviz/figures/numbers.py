"""How scores and weights are printed: with the same digits on every part of a page, rounded once and in one way."""

from __future__ import annotations

import numpy as np

DIGITS = 4  # decimals of a score and of a weight


def steps(values: np.ndarray | float) -> np.ndarray:
    """In units of the last decimal printed, float64: 0.93405 gives 9341. Halves go away from zero, as in toFixed."""
    values = np.asarray(values, np.float64)
    return np.copysign(np.floor(np.abs(values) * 10**DIGITS + 0.5), values) + 0.0  # no minus before a zero


def rounded(values: np.ndarray | float) -> np.ndarray:
    """The numbers as they are printed, float64."""
    return steps(values) / 10**DIGITS


def printed(value: float) -> str:
    """A score or a weight in a sentence: "0.9341", "−1.5000"."""
    return f"{float(rounded(value)):.{DIGITS}f}".replace("-", "−")
