"""Print the address when the server starts, and open the browser on the user's own machine.

Without it: nothing is printed, since Streamlit's welcome (`logger.hideWelcomeMessage`) also offers whoever has a coding
agent an installation, on top of the page, and asks another host for the server's address; and `streamlit run` opens the
browser for a script, but not for an app of `st.App`. Observed in Streamlit 1.67. Can be removed when it does so for an
app, and its welcome is no advertisement. No upstream issue.
"""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st

from attnviz.session.first_page import first_page


@asynccontextmanager
async def opened(app: st.App) -> AsyncIterator[None]:
    """ASGI lifespan: print the address at startup, and open it in the browser unless --server.headless is set."""
    print(f"\n  AttnViz runs at {address()}\n  Ctrl-C stops it.\n", flush=True)
    if not st.get_option("server.headless"):
        threading.Thread(target=webbrowser.open, args=(address(),), daemon=True).start()  # open() can block
    yield


def address() -> str:
    """Return the app's URL for a browser on this machine."""
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    bound, base = st.get_option("server.address"), st.get_option("server.baseUrlPath").strip("/")
    host = "localhost" if bound in (None, "", "0.0.0.0", "::") else bound
    page = first_page()
    return f"{scheme}://{host}:{st.get_option('server.port')}/{base}{'/' * bool(base and page)}{page}"
