"""The workarounds that run in the browser: a component, on every page, of the enabled *.js and *.css in this folder."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from attnviz.server import preload, wanted

ONCE = """export default function ({ data }) {
if (document.attnvizWorkarounds) return;
document.attnvizWorkarounds = true;
%s}
"""


def _enabled(suffix: str, form: str = "%s") -> str:
    """Return the enabled files of this folder with this suffix, each put into `form`."""
    files = sorted(Path(__file__).parent.glob(f"*.{suffix}"))
    return "".join(form % file.read_text(encoding="utf-8") for file in files if wanted(file.stem))


_HIDDEN = ".st-key-workarounds { display: none; }\n"
_SCRIPT = ONCE % _enabled("js", "{\n%s}\n")  # each script is a block of its own, run once per opened document
_component = st.components.v2.component("workarounds", css=_HIDDEN + _enabled("css"), js=_SCRIPT, isolate_styles=False)
_URLS = preload.urls()


def workarounds() -> None:
    """Draw the component, which is invisible."""
    _component(key="workarounds", data=_URLS)
