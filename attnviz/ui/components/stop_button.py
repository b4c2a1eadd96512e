"""A button that ends what its part of the page is at, and draws the page anew with what there is."""

from __future__ import annotations

from attnviz.ui.components.declared import declared

_mount = declared("stop_button", '<button type="button">Stop measuring</button>\n', css="buttons")


def stop_button(key: str) -> None:
    """What was kept until then stays kept; the run ends like one that somebody leaves."""
    _mount(key=key, height="content", width="content")
