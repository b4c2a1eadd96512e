"""Formatting of sizes and counts. Bytes have binary or decimal units: 70,272 B are 68.6 KiB or 70.3 kB."""

from __future__ import annotations

DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
SHORT = ("", " k", " M", " B", " T")  # thousand, million, billion, 10^12


def bytes_text(n: float, binary: bool = True, digits: int = 3) -> str:
    """Format bytes with up to so many digits and a unit: powers of 1,024 (KiB, MiB) or of 1,000 (kB, MB)."""
    return _scaled(n, 1024 if binary else 1000, BINARY if binary else DECIMAL, " ", digits)


def count_text(n: float) -> str:
    """Format a count with up to three digits: 1.24 B, 131 k."""
    return _scaled(n, 1000, SHORT, "")


def tokens_text(n: int) -> str:
    """Format a context length in powers of 1,024: 128 K, 1 M; other numbers in full."""
    for size, letter in ((1024**2, "M"), (1024, "K")):
        if n >= size and n % size == 0:
            return f"{n // size} {letter}"
    return f"{n:,}"


def context_text(n: int) -> str:
    """Format a context length with its noun: "1 token", "128 K tokens"."""
    return f"{tokens_text(n)} token{'s' * (n != 1)}"


def _scaled(n: float, base: int, units: tuple[str, ...], gap: str, most: int = 3) -> str:
    size, step = abs(n), 0
    while size >= base - 0.5 and step < len(units) - 1:  # so that 1,024 KiB after rounding is 1 MiB
        size, step = size / base, step + 1
    digits = 0 if float(size).is_integer() else max(0, most - 1 - (size >= 10) - (size >= 100))
    return f"{'-' if n < 0 else ''}{size:,.{digits}f}{gap}{units[step]}"
