"""The settings in force, kept in the session and mirrored in the address.

They live under one permanent key of the session, not under the widgets' keys, which Streamlit drops with the page
that showed them. The address is written from the settings and read back when it is not the one we wrote: a link
opened, the browser's back button.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec

import streamlit as st
from streamlit.errors import StreamlitAPIException

from attnviz.ui.queue import Turns
from attnviz.ui.settings import SELECTION, Settings

P = ParamSpec("P")

_SETTINGS, _LINK, _PAGE, _OFFERED, _NOTICES = "settings", "link", "page", "offered link", "notices"
_ANSWERED, _FIRST, _ASKED = "answered wish", "first run", "asked selection"

TURNS = Turns(at_once=2)  # of all sessions, for drawing parts of pages: one thread computes while another runs Python
LOOKED_AT = {"Heads": "heads_part", "Query groups": "closer", "RoPE": "turning", "Cost": "part"}  # the settings' field
OPENING = 1.0  # seconds that a page being opened lets changes go first: who moves a slider looks at it, who opens waits
PAGE = "page"  # the part that runs again by itself for what is set on the left


def current() -> Settings:
    """The settings in force."""
    return st.session_state.get(_SETTINGS) or Settings()


def change(**fields: object) -> None:
    """Put other values in force; called from widgets' callbacks. The part that runs then writes the address."""
    st.session_state[_SETTINGS] = replace(current(), **fields).normalised()


def take_wish(wish: object) -> None:
    """Put in force what the form on the left wishes: {"n": the wish's number, "changes": {field: value in words}}."""
    match wish:
        case {"n": int(n), "changes": dict(changes)}:
            st.session_state[_ANSWERED] = n
            st.session_state[_SETTINGS] = current().wished(changes)


def answered() -> int:
    """The number of the last wish that has been put in force; 0 before the first."""
    return st.session_state.get(_ANSWERED, 0)


def read_link(page: str) -> None:
    """Take the settings from the address if somebody else wrote it, and keep a sentence for what could not be used."""
    link, came_from = st.query_params.to_dict(), st.session_state.get(_PAGE)
    st.session_state[_PAGE] = page
    ours = link == st.session_state.get(_LINK)
    if came_from not in (None, page):  # by a link of ours, which may be older than what a fragment has changed since
        ours |= link in ({}, st.session_state.get(_OFFERED))
    if ours and _SETTINGS in st.session_state:
        return
    st.session_state[_SETTINGS], st.session_state[_NOTICES] = Settings.from_link(link)
    st.session_state[_ASKED] = {name: link[name] for name in SELECTION if name in link}


def expect_first_run() -> None:
    """The whole page is being drawn, and not its part alone."""
    st.session_state[_FIRST] = True


def first_run() -> bool:
    """Whether the page's part runs for the first time since the whole page was drawn; asked once a run."""
    return st.session_state.pop(_FIRST, False)


def take_notices() -> list[str]:
    """What of the link could not be used; said once."""
    return st.session_state.pop(_NOTICES, [])


def take_asked() -> dict[str, str]:
    """The layer, head, query and key that the link asked for, in its words; given once."""
    return st.session_state.pop(_ASKED, {})


def link_to_other_pages() -> dict[str, str]:
    """What links between pages carry, so that going there is one step in the browser's history and not two."""
    st.session_state[_OFFERED] = current().to_link()
    return st.session_state[_OFFERED]


def write_link() -> None:
    """Make the address say what is in force."""
    link = current().to_link()
    if st.query_params.to_dict() != link:
        st.query_params.from_dict(link)
    st.session_state[_LINK] = link


def file_name(part: str) -> str:
    """What a file of this part is called: the page, the part, the model; as in `components/save.js`."""
    page = st.session_state.get(_PAGE, "").lower().replace(" ", "-")
    return f"attnviz-{page}-{part}-{current().model}"


def part(key: str, turns: AbstractContextManager | None = None) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A fragment of this key, drawn when it is its turn, that leaves the address right.

    That comes last, since browsers take as long for it as for a chart. turns: what to wait for instead of TURNS.
    """

    def decorate(body: Callable[P, None]) -> Callable[P, None]:
        @st.fragment(key=key)
        @wraps(body)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            with TURNS.mine(_kind(key), _later()) if turns is None else turns:
                body(*args, **kwargs)
                write_link()

        return run

    return decorate


def place() -> AbstractContextManager:
    """A box for all that stands above a part, so that nothing that comes and goes in it moves the part.

    Streamlit knows a part by where it stands. Moved up or down it would be another one, and what somebody has asked of
    it while the page was being drawn would be lost.
    """
    return st.container()


def _kind(key: str) -> tuple[str, ...]:
    """What about takes as long each time: this part of this page, with what is looked at closer."""
    page = st.session_state.get(_PAGE, "")
    return page, key, getattr(current(), LOOKED_AT.get(page, ""), "")


def _later() -> float:
    """Seconds that what runs now may let others go first."""
    return OPENING if st.session_state.get(_FIRST) else 0.0


def rerun(*parts: str) -> None:
    """From a callback: run these parts again and leave everything else as it stands."""
    try:
        st.rerun(parts)
    except StreamlitAPIException:  # one of them is not on this page, or not drawn yet
        st.rerun()


def control(
    widget: Callable[..., Any],
    label: str,
    field: str,
    *,
    shown: object = None,
    reruns: Sequence[str] = (),
    **options: Any,
) -> Any:
    """A widget for one field of the settings: `control(st.slider, "Layers", "n_layers", min_value=1, …)`.

    shown: what it stands at where the field's own value is not among what is offered just now.
    reruns: the parts that show the field; by default the one that the widget stands in.
    """
    key = f"control-{field}"
    value = getattr(current(), field) if shown is None else shown
    st.session_state[key] = list(value) if isinstance(value, tuple) else value  # as the browser will send it back
    return widget(label, key=key, on_change=_take, args=(field, reruns), **options)


def _take(field: str, reruns: Sequence[str]) -> None:
    change(**{field: st.session_state[f"control-{field}"]})
    if reruns:
        rerun(*reruns)
