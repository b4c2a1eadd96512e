"""A button that copies the address of exactly this view."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_component = st.components.v2.component(
    "copy_link",
    html="<button type='button'></button><span role='status' aria-live='polite'></span>\n",
    css=(Path(__file__).parent / "buttons.css").read_text(),
    js=(Path(__file__).parent / "copy_link.js").read_text(),
)


def copy_link() -> None:
    """The address bar always says what is in force, so the browser copies it itself."""
    _component(key="copy-link", height="content")
