"""Declaration of a Streamlit component from its markup and the .js and .css files in this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from attnviz.ui.components import scripts

HERE = Path(__file__).parent


def declared(name: str, html: str, *before: str, css: str | None = None) -> Callable:
    """Return the component made of `name`.js and, if present, `name`.css; calling it mounts it on the page.

    before: shared scripts prepended to its own, in addition to `call`, with their styles. css: name of another style
    file to use instead of its own.
    """
    styles = [HERE / f"{each}.css" for each in ("call", *before, css or name)]
    return st.components.v2.component(
        name,
        html=html,
        css="".join(_read(style) for style in styles if style.exists()) or None,
        js=scripts.of(("call", *before, name)),
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
