"""Pictures made of rectangles to scale, side by side: one message and no plotly, for what moves with a slider.

What is drawn comes from `attnviz.figures`; nothing here decides anything.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from attnviz.ui.components.as_bytes import as_bytes

HERE = Path(__file__).parent

_mount = st.components.v2.component(
    "to_scale",
    html='<div class="ts"></div>\n',
    css=(HERE / "to_scale.css").read_text(encoding="utf-8"),
    js=(HERE / "to_scale.js").read_text(encoding="utf-8"),
)


def to_scale(panels: list[dict], key: str) -> None:
    """Draw the panels, such as `figures.groups.cache_panel` gives; they stand below one another where it is narrow."""
    _mount(key=key, data=as_bytes({"panels": panels}))
