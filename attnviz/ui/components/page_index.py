"""Links to the drawings of a page that is longer than two screens, and one back to its main drawing.

Of a page without drawings, such as the plan of a workshop, its headings are listed in their place.
"""

from __future__ import annotations

from attnviz.session.page import Page
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

KEYS = {True: "page-index", False: "page-headings"}  # of a page with and without drawings: page_style.css
HTML = """
<nav class="index" aria-label="On this page" hidden></nav>
<button type="button" class="back" hidden></button>
"""

_component = declared("page_index", HTML)


def page_index(page: Page) -> None:
    """Mount the index: the browser lists the drawings that it shows, or the headings, in their order."""
    sections = [[element.css_class, element.name] for element in page.elements if element.drawing]
    _component(key=KEYS[bool(sections)], data=as_bytes({"sections": sections}), height="content")
