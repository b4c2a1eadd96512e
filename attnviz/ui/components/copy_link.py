"""Buttons that copy the link to this view, and an iframe code that embeds one of its drawings.

Where the user's own lessons are shown, another one copies the view as a step of a lesson.
"""

from __future__ import annotations

import os

from attnviz.session.lesson import FOLDER
from attnviz.session.pages import ELEMENTS
from attnviz.session.settings import Settings
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

HTML = """
<button type="button" class="link"></button>
<button type="button" class="code"></button>
<button type="button" class="step" hidden></button>
<select aria-label="Drawing" hidden></select>
<span role="status" aria-live="polite"></span>
"""

_component = declared("copy_link", HTML, css="buttons")


def copy_link() -> None:
    """Draw the buttons. The URL contains the current settings, so the browser copies it without the server."""
    drawings = [(element.css_class, element.key, element.name) for element in ELEMENTS.values() if element.drawing]
    data = {"usualModel": Settings().model, "drawings": drawings, "writesLessons": bool(os.environ.get(FOLDER))}
    _component(key="copy-link", data=as_bytes(data), height="content")
