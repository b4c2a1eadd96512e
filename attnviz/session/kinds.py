"""Kinds of settings: which values one may have, and how they are written in a link."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

MAX_CHARACTERS = 20_000


class Kind:
    """The values that a setting may have."""

    def read(self, written: str) -> object:
        """Return the value written in a link, or the nearest allowed. ValueError or KeyError if it says none."""
        raise NotImplementedError

    def range(self) -> str:
        """Name the allowed values, for a notice."""
        raise NotImplementedError

    def written(self, value: Any) -> str:
        """Return the value as written in a link."""
        return str(value)

    def same(self, value: Any, written: str) -> bool:
        """Check whether a value is the one written in a link."""
        return self.written(value) == written

    def fit(self, value: Any) -> Any:
        """Return a widget's value as the settings hold it."""
        return value

    def notice(self, name: str, given: str, used: Any) -> str:
        """Return the notice for a link's value that another one replaces. given: `not “…”`."""
        done = f"it is set to {self.written(used)}" if self.written(used) else "it was ignored"
        return f"The link's {name} must be {self.range()}, {given}; {done}."


@dataclass(frozen=True)
class Number(Kind):
    """A number between low and high, both included. even: rounded down to an even one."""

    low: float
    high: float
    whole: bool = True
    even: bool = False

    def read(self, written: str) -> object:
        value = float(written)
        if math.isnan(value):
            raise ValueError
        value = min(max(value, self.low), self.high)
        return round(value) if self.whole else value

    def range(self) -> str:
        return f"a {'whole ' if self.whole else ''}number from {self.low:,} to {self.high:,}"

    def written(self, value: float) -> str:
        return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)

    def same(self, value: float, written: str) -> bool:
        return float(written) == value

    def fit(self, value: float) -> float:
        return value // 2 * 2 if self.even else value

    def notice(self, name: str, given: str, used: float) -> str:
        done = f"it is set to {self.written(used)}" if used >= self.low else "it was ignored"
        return f"The link's {name} must be {self.range()}, {given}; {done}."


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words."""

    options: tuple[str, ...]

    def read(self, written: str) -> object:
        if written not in self.options:
            raise ValueError
        return written

    def range(self) -> str:
        named = [option for option in self.options if option]
        return f"one of {', '.join(named) if len(named) <= 10 else f'{len(named)} known ids'}"


@dataclass(frozen=True)
class Flag(Kind):
    """On or off."""

    def read(self, written: str) -> object:
        return {"1": True, "0": False}[written]

    def range(self) -> str:
        return "1 or 0"

    def written(self, value: bool) -> str:
        return "1" if value else "0"


@dataclass(frozen=True)
class Text(Kind):
    """Free text, cut at `most` characters. whole: useless without its end, so a link has all of it or nothing."""

    most: int = MAX_CHARACTERS
    whole: bool = False

    @property
    def long(self) -> bool:
        """True if a link may be too short for it."""
        return self.most == MAX_CHARACTERS

    def read(self, written: str) -> object:
        return written[: self.most]

    def range(self) -> str:
        return f"a text of at most {self.most:,} characters"

    def notice(self, name: str, given: str, used: str) -> str:
        return f"The link's {name} must be {self.range()}; its first {len(used):,} characters are used."


@dataclass(frozen=True)
class Several(Kind):
    """Several of many words, in the order chosen."""

    options: tuple[str, ...]
    most: int

    def read(self, written: str) -> object:
        chosen = tuple(word for word in dict.fromkeys(written.split(",")) if word in self.options)[: self.most]
        if written and not chosen:
            raise ValueError
        return chosen

    def range(self) -> str:
        return f"at most {self.most} of {len(self.options)} known ids, separated by commas"

    def written(self, value: tuple[str, ...]) -> str:
        return ",".join(value)

    def fit(self, value: list[str] | tuple[str, ...]) -> tuple[str, ...]:
        return tuple(value)


@dataclass(frozen=True)
class Ids(Kind):
    """Token ids, separated by dots. Ids beyond the vocabulary are not checked here."""

    most: int

    def read(self, written: str) -> object:
        ids = tuple(int(word) for word in written.split(".")[: self.most] if word)
        if any(not 0 <= i < 2**20 for i in ids):
            raise ValueError
        return ids

    def range(self) -> str:
        return f"at most {self.most} token ids, separated by dots"

    def written(self, value: tuple[int, ...]) -> str:
        return ".".join(map(str, value))

    def fit(self, value: list[int] | tuple[int, ...]) -> tuple[int, ...]:
        return tuple(value)


def setting(default: object, kind: Kind) -> Any:
    """Declare a field of the settings."""
    return field(default=default, metadata={"kind": kind})
