"""What relies on the insides of Streamlit, uvicorn or the C library: each file can be removed.

ATTNVIZ_WITHOUT="stale,memory" in the environment switches files off by their names, "all" switches off all of them.
"""

from __future__ import annotations

import os
from types import ModuleType

from attnviz.server import beginning, memory, open_browser, preempt, stale, undelayed, warm

_WITHOUT = os.environ.get("ATTNVIZ_WITHOUT", "").split(",")


def wanted(file: ModuleType) -> bool:
    """Whether this file is in use."""
    return "all" not in _WITHOUT and file.__name__.rpartition(".")[2] not in _WITHOUT


def start() -> None:
    """What has to be set once, before anything is served."""
    for file in (memory, preempt):
        if wanted(file):
            file.start()


LIFESPAN = open_browser.opened if wanted(open_browser) else None
MIDDLEWARE = tuple(file.MIDDLEWARE for file in (undelayed, warm, stale, beginning) if wanted(file))
