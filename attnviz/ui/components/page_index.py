"""Links to the drawings of a page that is longer than two screens, and one back to its main drawing."""

from __future__ import annotations

from attnviz.session.page import Page
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

KEY = "page-index"
HTML = """
<nav class="index" aria-label="On this page" hidden></nav>
<button type="button" class="back" hidden></button>
"""

_component = declared("page_index", HTML)


def page_index(page: Page) -> None:
    """Mount the index: the browser lists those of the page's drawings that it shows, in their order."""
    sections = [[element.css_class, element.name] for element in page.elements if element.drawing]
    _component(key=KEY, data=as_bytes({"sections": sections}), height="content")
