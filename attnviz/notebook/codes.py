"""Weights as numbers of 16 bits that have all digits that a page prints.

A code is a decimal number: four significant digits in the first four decades below the largest weight, three in the
next 32; 0 is a weight of 0, or a smaller one. `decoded.js` reads them.

    1 + 9,000 · decade + (digits - 1,000)                 decades 0 to 3
    36,001 + 900 · (decade - 4) + (digits - 100)          decades 4 to 35
"""

from __future__ import annotations

import numpy as np

FINE = 4  # decades with four digits
N_FINE, N_COARSE = 9_000, 900  # codes of a decade
DECADES = 36


def exponent_of(largest: float) -> int:
    """Return the power of ten of the largest weight, as it is printed: 0 for 1.0 and for 0.99996, -1 for 0.4."""
    return int(f"{largest:.3e}".partition("e")[2]) if largest > 0 else 0


def codes_of(weights: np.ndarray, top: int) -> np.ndarray:
    """Return weights of any shape as codes, uint16; top: the power of ten of the largest."""
    codes = np.zeros(weights.shape, np.uint16)
    there = weights > 0
    values = weights[there].astype(np.float64)  # (n,)
    digits, power = _significant(values, 4)
    fine = top - power < FINE
    found = np.zeros(len(values), np.int64)
    found[fine] = 1 + N_FINE * (top - power[fine]) + digits[fine] - 1000
    digits, power = _significant(values[~fine], 3)
    depth = top - power
    coarse = 1 + FINE * N_FINE + N_COARSE * (depth - FINE) + digits - 100
    coarse = np.where(depth < FINE, 1 + N_FINE * depth + 10 * digits - 1000, coarse)  # rounded up to the decade above
    found[~fine] = np.where(depth < DECADES, coarse, 0)
    codes[there] = found
    return codes


def _significant(values: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first n significant digits, as whole numbers, and the powers of ten: 0.03125 gives 3125 and -2."""
    power = np.floor(np.log10(values)).astype(np.int64)
    digits = np.floor(values * 10.0 ** (n - 1 - power) + 0.5).astype(np.int64)
    over = digits >= 10**n
    return np.where(over, 10 ** (n - 1), digits), power + over


def planes(codes: np.ndarray) -> bytes:
    """Return the high bytes of all codes and then the low ones: they compress better apart."""
    flat = codes.reshape(-1)
    return (flat >> 8).astype(np.uint8).tobytes() + (flat & 255).astype(np.uint8).tobytes()
