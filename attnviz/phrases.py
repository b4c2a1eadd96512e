"""Counts, lists and tokens in sentences."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterable, Sequence

HYPHEN = re.compile(r"(?<=\w)(\\?-)(?=\d)")  # of a name: GQA-4, GPT-2
EQUALS = re.compile(r"(?<!\w)(\w[\w₀-₉ₐ-ₜ]{0,3}) = (?=[\d√(−-])")  # after a letter: D = 128


def count(n: int, what: str) -> str:
    """Format a count with its noun: "1 KV head", "4 KV heads"."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def day(iso: str) -> str:
    """Write an ISO date as in a sentence: "29 November"."""
    date = datetime.date.fromisoformat(iso)
    return f"{date.day} {date:%B}"


def clock(minutes: int) -> str:
    """Write minutes from a start as a clock does: "1:05"."""
    return f"{minutes // 60}:{minutes % 60:02}"


def written(value: float, form: str) -> str:
    """Format a number with a true minus sign, at which no line is broken: written(6.6e-7, ".1e") gives "6.6e−07"."""
    return format(value, form).replace("-", "−")


def span(low: str, high: str) -> str:
    """Write a range of two printed numbers, or the one number that both are: "0.2 to 0.7", "0.7"."""
    return low if low == high else f"{low} to {high}"


def first_of(n: int, what: str) -> str:
    """Name the first n of some things: "first token", "first 4 tokens"."""
    return f"first {what}" if n == 1 else f"first {count(n, what)}"


def last_of(n: int, what: str) -> str:
    """Name the last n of some things: "last token", "last 4 tokens"."""
    return f"last {what}" if n == 1 else f"last {count(n, what)}"


def listed(things: Iterable[object]) -> str:
    """Join items as in a sentence: "1", "1 and 2", "1, 2 and 3"."""
    *first, last = map(str, things)
    return f"{', '.join(first)} and {last}" if first else last


def in_a_row(numbers: Sequence[int]) -> str:
    """List whole numbers in rising order: "1, 2 and 3", or "1 to 7" for more than three in a row."""
    whole = len(numbers) > 3 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"{numbers[0]} to {numbers[-1]}" if whole else listed(numbers)


def isolated(label: str) -> str:
    """Return a token's label, isolated if it has letters written from right to left, which would move what follows."""
    from_right = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in label)
    return f"\u2068{label}\u2069" if from_right else label


def in_quotes(label: str) -> str:
    """Return a token's label in quotation marks, for plain text."""
    return f"“{isolated(label)}”"


def unbroken(text: str) -> str:
    """Return markdown whose lines do not break within "GQA-4" or "D = 128"; code stays as it is."""
    parts = text.split("`")  # every second one is code
    parts[::2] = [EQUALS.sub("\\1\u00a0=\u00a0", HYPHEN.sub("\\1\u2060", part)) for part in parts[::2]]
    return "`".join(parts)
