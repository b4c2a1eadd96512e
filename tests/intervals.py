"""Arithmetic on the intervals of values that round to a printed number: each operation holds all possible results."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

ONE = Fraction(1)


class Unreadable(Exception):
    """The text is not an expression."""


class Interval(NamedTuple):  # with Token: a dataclass that cannot be changed takes several times as long to create
    """The interval of values that round to a printed number; whole ends are integers, which are faster."""

    low: Fraction | int
    high: Fraction | int

    def __add__(self, other: Interval) -> Interval:
        low = self.low + other.low
        return Interval(low, low if _is_exact(self) and _is_exact(other) else self.high + other.high)

    def __neg__(self) -> Interval:
        low = -self.high
        return Interval(low, low if _is_exact(self) else -self.low)

    def __mul__(self, other: Interval) -> Interval:
        if self.low >= 0 and other.low >= 0:
            low = self.low * other.low
            return Interval(low, low if _is_exact(self) and _is_exact(other) else self.high * other.high)
        return _hull(a * b for a in (self.low, self.high) for b in (other.low, other.high))

    def __truediv__(self, other: Interval) -> Interval:
        if other.low <= 0 <= other.high:
            raise Unreadable("division by zero")
        low = ONE / other.high
        return self * Interval(low, low if _is_exact(other) else ONE / other.low)

    def __pow__(self, other: Interval) -> Interval:
        exponent = other.low
        if other.low == other.high and exponent.denominator == 1:
            if exponent < 0:
                return Interval(1, 1) / self ** Interval(-exponent, -exponent)
            ends = [self.low**exponent.numerator, self.high**exponent.numerator]
            return _hull([*ends, 0] if self.low < 0 < self.high else ends)
        if self.low <= 0:
            raise Unreadable("a broken power of what may be negative")
        return _hull(around(math.pow(a, b)) for a in _ends(self) for b in _ends(other))

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        low, high = float(self.low), float(self.high)
        return f"{low:.15g}" if low == high else f"{low:.6g} to {high:.6g}"


def _is_exact(interval: Interval) -> bool:
    """Check whether both ends are the same object: to compare them would take longer than it saves."""
    return interval.low is interval.high


def _hull(numbers) -> Interval:
    ends = [end for n in numbers for end in ((n.low, n.high) if isinstance(n, Interval) else (n,))]
    return Interval(min(ends), max(ends))


def _ends(interval: Interval) -> tuple[float, float]:
    return float(interval.low), float(interval.high)


def around(x: float) -> Interval:
    """Return the interval of a computed float, exact to 12 digits."""
    value = Fraction(x)
    room = abs(value) / 10**12
    return Interval(value - room, value + room)


def _rising(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    return lambda x: _hull(around(function(end)) for end in _ends(x))


def _whole(function: Callable[[Fraction], int]) -> Callable[[Interval], Interval]:
    return lambda x: Interval(function(x.low), function(x.high))


def _wave(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    def over(x: Interval) -> Interval:
        low, high = _ends(x)
        if high - low > 7:
            return Interval(-1, 1)
        quarters = range(math.ceil(low / (math.pi / 2)), math.floor(high / (math.pi / 2)) + 1)
        return _hull(around(function(at)) for at in (low, high, *(k * math.pi / 2 for k in quarters)))

    return over


FUNCTIONS: dict[str, Callable[..., Interval]] = {
    "√": _rising(math.sqrt),
    "exp": _rising(math.exp),
    "erf": _rising(math.erf),
    "log": _rising(math.log),
    "ln": _rising(math.log),
    "log2": _rising(math.log2),
    "cos": _wave(math.cos),
    "sin": _wave(math.sin),
    "tanh": _rising(math.tanh),
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "max": lambda *xs: Interval(max(x.low for x in xs), max(x.high for x in xs)),
    "min": lambda *xs: Interval(min(x.low for x in xs), min(x.high for x in xs)),
    "|": lambda x: FUNCTIONS["max"](x, -x),
}
