"""A button that copies the address of exactly this view."""

from __future__ import annotations

from attnviz.session.settings import Settings
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

HTML = "<button type='button'></button><span role='status' aria-live='polite'></span>\n"

_component = declared("copy_link", HTML, "save", css="buttons")


def copy_link() -> None:
    """The address bar has the current settings, so the browser copies it itself, and writes it below pictures."""
    _component(key="copy-link", data=as_bytes({"usualModel": Settings().model}), height="content")
