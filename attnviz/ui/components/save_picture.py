"""Buttons that save a chart of the page as PNG or SVG, from what the browser has already drawn."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_component = st.components.v2.component(
    "save_picture",
    html="<button type='button' data-kind='png'></button><button type='button' data-kind='svg'></button>\n",
    css=(Path(__file__).parent / "buttons.css").read_text(),
    js=(Path(__file__).parent / "save_picture.js").read_text(),
)


def save_picture(chart_key: str, name: str) -> None:
    """Buttons for the chart that was drawn with this key; `name` becomes the file's name."""
    _component(key=f"save-{chart_key}", data={"chart": chart_key, "name": name}, height="content")
