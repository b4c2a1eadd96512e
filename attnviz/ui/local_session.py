"""Whether the running session is local, by Streamlit's context; the rule is in attnviz/session/local.py."""

from __future__ import annotations

import streamlit as st

from attnviz.session.local import refused


def refusal() -> str:
    """Return the reason why the running session may belong to another machine's browser, or ""."""
    return refused(st.get_option("server.address"), st.context.headers.to_dict(), st.context.ip_address)


def is_local_session() -> bool:
    """Check whether the running session belongs to a browser on this machine."""
    return not refusal()
