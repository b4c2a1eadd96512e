"""Import and compute what a page will need while the browser still loads Streamlit's scripts. Imports no torch itself.

The first request for a page that runs a model comes a second or more before its session starts: the session then finds
torch imported and the model loaded. Without it: the first person after a start waits longer (`make bench`: deep link to
heads). Since the first version; relies on ASGI and on one library's place in torch. May go when importing torch and
loading a model takes less time than Streamlit's scripts. No issue upstream.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.middleware import Middleware

from attnviz.session.pages import PAGES

if TYPE_CHECKING:  # components are registered with the running server, so nothing that has one is imported before it
    from attnviz.compute.view import View


class WarmStart:
    """ASGI: every request goes on to `app` unchanged; the first for one of PAGES starts a thread as well."""

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
    """Import what shows the page, and compute what it shows first of the settings in the link's query.

    All goes into the caches that the page looks into. What goes wrong is said by the page, which meets the same.
    """
    _load_library()
    with suppress(Exception):
        with _uncollected():
            shows = import_module(PAGES[page].module)
        from attnviz.compute.view import View
        from attnviz.session.settings import Settings

        settings, _ = Settings.from_link(dict(parse_qsl(link, keep_blank_values=True)), PAGES[page])
        getattr(shows, "prepare", _read)(View(settings))


@contextmanager
def _uncollected() -> Iterator[None]:
    """No looking for garbage meanwhile: an import makes a hundred thousand objects that stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _load_library() -> None:
    """Load torch's largest library while other threads run.

    Importing it holds Python's lock for 0.2 s, in which the server sends nothing; a foreign function does not. Where
    there is no such file or function, as on other systems than Linux, the import loads it as ever.
    """
    with suppress(Exception):
        spec: Any = find_spec("torch")  # an error without torch is suppressed like the others
        (torch,) = spec.submodule_search_locations
        ctypes.CDLL(None).dlopen(os.fsencode(Path(torch, "lib", "libtorch_cpu.so")), os.RTLD_LAZY)


def _read(view: View) -> None:
    """The model run on the text: what most pages draw first."""
    view.labels, view.trace  # noqa: B018
