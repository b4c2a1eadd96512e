"""Workarounds that rely on internals of Streamlit, uvicorn or the C library; each file can be removed.

The environment variable ATTNVIZ_WITHOUT="stale,memory" disables files by name, "all" disables all of them.
"""

from __future__ import annotations

import os
from types import ModuleType

from attnviz.server import base_url, memory, preempt, stale, undelayed

_WITHOUT = os.environ.get("ATTNVIZ_WITHOUT", "").split(",")


def wanted(file: ModuleType) -> bool:
    """Check whether a file is enabled."""
    return "all" not in _WITHOUT and file.__name__.rpartition(".")[2] not in _WITHOUT


def start() -> None:
    """Apply process-wide settings once, before the server starts."""
    for file in (memory, preempt):
        if wanted(file):
            file.start()


MIDDLEWARE = tuple(file.MIDDLEWARE for file in (undelayed, stale, base_url) if wanted(file))
