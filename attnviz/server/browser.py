"""The workarounds that run in the browser: a component, on every page, of the enabled *.js and *.css in this folder."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from attnviz.server import preload, wanted

ONCE = """export default function ({{ data }}) {{
if (document.attnvizWorkarounds) return;
document.attnvizWorkarounds = true;
{}}}
"""


def _once(scripts: list[str]) -> str:
    """Return a component's script that runs each of these, as a block of its own, once per opened document."""
    return ONCE.format("".join(f"{{\n{script}}}\n" for script in scripts))


def _enabled(suffix: str) -> list[str]:
    files = sorted(Path(__file__).parent.glob(f"*.{suffix}"))
    return [file.read_text(encoding="utf-8") for file in files if wanted(file.stem)]


_HIDDEN = ".st-key-workarounds { display: none; }\n"
_component = st.components.v2.component(
    "workarounds", css="".join([_HIDDEN, *_enabled("css")]), js=_once(_enabled("js")), isolate_styles=False
)
_URLS = preload.urls()


def workarounds() -> None:
    """Draw the component, which is invisible."""
    _component(key="workarounds", data=_URLS)
