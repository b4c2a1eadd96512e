"""A button that copies the address of exactly this view."""

from __future__ import annotations

from attnviz.ui.components.declared import declared

HTML = "<button type='button'></button><span role='status' aria-live='polite'></span>\n"

_component = declared("copy_link", HTML, css="buttons")


def copy_link() -> None:
    """The address bar always says what is in force, so the browser copies it itself."""
    _component(key="copy-link", height="content")
