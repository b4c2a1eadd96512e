"""What relies on the insides of Streamlit, uvicorn or the C library: each file can be removed.

ATTNVIZ_WITHOUT="stale,memory" in the environment switches files off by their names, "all" switches off all of them.
"""

from __future__ import annotations

import os

from attnviz.server import local, memory, open_browser, preempt, stale, undelayed, warm

_WITHOUT = os.environ.get("ATTNVIZ_WITHOUT", "").split(",")
_MIDDLEWARE = {"undelayed": undelayed.MIDDLEWARE, "warm": warm.MIDDLEWARE, "stale": stale.MIDDLEWARE}


def wanted(name: str) -> bool:
    """Whether the file of this name is in use."""
    return name not in _WITHOUT and "all" not in _WITHOUT


def start() -> None:
    """What has to be set once, before anything is served."""
    if wanted("memory"):
        memory.start()
    if wanted("local"):
        local.start()
    if wanted("preempt"):
        preempt.start()


LIFESPAN = open_browser.opened if wanted("open_browser") else None
MIDDLEWARE = tuple(middleware for name, middleware in _MIDDLEWARE.items() if wanted(name))
