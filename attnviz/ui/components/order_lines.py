"""List of lines that the user puts in order, by dragging or with buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event

HTML = '<ol class="ol" aria-label="Lines to put in order"></ol>\n'

_mount = declared("order_lines", HTML)


def order_lines(lines: Sequence[str], *, key: str, on_order: Callable[[list[int]], None]) -> None:
    """Show the lines; on_order(indices of the lines in their current order) runs after each move."""

    def take(sent: object) -> None:
        try:
            order = [int(each) for each in sent]  # type: ignore[attr-defined]
        except (TypeError, ValueError, OverflowError):
            return
        if sorted(order) == list(range(len(lines))):
            on_order(order)

    _mount(key=key, data=as_bytes({"lines": list(lines)}), on_order_change=on_event(key, "order", take))
