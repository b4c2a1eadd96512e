"""Source code of the attention modules, for display and copying."""

from __future__ import annotations

from pathlib import Path

ALONE = ("attention.py", "rope.py", "norm.py", "feedforward.py", "cache.py")  # each needs only torch


def sources(own: str) -> dict[str, str]:
    """Return the source files, {name: source}: first a mechanism's own, which may import the others."""
    return {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in dict.fromkeys((own, *ALONE))}
