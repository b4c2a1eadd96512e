"""Small pieces of sentences and formulas that several figures share."""

from __future__ import annotations

from collections.abc import Iterable

from attnviz.equations import Equation


def count(n: int, what: str) -> str:
    """ "1 KV head", "4 KV heads"."""
    return f"{n} {what}{'s' * (n != 1)}"


def listed(things: Iterable[object]) -> str:
    """ "1", "1 and 2", "1, 2 and 3"."""
    *first, last = map(str, things)
    return f"{', '.join(first)} and {last}" if first else last


def bold(text: str, yes: bool) -> str:
    """Bold in plotly's markup where `yes`."""
    return f"<b>{text}</b>" if yes else text


def tex(n: int) -> str:
    """A whole number with thousands set apart, as LaTeX wants it."""
    return f"{n:,}".replace(",", "{,}")


def meanings(*equations: Equation) -> str:
    """The letters of the equations, each with its value and what it means: "L = 4: layers; S = 128: tokens."."""
    legend: dict[str, tuple[str, str]] = {}
    for each in equations:
        legend |= {symbol: said for symbol, said in each.legend().items() if symbol not in legend}
    return "; ".join(f"{symbol} = {value}: {meaning}" for symbol, (meaning, value) in legend.items()) + "."
