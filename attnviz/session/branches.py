"""Earlier continuations of a text, to which a session can return. No streamlit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attnviz.session.settings import Settings

SAMPLING = {
    "temperature": "temperature", "top_k": "top-k", "top_p": "top-p", "min_p": "min-p", "penalty": "repetition penalty",
    "draw_seed": "seed",
}  # fmt: skip
MAX_BRANCHES = 6
N_SHOWN = 5  # tokens of a continuation that its label shows


class Branch(NamedTuple):
    """Tokens written after the text, and the sampling settings that wrote them."""

    written: tuple[int, ...]
    sampling: dict[str, float]


def sampling_settings(s: Settings) -> dict[str, float]:
    """Return the settings on which the drawn tokens depend."""
    return {name: getattr(s, name) for name in SAMPLING}


def with_branch(branches: Sequence[Branch], branch: Branch, now: tuple[int, ...]) -> list[Branch]:
    """Add what was written before `now` replaces it, the newest last; nothing where `now` only adds to it."""
    if _begins(now, branch.written):
        return list(branches)
    return [*(b for b in branches if b.written != branch.written), branch][-MAX_BRANCHES:]


def leaving(branches: Sequence[Branch], now: tuple[int, ...]) -> list[Branch]:
    """Return the continuations that `now` does not contain."""
    return [branch for branch in branches if not _begins(now, branch.written)]


def departure(branch: Branch, now: tuple[int, ...]) -> int:
    """Return how many tokens the continuation shares with `now` before it leaves it."""
    pairs = zip(branch.written, now, strict=False)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(branch.written), len(now)))


def other_sampling(branch: Branch, s: Settings) -> str:
    """Name the sampling settings that returning to the continuation changes: "temperature 0.8, seed 3"."""
    now = sampling_settings(s)
    return ", ".join(f"{SAMPLING[name]} {value:g}" for name, value in branch.sampling.items() if value != now[name])


def _begins(ids: tuple[int, ...], start: tuple[int, ...]) -> bool:
    return ids[: len(start)] == start
