"""Load the scripts of charts, tables and formulas while nothing else happens, for the first that somebody opens.

The scripts are Streamlit's own, plotly's alone 4.7 MB; without this a browser fetches and runs them when the first
chart is asked for. Where Streamlit calls them something else, nothing is loaded early.
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
    """For the sidebar, where nothing of it is seen."""
    _component(key="early", data=as_bytes(_scripts()), height="content")


@cache
def _scripts() -> list[str]:
    """Addresses as Streamlit's page has them, from where it is."""
    static = Path(st.__file__).parent / "static"
    found = [path for name in SCRIPTS for path in static.glob(f"static/js/{name}.*.js")]
    return [f"./{path.relative_to(static).as_posix()}" for path in found]
