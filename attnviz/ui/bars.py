"""What the bars of lessons and routes share: three lines of text beside the buttons, until the whole text is asked for.

A bar covers the page's lower edge, where answers and what leads on from them appear. So it is whole where a person has
asked for that: at each step that is read, and at one that asks something on the page only if they asked there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st

from attnviz.ui import progress

Place = tuple[str, int]  # name of a lesson or route, number of its step or item
ICONS = {"back": ":material/arrow_back:", "return": ":material/undo:"}  # a narrow bar has no room for the labels
_WHOLE = "whole text in a bar"  # session key: the place where it was asked for


def is_whole(place: Place, *, asks: bool) -> bool:
    """Check whether the whole text is shown. asks: whether the page asks something at this place."""
    at = st.session_state.get(_WHOLE)
    return at == place or (at is not None and not asks)


def show_whole(place: Place) -> None:
    """Show the whole text here, and at the steps to read after it."""
    st.session_state[_WHOLE] = place


def fold() -> None:
    """Show the beginning of the text."""
    st.session_state.pop(_WHOLE, None)


@contextmanager
def frame(*, whole: bool, asks: bool = True, presented: bool = False) -> Iterator[None]:
    """Container of a bar's text and buttons, with a key by which bars.css makes it as low as it can be.

    asks: whether the page asks something at this place. What is only read is whole in a wide window.
    """
    low = "brief" if asks else "read"
    with st.container(key=f"bar-{'presented' if presented else 'whole' if whole else low}"):
        yield


def spoken(text: str) -> str:
    """Return Markdown as it is read aloud, without its marks."""
    return re.sub(r"\\([!-/:-@\[-`{-~])|[*`]|^#+ ", r"\1", text, flags=re.MULTILINE)


def caption(said: str) -> None:
    """Draw where the person is; unseen until a browser that has progress has sent it, since it would change then."""
    with st.container(key="awaited-bar" if progress.is_awaited() else "bar-caption"):
        st.caption(said)


def fold_button(place: Place, name: str, *, whole: bool, then: Callable[[], None] | None = None) -> None:
    """Button for the whole text, or for its beginning. name: of the bar. then: what else happens as it is folded."""
    label, icon = ("Less", "expand_more") if whole else ("More", "expand_less")
    st.button(label, key=f"{name}-fold", icon=f":material/{icon}:", on_click=_turn, args=(place, whole, then))


def _turn(place: Place, whole: bool, then: Callable[[], None] | None) -> None:
    if not whole:
        show_whole(place)
        return
    fold()
    if then:
        then()
