"""Workarounds that rely on internals of Streamlit, plotly, uvicorn or the C library; each file can be removed.

Applied here: memory and preempt to the process; scripts as a route; open_browser once the server runs; addresses,
warm_start, page_style, stale and base_url as middleware. ui asks browser, history, own_request and selectors; pages'
scripts load the .js and .css files.

The environment variable ATTNVIZ_WITHOUT="stale,memory" disables files by name, "all" disables all of them.
"""

from __future__ import annotations

from types import ModuleType

from attnviz.server import (
    addresses,
    base_url,
    memory,
    open_browser,
    page_style,
    preempt,
    scripts,
    stale,
    warm_start,
)
from attnviz.server.switches import wanted


def _enabled(*files: ModuleType) -> list[ModuleType]:
    return [file for file in files if wanted(file.__name__.rpartition(".")[2])]


def start() -> None:
    """Apply process-wide settings once, before the server starts."""
    for file in _enabled(memory, preempt):
        file.start()


ROUTES = scripts.routes() if wanted("scripts") else []
LIFESPAN = open_browser.opened if wanted("open_browser") else None
MIDDLEWARE = [file.MIDDLEWARE for file in _enabled(addresses, warm_start, page_style, stale, base_url)]
