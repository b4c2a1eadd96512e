"""What follows from a choice: which settings change with it, and which stay as nobody's choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnviz.compute.view import View, drawable
from attnviz.session.page import Page
from attnviz.session.settings import Settings
from attnviz.session.shared import DEFAULT_TEXT, HOW_IT_RUNS, NEW_TEXT, NOBODY_CHOSE, NOT_CHOSEN


def changed(view: View, **fields: Any) -> Settings:
    """Return the settings with these changed, and with what follows from that. view: what is shown before it.

    A new text or model discards the generated tokens, which belong to the old ones, and what nobody chose becomes what
    stands out. A mask or position setting does not move the selection. A head chosen by hand keeps the layer shown.
    """
    now, given = view.settings, fields.keys()
    also: dict[str, Any] = {}
    if given & set(NEW_TEXT):
        also = {"written": (), "shown": -1} | (NOBODY_CHOSE if now.selection == "kept" else {"selection": "auto"})
    elif given & set(HOW_IT_RUNS) and now.nobody_chose:
        also = _shown(view, *NOBODY_CHOSE) | {"selection": "kept"}
    if len(given & {"layer", "head"}) == 1:
        also = _shown(view, "layer", "head") | also
    if given & NOBODY_CHOSE.keys() and "kept" in (now.selection, also.get("selection")):
        also["selection"] = "auto"
    return replace(now, **{**also, **fields}).normalised()


def _shown(view: View, *names: str) -> dict[str, Any]:
    """Return what is shown, of layer, head, query and key; no key where it is the query's strongest."""
    shown = dict(zip(("layer", "head"), view.layer_and_head, strict=True))
    if drawable(view):
        shown |= {"query": view.query, "key": NOT_CHOSEN if view.key == view.strongest_key else view.key}
    return {name: value for name, value in shown.items() if name in names}


def with_text_of(page: Page, settings: Settings) -> Settings:
    """Return the settings of a visitor who has chosen no text, on this page: with its own text, or the default one."""
    text = page.text or DEFAULT_TEXT
    if settings.text == text or settings.lesson:
        return settings
    chosen = changed(View(settings), text=text)
    bare = replace(chosen, selection="", tab="")
    return replace(chosen, selection="") if bare == Settings() else chosen  # as a bare address opens it
