"""Buttons that copy the address of exactly this view, and what shows one of its drawings in another page."""

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

_component = declared("copy_link", HTML, "save", "one_entry", css="buttons")


def copy_link() -> None:
    """The address bar has the current settings, so the browser copies it itself, and writes it below pictures."""
    drawings = [(element.css_class, element.key, element.name) for element in ALL if element.drawing]
    data = {"usualModel": Settings().model, "drawings": drawings}
    _component(key="copy-link", data=as_bytes(data), height="content")
