"""The workarounds that run in the browser: a component, on every page, of the enabled *.js and *.css in this folder."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from attnviz.server import preload, scripts
from attnviz.server.switches import wanted

IN_HTML = {"page", "page_style"}  # not of this component: a library of the scripts; the style sheet in each page's HTML
_HIDDEN = ".st-key-workarounds { display: none; }\n"


def enabled(suffix: str) -> list[Path]:
    """Return the enabled files of this folder with this suffix."""
    files = sorted(Path(__file__).parent.glob(f"*.{suffix}"))
    return [file for file in files if file.stem not in IN_HTML and wanted(file.stem)]


_STYLE = _HIDDEN + "".join(file.read_text(encoding="utf-8") for file in enabled("css"))
_SCRIPT = scripts.loader(*(f"server/{file.name}" for file in enabled("js")))
_component = st.components.v2.component("workarounds", css=_STYLE, js=_SCRIPT, isolate_styles=False)
_URLS = preload.urls()


def workarounds() -> None:
    """Draw the component, which is invisible."""
    _component(key="workarounds", data=_URLS)
