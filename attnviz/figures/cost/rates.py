"""Printing of rates with three significant digits, also below one."""

from __future__ import annotations

import math


def rate_digits(value: float) -> int:
    """Return the decimals that show three significant digits."""
    return max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0


def rate_text(value: float) -> str:
    """Format a rate: "7,730", "187", "4.05", "0.220"."""
    return f"{value:,.{rate_digits(value)}f}"


def rounded_rate(value: float) -> float:
    """Round to the number that `rate_text` prints."""
    return round(value, rate_digits(value))
