"""Readers of what a browser or a file holds, which can be anything: each returns a value, or raises ValueError."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, date, datetime
from typing import Any, TypeVar

NAME = re.compile(r"[\w.:-]{1,100}", re.ASCII)
MOST = 10**6  # of a number
_T = TypeVar("_T")


def utc(time: datetime) -> str:
    """Write a time in the one form in which progress has it, so that texts are in the order of their times."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def state(kind: type[_T], **reads: Callable[[Any], Any]) -> Callable[[Any], _T | None]:
    """Return the reader of a state: each of its fields has a reader, which raises ValueError; others are ignored."""

    def read(written: Any) -> _T | None:
        if not isinstance(written, dict):
            return None
        try:
            return kind(**{f.name: reads[f.name](written[f.name]) for f in fields(kind) if f.name in written})  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None

    return read


def count(written: Any) -> int:
    if isinstance(written, bool) or not isinstance(written, int) or not 0 <= written <= MOST:
        raise ValueError(written)
    return written


def flag(written: Any) -> bool:
    if not isinstance(written, bool):
        raise ValueError(written)
    return written


def seconds(written: Any) -> float:
    return round(_number(written, 0, MOST), 1)


def ease(written: Any) -> float:
    return _number(written, 1, 10)


def _number(written: Any, least: float, most: float) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float) or not least <= written <= most:
        raise ValueError(written)
    return float(written)


def day(written: Any) -> str:
    """Return a date in its one form, so that texts are in the order of their days; "" for none."""
    return date.fromisoformat(written).isoformat() if written else ""


def time(written: Any) -> str:
    return utc(datetime.strptime(written, "%Y-%m-%dT%H:%M:%S%z")) if written else ""


def name(written: Any) -> str:
    if written and not NAME.fullmatch(written):
        raise ValueError(written)
    return written or ""


def one_of(*names: str) -> Callable[[Any], str]:
    def read(written: Any) -> str:
        if written not in names:
            raise ValueError(written)
        return str(written)

    return read


def text(most: int) -> Callable[[Any], str]:
    """Return the reader of a text of at most so many characters."""

    def read(written: Any) -> str:
        if not isinstance(written, str) or len(written) > most:
            raise ValueError(written)
        written.encode()  # raises for half of a surrogate pair, which no page can show
        return written

    return read


def several(read: Callable[[Any], _T], most: int) -> Callable[[Any], tuple[_T, ...]]:
    """Return the reader of a list of at most so many."""

    def read_all(written: Any) -> tuple[_T, ...]:
        if not isinstance(written, list) or len(written) > most:
            raise ValueError(written)
        return tuple(map(read, written))

    return read_all


def texts_by_name(written: Any) -> dict[str, str]:
    """Read settings as a link has them."""
    if not isinstance(written, dict) or len(written) > 20:
        raise ValueError(written)
    return {name(key): text(100)(value) for key, value in written.items()}
