"""Units of typed answers: which one follows a number, and how much it is in the unit that is asked for."""

from __future__ import annotations

import math
import re

from attnviz.practice.drills.reading import Unreadable

BYTES = {
    "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
RATE = "tokens/s"
BINARY = {"kB": "KiB", "MB": "MiB", "GB": "GiB", "TB": "TiB"}
FAMILIES: tuple[dict[str, float], ...] = (
    BYTES | {"bit": 1 / 8},
    {"s": 1, "ms": 1e-3, "µs": 1e-6},
    {"rad": 1, "°": math.pi / 180},
    {"nats": 1, "bit": math.log(2)},
    {RATE: 1},
)
_ALSO = {  # in lower case
    "byte": "B", "bytes": "B", "bits": "bit", "sec": "s", "second": "s", "seconds": "s", "msec": "ms", "msecs": "ms",
    "millisecond": "ms", "milliseconds": "ms", "us": "µs", "μs": "µs", "microsecond": "µs", "microseconds": "µs",
    "radian": "rad", "radians": "rad", "deg": "°", "degree": "°", "degrees": "°", "nat": "nats",
    "tok/s": "tokens/s", "t/s": "tokens/s", "tps": "tokens/s", "token/s": "tokens/s", "tokens/sec": "tokens/s",
    "tokens per second": "tokens/s", "tokens/second": "tokens/s",
} | {f"{word}byte{s}": unit for s in ("", "s") for word, unit in (
    ("kilo", "kB"), ("mega", "MB"), ("giga", "GB"), ("tera", "TB"),
    ("kibi", "KiB"), ("mebi", "MiB"), ("gibi", "GiB"), ("tebi", "TiB"),
)}  # fmt: skip
_KNOWN = {unit.lower(): unit for family in FAMILIES for unit in family} | _ALSO
_TYPED = re.compile(r"(?:(?<=[\d).])|(?<=\bpi)) ?(?!pi\b)([^\W\d][^\d()*^+=-]*|°)$")


def split(text: str, unit: str) -> tuple[str, str]:
    """Split a typed text into a number and its unit, "" if there is none.

    Unreadable for a unit with two meanings, such as Gb, and for one that cannot be converted to `unit`.
    """
    match = _TYPED.search(text)
    typed = match[1] if match else ""
    family = family_of(unit)
    if unit in BYTES and (message := _two_meanings(typed)):
        raise Unreadable(message)
    name = _KNOWN.get(typed.lower())
    if not name or not match:
        return text, ""
    if name not in family:
        raise Unreadable(f"“{typed}” is not the unit of the answer{f': give it in {unit}' if unit else ''}.")
    return text[: match.start()], name


def family_of(unit: str) -> dict[str, float]:
    """Return the units that can be converted to this one, itself included, and their size."""
    return next((family for family in FAMILIES if unit in family), {})


def _two_meanings(typed: str) -> str:
    """Say so if a unit of bytes has two meanings."""
    if typed == "b":
        return "b can mean bits. Type B for bytes."
    if re.fullmatch(r"[KMGT]i?b", typed):
        return f"{typed} can mean bits. Type {typed[:-1]}B for bytes."
    if typed in ("k", "K", "M", "G", "T"):
        decimal = "kB" if typed in "kK" else f"{typed}B"
        return (
            f"{typed} can be {decimal} ({BYTES[decimal]:,.0f} B) or {BINARY[decimal]} ({BYTES[BINARY[decimal]]:,} B)."
        )
    return ""
