"""Buttons that save a chart as PNG or SVG, from the SVG that the browser has already drawn."""

from __future__ import annotations

from attnviz.ui.components.declared import declared

HTML = "<button type='button' data-kind='png'></button><button type='button' data-kind='svg'></button>\n"

_component = declared("save_picture", HTML, css="buttons")


def save_picture(chart_key: str) -> None:
    """Draw the buttons for the chart with this key."""
    _component(key=f"save-{chart_key}", data={"chart": chart_key}, height="content", width="content")
