"""Preload the scripts of charts, tables and formulas while the browser is idle, so that the first chart opens quickly.

The scripts are Streamlit's own, plotly's alone 4.7 MB; without preloading, a browser fetches and runs them when the
first chart is opened. If a Streamlit version renames them, nothing is preloaded.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

SCRIPTS = ("PlotlyChart", "DataFrame", "rehype-katex", "DownloadButton")
_component = declared("early", "<span hidden></span>\n")


def early() -> None:
    """Draw the invisible component, in the sidebar."""
    _component(key="early", data=as_bytes(_scripts()), height="content")


@cache
def _scripts() -> list[str]:
    """Return the scripts' URLs, relative to Streamlit's page."""
    static = Path(st.__file__).parent / "static"
    found = [path for name in SCRIPTS for path in static.glob(f"static/js/{name}.*.js")]
    return [f"./{path.relative_to(static).as_posix()}" for path in found]
