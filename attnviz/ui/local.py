"""Detection of local sessions: only they may open any folder or hub id.

A session is local if the server is bound to loopback and the websocket request has a loopback host name and no proxy
headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import streamlit as st

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via")


def is_local_session() -> bool:
    """Check whether the running session belongs to a browser on this machine."""
    return st.get_option("server.address") in LOOPBACK and is_local_request(st.context.headers)


def is_local_request(headers: Mapping[str, str]) -> bool:
    """Check whether the headers show a request from this machine's own browser, not forwarded by a proxy."""
    host = urlsplit(f"//{headers.get('Host') or ''}").hostname
    return host in LOOPBACK and not any(headers.get(name) for name in PROXY_HEADERS)
