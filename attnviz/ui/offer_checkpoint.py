"""A part that cannot be drawn with the selected model: the reason, and a button that draws it with a checkpoint."""

from __future__ import annotations

import streamlit as st

from attnviz.config import SHIPPED
from attnviz.ui import state


def offer(model: str = "gqa-4", why: str = "", place: str = "") -> None:
    """Say why the part is not drawn, if it is not said yet, and offer it with a shipped checkpoint.

    Call it before the part's controls: one that changes nothing would seem broken. place: the key of a second button
    for the same checkpoint on a page.
    """
    if why:
        st.info(why)
    if model in SHIPPED:
        st.button(f"Show it with the {SHIPPED[model]} checkpoint", on_click=_take, args=(model,), key=place or None)


def _take(model: str) -> None:
    state.change(model=model)
    state.rerun()
