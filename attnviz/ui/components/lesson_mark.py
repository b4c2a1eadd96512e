"""Marker of a lesson's step or a route's item: scrolls to the element to look at, and announces the text of the bar."""

from __future__ import annotations

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

HTML = """
<p class="look"></p>
<p class="status" role="status" aria-live="polite"></p>
"""

_component = declared("lesson_mark", HTML)


def lesson_mark(
    label: str, announcement: str, css_class: str, name: str, step: str, *, left: bool, answered: bool
) -> None:
    """Outline the element with this class, and announce the step.

    label: accessible name of the bar. name: of the element, for messages.
    step: a new value scrolls to the element. left: whether page or settings differ from the step's; returning to the
    step then scrolls again, a further change does not. answered: whether the answer is shown; the text scrolls to it.
    """
    data = {
        "label": label, "announcement": announcement, "target": css_class, "name": name, "step": step, "left": left,
        "answered": answered,
    }  # fmt: skip
    _component(key="lesson-mark", data=as_bytes(data), height="content")
