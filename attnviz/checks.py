"""Validation of configuration fields and of names; errors name the field, the value given and the values allowed.

Standard library only.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

LARGEST = {  # upper limits: above any real model, low enough to catch typing errors
    "n_layers": 10_000,
    "d_model": 1_000_000,
    "n_heads": 100_000,
    "n_kv_heads": 100_000,
    "head_dim": 100_000,
    "d_ff": 10_000_000,
    "vocab_size": 100_000_000,
    "weights": 10**14,
}
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
BEFORE_CODE = "\n\n"
LARGEST_OTHERWISE = 1_000_000_000  # tokens, positions, windows, experts, ranks


class ConfigError(ValueError):
    """Invalid setting. The message names the field, its value and the values allowed."""


class LineError(ValueError):
    """An error in a text file: the line, counted from 1, and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


def whole(name: str, value: object, low: int = 1, high: int | None = None) -> None:
    """Raise ConfigError unless value is a whole number from `low` to `high` (by default from `LARGEST`)."""
    high = LARGEST.get(name, LARGEST_OTHERWISE) if high is None else high
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{name} must be a whole number from {low:,} to {high:,}, not {shown(value)}")


def number(name: str, value: object, low: float, high: float) -> None:
    """Raise ConfigError unless value is a number from `low` to `high`; NaN is refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigError(f"{name} must be a number from {low:,} to {high:,}, not {shown(value)}")


def switch(name: str, value: object) -> None:
    """Raise ConfigError unless value is true or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, not {shown(value)}")


def one_of(name: str, value: object, allowed: tuple) -> None:
    """Raise ConfigError unless value is one of `allowed`."""
    if isinstance(value, bool) or value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(map(str, allowed))}, not {shown(value)}")


def of_type(name: str, value: object, kind: str, low: int = 1, allowed: tuple = ()) -> None:
    """Raise ConfigError unless value is of a field's annotated type: "int", "float", "bool", "str"; others are valid.

    low: lowest whole number. allowed: the names, or the lowest and the highest number. "int | None" also allows None.
    """
    if value is None and kind.endswith("| None"):
        return
    match kind.split(" ")[0]:
        case "int":
            whole(name, value, low)
        case "float":
            number(name, value, *(allowed or (1e-20, 1e9)))
        case "bool":
            switch(name, value)
        case "str" if allowed:
            one_of(name, value, allowed)
        case "str" if not isinstance(value, str):
            raise ConfigError(f"{name} must be text, not {shown(value)}")


def refuse_unknown(given: dict, known: tuple[str, ...], prefix: str = "") -> None:
    """Raise ConfigError for an unknown field, with the closest known name: misspelt fields must not be ignored."""
    for name in given:
        if name not in known:
            meant = get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {prefix}{meant[0]}?" if meant else ""
            raise ConfigError(f"{prefix}{name} is not a field of a model{hint}")


def is_hub_id(name: str) -> bool:
    """Check whether this can be the id of a model on the Hugging Face hub."""
    return HUB_ID.fullmatch(name) is not None and ".." not in name


def with_code(sentence: str, *lines: str) -> str:
    """Add lines to run to an error's sentence; `split_code` separates them again."""
    return f"{sentence}{BEFORE_CODE}{chr(10).join(lines)}"


def split_code(problem: str) -> tuple[str, str]:
    """Return an error's sentence and its lines to run, "" if it has none."""
    sentence, _, code = problem.partition(BEFORE_CODE)
    return sentence, code


def shown(value: object) -> str:
    """Format a value for an error message, cut to 60 characters since it may be untrusted input."""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
