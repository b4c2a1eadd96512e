"""Whether whoever asks sits at this machine: only then may any folder or hub id be opened.

Told by Streamlit's options and the headers of the websocket's request: bound to loopback, asked for by a loopback name,
and not handed on by a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import streamlit as st

LOOPBACK = ("localhost", "127.0.0.1", "::1")
OF_PROXIES = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via")


def asked_locally() -> bool:
    """Whether the session that runs here belongs to somebody at this machine."""
    return st.get_option("server.address") in LOOPBACK and from_here(st.context.headers)


def from_here(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers came from this machine's own browser, as far as they tell."""
    host = urlsplit(f"//{headers.get('Host') or ''}").hostname
    return host in LOOPBACK and not any(headers.get(name) for name in OF_PROXIES)
