"""Open the browser when the server starts on the user's own machine.

Without it: `make run` only prints the address, since `streamlit run` opens the browser for a script, but not for an app
of `st.App`. Observed in Streamlit 1.67. Can be removed when it does so for an app
too. No upstream issue.
"""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import streamlit as st

from attnviz.session.openable import FIRST, started_with


@asynccontextmanager
async def opened(app: st.App) -> AsyncIterator[None]:
    """ASGI lifespan: open the browser at startup unless --server.headless is set."""
    if not st.get_option("server.headless"):
        threading.Thread(target=webbrowser.open, args=(address(),), daemon=True).start()  # open() can block
    yield


def address() -> str:
    """Return the app's URL for a browser on this machine."""
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    host, base = st.get_option("server.address") or "localhost", st.get_option("server.baseUrlPath").strip("/")
    first = started_with() or os.environ.get(FIRST)
    page = f"{'/' * bool(base)}heads?{urlencode({'model': first})}" if first else ""
    return f"{scheme}://{host}:{st.get_option('server.port')}/{base}{page}"
