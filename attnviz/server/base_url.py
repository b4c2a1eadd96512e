"""Set the app's base URL in each page's HTML: at /heads, that it is /.

Without it: every page except the overview takes 0.1 s longer to open (`make bench`: embedded figure). Streamlit's
scripts look for the server below the page's own address first, and pause before they look one level up. Since Streamlit
1.30; relies on its index.html and on `window.__streamlit`, which is meant for hosts; observed in 1.67. Can be removed
when the scripts look where their own files, ./static, are. No upstream issue.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse

from attnviz.session.pages import PAGES

INDEX = Path(streamlit.__file__).with_name("static").joinpath("index.html").read_text(encoding="utf-8")
BASE_URL_SCRIPT = '<head><script>window.__streamlit ??= {BACKEND_BASE_URL: new URL(".", location.href).href};</script>'


class BaseUrl:
    """ASGI middleware: answer a page's address with Streamlit's index.html plus BASE_URL_SCRIPT; pass on the rest."""

    def __init__(self, app: Callable) -> None:
        self.app = app
        self.answer = HTMLResponse(INDEX.replace("<head>", BASE_URL_SCRIPT, 1), headers={"Cache-Control": "no-cache"})

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        page = scope.get("path", "").rpartition("/")[2]
        answers = scope.get("method") == "GET" and page and page in PAGES
        await (self.answer if answers else self.app)(scope, receive, send)


MIDDLEWARE = Middleware(BaseUrl)
