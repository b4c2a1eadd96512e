"""Checks that answer with a sentence: which field, what was given, what it may be. Standard library only."""

from __future__ import annotations

LARGEST = {  # generous, so that nothing real is refused, and small enough that a slip of the hand is
    "n_layers": 10_000,
    "d_model": 1_000_000,
    "n_heads": 100_000,
    "n_kv_heads": 100_000,
    "head_dim": 100_000,
    "d_ff": 10_000_000,
    "vocab_size": 100_000_000,
}
LARGEST_OTHERWISE = 1_000_000_000  # tokens, positions, windows, experts, ranks


class ConfigError(ValueError):
    """A setting that cannot be used. The message names the field, its value and what is allowed."""


def whole(name: str, value: object, low: int = 1, high: int | None = None) -> None:
    """Refuse anything but a whole number from `low` to `high` (by default what `LARGEST` says of the name)."""
    high = LARGEST.get(name, LARGEST_OTHERWISE) if high is None else high
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{name} must be a whole number from {low:,} to {high:,}, not {shown(value)}")


def number(name: str, value: object, low: float, high: float) -> None:
    """Refuse anything but a number from `low` to `high`; NaN is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigError(f"{name} must be a number from {low:,} to {high:,}, not {shown(value)}")


def switch(name: str, value: object) -> None:
    """Refuse anything but true and false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, not {shown(value)}")


def one_of(name: str, value: object, allowed: tuple) -> None:
    """Refuse anything that is not among `allowed`."""
    if isinstance(value, bool) or value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(map(str, allowed))}, not {shown(value)}")


def shown(value: object) -> str:
    """A value as an error message quotes it: cut short, since it may be a stranger's."""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
