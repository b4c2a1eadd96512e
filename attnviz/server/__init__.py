"""Workarounds that rely on internals of Streamlit, plotly, uvicorn or the C library; each file can be removed.

The environment variable ATTNVIZ_WITHOUT="stale,memory" disables files by name, "all" disables all of them.
"""

from __future__ import annotations

import os
from types import ModuleType

from attnviz.server import base_url, memory, paint_first, preempt, stale

_WITHOUT = os.environ.get("ATTNVIZ_WITHOUT", "").split(",")


def wanted(name: str) -> bool:
    """Check whether the file of this name is enabled."""
    return "all" not in _WITHOUT and name not in _WITHOUT


def _enabled(*files: ModuleType) -> list[ModuleType]:
    return [file for file in files if wanted(file.__name__.rpartition(".")[2])]


def start() -> None:
    """Apply process-wide settings once, before the server starts."""
    for file in _enabled(memory, preempt):
        file.start()


MIDDLEWARE = tuple(file.MIDDLEWARE for file in _enabled(stale, base_url, paint_first))
