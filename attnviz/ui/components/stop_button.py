"""A button that ends a measurement, and draws the page anew with what has been measured."""

from __future__ import annotations

from attnviz.ui.components.declared import declared

_mount = declared("stop_button", '<button type="button">Stop measuring</button>\n', css="buttons")


def stop_button(key: str) -> None:
    """Pressed, it ends the run that is on, as if somebody left the page; what was kept until then stays kept."""
    _mount(key=key, height="content", width="content")
