"""Source code of the attention modules, for display and copying."""

from __future__ import annotations

from pathlib import Path

ALONE = ("attention.py", "rope.py", "norm.py", "feedforward.py", "cache.py")  # each needs only torch
BESIDE = {"indexed.py": ("sparse.py", "latent.py")}  # what a mechanism's own file imports besides


def sources(own: str) -> dict[str, str]:
    """Return the source files, {name: source}: first a mechanism's own, which may import the others."""
    files = dict.fromkeys((own, *BESIDE.get(own, ()), *ALONE))
    return {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in files}
