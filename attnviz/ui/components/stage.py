"""Browser side of presentation mode: the drawing fills the screen, a ring follows the pointer, B blanks the screen."""

from __future__ import annotations

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

HTML = "<span hidden></span>\n"

_component = declared("stage", HTML)


def stage(css_class: str, *, key: str) -> None:
    """Fill the screen with the element of this class; "" for the whole page."""
    _component(key=key, data=as_bytes({"target": css_class}), height="content", width="content")
