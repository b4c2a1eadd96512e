"""Widgets that show and change the settings: for one field, for the open tab, and pills that act once per click."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from attnviz.compute.view import View
from attnviz.server.own_request import is_requested
from attnviz.session.kinds import Number
from attnviz.session.settings import KINDS
from attnviz.ui import state


def tabs(view: View, label: str, *, quiet: bool = False, also: Sequence[str] = ()) -> str:
    """Draw the page's tab control and return the open tab.

    quiet: hide the label, which is already on the page. also: other parts that depend on the tab.
    """
    tab = state.page().open_tab(view.settings.tab)
    names = _group_tabs(tab)
    control(
        st.segmented_control, label, "tab", shown=tab, options=list(names), format_func=names.__getitem__,
        required=True, label_visibility="collapsed" if quiet or state.page().groups else "visible",
        reruns=[state.drawn_part(), *also],
    )  # fmt: skip
    return tab


def _group_tabs(tab: str) -> dict[str, str]:
    """Draw the group control, if the page has groups; return the tabs of this tab's group, {value in links: name}."""
    names, groups = state.page().tabs, state.page().groups
    if not groups:
        return dict(names)
    group = next(name for name, tabs_ in groups.items() if tab in tabs_)
    st.session_state["control-group"] = group
    st.segmented_control(
        "Look closer",
        list(groups),
        key="control-group",
        required=True,
        on_change=_take_group,
        args=(state.drawn_part(),),
    )
    return {name: names[name] for name in groups[group]}


def _take_group(part: str) -> None:
    state.change(tab=state.page().groups[st.session_state["control-group"]][0])
    state.rerun(part)


def control(
    widget: Callable[..., Any],
    label: str,
    field: str,
    *,
    shown: object = None,
    reruns: Sequence[str] | None = None,
    place: str = "",
    then: Callable[[], object] | None = None,
    **options: Any,
) -> Any:
    """Draw a widget for one field of the settings: `control(st.slider, "Layers", "n_layers", width=220)`.

    A number's limits are those of the field; min_value and max_value may narrow them.
    shown: the widget's value, if the field's own value is not among the options.
    reruns: the parts that show the field; by default the part that contains the widget; () for the whole page.
    place: key prefix of a second widget for the same field. then: called after the field has changed.
    """
    key = f"control-{place}{field}"
    own = getattr(state.current(), field)
    value: Any = own if shown is None else shown
    kind = KINDS[field]
    if isinstance(kind, Number) and "options" not in options:
        number = int if kind.whole else float
        low = number(max(kind.low, options.get("min_value", kind.low)))
        high = number(min(kind.high, options.get("max_value", kind.high)))
        options |= {"min_value": low, "max_value": high}
        value = number(min(max(value, low), high))
    st.session_state[key] = list(value) if isinstance(value, tuple) else value  # as the browser will send it back
    parts = [state.drawn_part()] if reruns is None else reruns
    drawn = _Drawn(field, key, own, st.session_state[key], options.get("options"), parts, then)
    return widget(label, key=key, on_change=_take, args=(drawn,), **options)


@dataclass(frozen=True)
class _Drawn:
    """A widget as it was drawn last: the field's value, the value shown for it, and what was offered."""

    field: str
    key: str
    own: object
    shown: object
    options: Collection | None
    reruns: Sequence[str]
    then: Callable[[], object] | None


def _take(drawn: _Drawn) -> None:
    value = st.session_state[drawn.key]
    unchanged = value == drawn.shown and getattr(state.current(), drawn.field) == drawn.own
    if unchanged or not is_requested() or not _is_offered(value, drawn.options):
        return
    state.change(**{drawn.field: value})
    if drawn.then:
        drawn.then()
    state.rerun(*drawn.reruns, sidebar=drawn.field in state.FIELDS_OF_CONTROLS)


def pick(label: str, options: Sequence[Any], key: str, take: Callable[[Any], object], **rest: Any) -> None:
    """Draw pills that act once per click: `take` receives the option that was clicked, and none stays selected."""
    # At every run: of two runs in quick succession the browser renders only the second, and a pill that stays selected
    # would be deselected by the next click.
    st.session_state[key] = None
    st.pills(label, options, key=key, on_change=_take_picked, args=(key, options, take), **rest)


def _take_picked(key: str, options: Sequence[Any], take: Callable[[Any], object]) -> None:
    chosen = st.session_state[key]
    st.session_state[key] = None
    if chosen is not None and chosen in options and is_requested():
        take(chosen)


def _is_offered(value: object, options: Collection | None) -> bool:
    """Check a widget's value: a browser can send the label of an option that has another label by now, and Streamlit
    then passes that text on, as if the user had chosen it."""
    values = value if isinstance(value, list) else [value]
    return options is None or all(each in options for each in values)
