"""Import the scripts of charts, tables and formulas before the first of them is opened; see preload.js.

Without it: the first chart of a visit takes 3.1 s instead of 1.0 (two busy cores), since it waits for Streamlit's
scripts for plotly, 4.7 MB; tests/browser/test_preload.py fails. Observed in Streamlit 1.67. Relies on the names of its
files: where a version has others, nothing is imported. Can be removed when Streamlit preloads them. No upstream issue.
"""

from __future__ import annotations

import json
from pathlib import Path

import streamlit

SCRIPTS = ("PlotlyChart", "DataFrame", "rehype-katex", "DownloadButton")


def urls() -> bytes:
    """Return the scripts' URLs, relative to the app's base URL, as JSON."""
    static = Path(streamlit.__file__).with_name("static")
    found = [path.relative_to(static) for name in SCRIPTS for path in static.glob(f"static/js/{name}.*.js")]
    return json.dumps([f"./{path.as_posix()}" for path in found]).encode()
