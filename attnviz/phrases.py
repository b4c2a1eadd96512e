"""Counts and lists in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def count(n: int, what: str) -> str:
    """Format a count with its noun: "1 KV head", "4 KV heads"."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def listed(things: Iterable[object]) -> str:
    """Join items as in a sentence: "1", "1 and 2", "1, 2 and 3"."""
    *first, last = map(str, things)
    return f"{', '.join(first)} and {last}" if first else last
