"""Declaration of a Streamlit component from its markup and the .js and .css files in this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from attnviz.server import scripts

HERE = Path(__file__).parent


def declared(name: str, html: str, css: str = "") -> Callable:
    """Return the component made of `name`.js and the styles of that and of what it imports; calling it mounts it.

    css: name of another style file to use instead of its own.
    """
    script = f"ui/components/{name}.js"
    imported = [Path(each).stem for each in scripts.with_imported(script)[:-1]]
    styles = [HERE / f"{each}.css" for each in (*imported, css or name)]
    return st.components.v2.component(
        name,
        html=html,
        css="".join(style.read_text(encoding="utf-8") for style in styles if style.exists()) or None,
        js=scripts.loader(script),
    )
