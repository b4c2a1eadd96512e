"""Buttons that copy the link to this view, and an iframe code that embeds one of its drawings."""

from __future__ import annotations

from attnviz.session.elements import ALL
from attnviz.session.settings import Settings
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

HTML = """
<button type="button" class="link"></button>
<button type="button" class="code"></button>
<select aria-label="Drawing to embed" hidden></select>
<span role="status" aria-live="polite"></span>
"""

_component = declared("copy_link", HTML, "save", css="buttons")


def copy_link() -> None:
    """Draw the buttons. The URL contains the current settings, so the browser copies it without the server."""
    drawings = [(element.css_class, element.key, element.name) for element in ALL if element.drawing]
    data = {"usualModel": Settings().model, "drawings": drawings}
    _component(key="copy-link", data=as_bytes(data), height="content")
