"""A row of names of which one is chosen: which part of a page is shown.

Streamlit's segmented control for the same is 281 pieces that a browser compares after every change; this is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

HTML = '<div class="oo"><span id="label"></span><div role="radiogroup" aria-labelledby="label"></div></div>\n'

_mount = declared("one_of", HTML)


def one_of(
    label: str,
    names: Mapping[str, str],
    chosen: str,
    *,
    key: str,
    on_choose: Callable[[str], None],
    quiet: bool = False,
) -> None:
    """Show the names in their order; `on_choose(value)` runs after another was chosen.

    names: {value: what is written}. quiet: the label stands above already, and is only read out.
    """

    def choose(value: object) -> None:
        if value in list(names):  # a browser can send anything, and not all of it can be looked up
            on_choose(value)

    data = {"label": label, "quiet": quiet, "names": list(names.items()), "chosen": chosen}
    _mount(key=key, data=as_bytes(data), on_choice_change=on_event(key, "choice", choose), height="content")
