"""Declaration of a Streamlit component from the files in this folder: .js, .css and, unless it is given, .html."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from attnviz.assets import markup_of, script_of, style_of
from attnviz.server import scripts


def declared(name: str, html: str | None = None, css: str = "") -> Callable:
    """Return the component made of `name`.js and the styles of that and of what it imports; calling it mounts it.

    css: name of another style file to use instead of its own.
    """
    return st.components.v2.component(
        name,
        html=markup_of(name) if html is None else html,
        css=style_of(name, css) or None,
        js=scripts.loader(script_of(name)),
    )
