"""Pieces of texts and formulas that several figures share."""

from __future__ import annotations

from attnviz.equations import Equation


def bold(text: str, yes: bool) -> str:
    """Make text bold in plotly's markup if `yes`."""
    return f"<b>{text}</b>" if yes else text


def tex(n: int) -> str:
    """Format a whole number with thousands separators for LaTeX."""
    return f"{n:,}".replace(",", "{,}")


def meanings(*equations: Equation) -> str:
    """List the letters of the equations with value and meaning: "L = 4: layers; S = 128: tokens."."""
    legend: dict[str, tuple[str, str]] = {}
    for each in equations:
        legend |= {symbol: entry for symbol, entry in each.legend().items() if symbol not in legend}
    return "; ".join(f"{symbol} = {value}: {meaning}" for symbol, (meaning, value) in legend.items()) + "."
