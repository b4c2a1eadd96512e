"""The settings on the left: one component of the browser's own controls, and a courier that brings a page what is set.

A Streamlit widget runs the part of the page that it stands in, and these stand in the sidebar: every setting would cost
two runs, and two thirds of what the browser compares after each of them would be the sidebar. So the form asks nothing
itself. It tells the courier, which stands in the page's part, and that part runs once.

Both speak the language of a link: {field: value in words}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

_form = declared("settings_form", '<div class="sf"></div>\n')
_courier = declared("settings_courier", "<i></i>\n")


def settings_form(controls: list[dict], values: Mapping[str, str], said: int) -> None:
    """Show the controls, as `ui.controls` lists them. said: number of the form's last wish that `values` answers.

    A `stop_button` is heard here too: the form belongs to no part of the page, so the whole page runs, and at once.
    """
    data = {"controls": controls, "values": dict(values), "said": said}
    _form(key="settings-form", data=as_bytes(data), height="content", on_stop_change=lambda: None)


def settings_courier(values: Mapping[str, str], said: int, on_wish: Callable[[object], None]) -> None:
    """Bring the form what is in force; `on_wish(wish)` runs when the form asks for something else.

    wish: whatever a browser sent, {"n": its number, "changes": {field: value in words}} if it was ours.
    """
    key, data = "settings-courier", {"values": dict(values), "said": said}
    _courier(key=key, data=as_bytes(data), on_wish_change=on_event(key, "wish", on_wish), height="content")
