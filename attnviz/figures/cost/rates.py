"""Rates as they are printed: three significant digits, also below one."""

from __future__ import annotations

import math


def rate_digits(value: float) -> int:
    """Decimals that show three significant digits."""
    return max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0


def rate_text(value: float) -> str:
    """ "7,730", "187", "4.05", "0.220"."""
    return f"{value:,.{rate_digits(value)}f}"


def rounded_rate(value: float) -> float:
    """The number that `rate_text` prints."""
    return round(value, rate_digits(value))
