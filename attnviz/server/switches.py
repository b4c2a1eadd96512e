"""Which files of this folder are enabled; see __init__.py."""

from __future__ import annotations

import os

_WITHOUT = os.environ.get("ATTNVIZ_WITHOUT", "").split(",")


def wanted(name: str) -> bool:
    """Check whether the file of this name is enabled."""
    return "all" not in _WITHOUT and name not in _WITHOUT
