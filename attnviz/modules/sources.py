"""Source code of the attention modules, for display and copying."""

from __future__ import annotations

from pathlib import Path

ALONE = ("attention.py", "rope.py", "norm.py", "feedforward.py", "cache.py")  # each needs only torch


def sources(attention: str) -> dict[str, str]:
    """Return the source files, {name: source}; for attention "mla" first latent.py, which imports the others."""
    names = ("latent.py", *ALONE) if attention == "mla" else ALONE
    return {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names}
