"""Warm start: import and compute what a page needs while the browser loads Streamlit's scripts. Imports no torch.

Without it: the first user after a start waits longer (`make bench`: deep link to heads). The first request for a page
that runs a model arrives a second or more before its session starts: the session then finds torch imported and the
model loaded. Relies on `st.App` passing each request through the app's own middleware; observed in Streamlit 1.67. Can
be removed when torch is imported as fast as the browser loads Streamlit's scripts. No upstream issue.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.middleware import Middleware

from attnviz.session.pages import PAGES

if TYPE_CHECKING:  # components register with the running server, so modules that have one are imported only then
    from attnviz.compute.view import View


class WarmStart:
    """ASGI middleware: pass every request on to `app`; the first for one of PAGES also starts the warm-up thread."""

    def __init__(self, app: Callable) -> None:
        self.app, self._started = app, False

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        page = scope.get("path", "").rstrip("/").rpartition("/")[2]
        if not self._started and scope.get("method") == "GET" and page and page in PAGES:
            self._started = True
            link = scope.get("query_string", b"").decode("utf-8", "replace")
            threading.Thread(target=prepare, args=(page, link), name="warm start", daemon=True).start()
        await self.app(scope, receive, send)


MIDDLEWARE = Middleware(WarmStart)


def prepare(page: str, link: str) -> None:
    """Import the page's module, and compute what it shows first for the settings in the link's query.

    Results go into the shared caches. Errors are ignored here: the page meets and reports the same ones.
    """
    with suppress(Exception):
        gc.disable()  # an import creates a hundred thousand objects that stay alive
        try:
            shows = import_module(PAGES[page].module)
        finally:
            gc.enable()
        from attnviz.compute.choices import with_text_of
        from attnviz.compute.view import View
        from attnviz.session.settings import Settings

        settings, _ = Settings.from_link(dict(parse_qsl(link, keep_blank_values=True)), PAGES[page])
        if not link:
            settings = with_text_of(PAGES[page], settings)
        getattr(shows, "prepare", _run_model)(View(settings))


def _run_model(view: View) -> None:
    """Run the model on the text, which most pages show first."""
    view.labels, view.trace  # noqa: B018
