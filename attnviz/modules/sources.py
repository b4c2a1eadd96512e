"""The files that run when a model attends, to be read and copied."""

from __future__ import annotations

from pathlib import Path

ALONE = ("attention.py", "rope.py", "norm.py", "feedforward.py", "cache.py")  # each needs torch and nothing else


def sources(attention: str) -> dict[str, str]:
    """Give the whole source by file name; with attention "mla" first latent.py, which imports the others."""
    names = ("latent.py", *ALONE) if attention == "mla" else ALONE
    return {name: Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names}
