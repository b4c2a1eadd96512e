"""The browser opened on a person's own machine: `streamlit run` leaves that to an app that brings its own server."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st


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
    return f"{scheme}://{host}:{st.get_option('server.port')}/{base}"
