"""Whether the screen is as narrow as a phone's, for drawings whose parts then stand below each other."""

from __future__ import annotations

import streamlit as st

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

_component = declared("narrow_screen", "<span hidden></span>\n")
_NARROW = "narrow screen"  # session key


def narrow_screen() -> bool:
    """Check whether the screen is narrow; until the browser has said so, it is not. The part reruns when it changes."""
    narrow = bool(st.session_state.get(_NARROW, False))
    take = on_event("narrow-screen", "narrow", _remember)
    _component(key="narrow-screen", data=as_bytes({"narrow": narrow}), on_narrow_change=take, height="content")
    return narrow


def _remember(sent: object) -> None:
    st.session_state[_NARROW] = sent is True
