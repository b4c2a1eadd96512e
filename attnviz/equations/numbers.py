"""Numbers as they stand in equations."""

from __future__ import annotations

import math


def number_text(number: float, tex: bool = False, digits: int | None = None, scientific: bool = False) -> str:
    """Format a number: with thousands separators, and a true minus sign in plain text."""
    if scientific:
        mantissa, exponent = f"{number:z.{2 if digits is None else max(1, digits)}e}".split("e")
        power = rf"\cdot 10^{{{int(exponent)}}}" if tex else f"·10{superscript(int(exponent))}"
        return (mantissa if tex else mantissa.replace("-", "−")) + power
    if not digits and float(number).is_integer():
        written = f"{int(number):,}"
    else:
        decimals = max(1, _decimals(number) if digits is None else digits)  # or it would be read as a whole number
        written = f"{number:z,.{decimals}f}"  # z: no minus sign before 0.00
    return written.replace(",", "{,}") if tex else written.replace("-", "−")


def _decimals(number: float) -> int:
    """Return the number of decimals for four significant digits."""
    return 3 - math.floor(math.log10(abs(number)))


def superscript(n: int) -> str:
    """Format a whole number as a superscript."""
    return str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
