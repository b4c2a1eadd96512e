"""A line that opens: what belongs under it is made only while it is open.

Streamlit's expander does the same, but is restyled, and laid out again, in every run of the part that it stands in.
"""

from __future__ import annotations

import streamlit as st

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

_mount = declared("disclosure", '<button type="button"></button>\n')


def disclosure(label: str, key: str) -> bool:
    """Show the line; whether it is open."""
    is_open = bool(st.session_state.get(key, {}).get("open"))
    _mount(key=key, data=as_bytes({"label": label, "open": is_open}), on_open_change=lambda: None, height="content")
    return is_open
