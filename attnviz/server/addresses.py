"""Redirect addresses that are almost a page's: /heads/x, /heads/, /Heads and /overview.

Without it: Streamlit answers the first with a page that stays white, since its scripts are relative to the address, and
the others with a dialog over the overview (tests/server/test_addresses.py). Since Streamlit 1.10, the first with pages;
observed in 1.67. Can be removed when it redirects them. No upstream issue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse

from attnviz.session.pages import PAGES

OVERVIEW = "overview"  # as the page is called; its path is empty


class Addresses:
    """ASGI middleware: answer a browser's request for such an address with the page's own, and its query."""

    def __init__(self, app: Callable) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        is_page = scope.get("method") == "GET" and "text/html" in Headers(scope=scope).get("accept", "")
        if not is_page or (to := redirected(scope["path"])) is None:
            await self.app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        await RedirectResponse(f"{to}?{query}" if query else to, status_code=302)(scope, receive, send)


def redirected(path: str) -> str | None:
    """Return the address of the page that a path is meant for, relative to the path; None if it is the page's own."""
    parts = path.split("/")
    for i, part in enumerate(parts):
        page, n_below = part.lower(), len(parts) - 1 - i
        if page == OVERVIEW:
            return "../" * n_below + "."
        if page and page in PAGES:
            return "../" * n_below + page if n_below or part != page else None
    return None


MIDDLEWARE = Middleware(Addresses)
