"""Buttons that save a chart as PNG or SVG or copy it, from the SVG that the browser has already drawn."""

from __future__ import annotations

import streamlit as st

from attnviz.ui.components.declared import declared

LINKED = "saved-with-link"  # in the session: whether a saved file prints the link to its view

_component = declared("save_picture", '<div class="bar"></div>\n', css="buttons")


def save_picture(chart_key: str, below: str = "") -> None:
    """Draw the buttons for the chart with this key. below: the text below it, which a saved picture has too.

    The browser says whether a link is printed: it knows the choice, and whether the address is more than a local one.
    """
    key = f"save-{chart_key}"

    def link() -> None:
        st.session_state[LINKED] = bool(st.session_state[key].link)

    data = {"chart": chart_key, "below": below, "link": prints_link()}
    _component(key=key, data=data, height="content", width="content", on_link_change=link)


def prints_link() -> bool:
    """Check whether a saved file prints the link to its view."""
    return st.session_state.get(LINKED, False)
