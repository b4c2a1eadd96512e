"""The mark of a lesson: brings the element to look at into sight, and says the step to who listens."""

from __future__ import annotations

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

HTML = """
<p class="look"></p>
<p class="said" role="status" aria-live="polite"></p>
"""

_component = declared("lesson_mark", HTML)


def lesson_mark(said: str, css_class: str, name: str, step: str) -> None:
    """Mark the element of this class. said: the step, in words; step: the element is scrolled to where
    this is another one; "" for who has left the step.
    """
    data = {"said": said, "target": css_class, "name": name, "step": step}
    _component(key="lesson-mark", data=as_bytes(data), height="content")
