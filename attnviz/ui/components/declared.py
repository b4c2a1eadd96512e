"""A component as Streamlit is told of it: its markup, and the files beside this one that have its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent


def declared(name: str, html: str, *before: str, css: str | None = None) -> Callable:
    """The component of `name`.js and, where there is one, `name`.css; called, it stands on the page.

    before: scripts whose functions its own uses, besides `call`, with their style. css: another's style, where it is
    the same.
    """
    styles = [HERE / f"{each}.css" for each in ("call", *before, css or name)]
    return st.components.v2.component(
        name,
        html=html,
        css="".join(_read(style) for style in styles if style.exists()) or None,
        js="".join(_read(HERE / f"{each}.js") for each in ("call", *before, name)),
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
