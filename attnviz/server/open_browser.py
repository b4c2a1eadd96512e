"""Open the browser on a person's own machine.

Without it: `make run` prints an address and opens nothing. Since Streamlit 1.53, which brought `st.App`: `streamlit
run` opens the browser for a script, but not for an app (`run_asgi_app` in streamlit.web.bootstrap, still in 1.67). May
go when it does, or when nothing else here needs `st.App`. No issue upstream.
"""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import streamlit as st

from attnviz.session.opening import FIRST


@asynccontextmanager
async def opened(app: st.App) -> AsyncIterator[None]:
    """For as long as the server runs; the browser is opened at its start, unless --server.headless says otherwise."""
    if not st.get_option("server.headless"):
        threading.Thread(target=webbrowser.open, args=(address(),), daemon=True).start()  # some wait for the browser
    yield


def address() -> str:
    """Where this machine's browser finds the app."""
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    host, base = st.get_option("server.address") or "localhost", st.get_option("server.baseUrlPath").strip("/")
    first = os.environ.get(FIRST)
    page = f"{'/' * bool(base)}heads?{urlencode({'model': first})}" if first else ""
    return f"{scheme}://{host}:{st.get_option('server.port')}/{base}{page}"
