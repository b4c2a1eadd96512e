"""The attempt of this session, and what their browser keeps of it: it stands here again after a reload."""

from __future__ import annotations

import secrets
import time

import streamlit as st

from attnviz.compute import unfinished as compute
from attnviz.compute.practice import Attempt
from attnviz.session.unfinished import MOCK, SET, Unfinished
from attnviz.ui import progress, state, this_tab

ATTEMPT, SERIAL = "practice attempt", "practice serial"
FORM = "practice kept form"  # session key: the attempt as the browser keeps it
GONE = "practice gone"  # session key: why the attempt that the browser kept cannot go on
SAID = "practice kept"  # session key: what to say of the score card that was just kept
RESUMED = "practice resumed"  # session key: how many answers it had when it went on here


def current() -> Attempt | None:
    """Return the attempt that is running or whose score card is open, as far as it has come in any tab."""
    own: Unfinished | None = st.session_state.get(FORM)
    kept = progress.get().unfinished
    if own is None:
        if found := next((kept[kind] for kind in (MOCK, SET) if this_tab.runs(kind) and kind in kept), None):
            if compute.is_elsewhere(found, state.current()):
                this_tab.end(found.kind)  # it is offered
            else:
                take_up(found)
    elif (found := kept.get(own.kind)) is None or found.id != own.id or found.ended:
        if found and this_tab.runs(own.kind) == own.id:
            st.session_state[GONE] = "It was ended in another tab, or another one was begun there."
        _forget(own)
    elif found != own:
        take_up(found)
    return st.session_state.get(ATTEMPT)


def begin(attempt: Attempt) -> None:
    """Begin an attempt with the settings in force, and keep it."""
    set_aside()
    of, before = attempt.of if attempt.of == MOCK else SET, progress.get().unfinished
    turn = before[of].turn + 1 if of in before else 0
    form = compute.begun(attempt, state.current(), id=secrets.token_hex(6), turn=turn, at=progress.now())
    for name in (GONE, RESUMED, SAID):
        st.session_state.pop(name, None)
    st.session_state[SERIAL] = serial() + 1
    st.session_state[FORM] = form
    this_tab.begin(form.kind, form.id)
    keep(attempt)


def keep(attempt: Attempt) -> None:
    """Replace the attempt, here and in the browser."""
    st.session_state[ATTEMPT] = attempt
    if form := st.session_state.get(FORM):
        now = time.monotonic()
        st.session_state[FORM] = kept = compute.kept(attempt, form, state.current(), now)
        this_tab.time_is_up(kept.id, float("inf") if attempt.done else attempt.left(now))
        progress.keep_unfinished(kept)


def end() -> None:
    """End the attempt of this session, and keep nothing of it."""
    st.session_state.pop(ATTEMPT, None)
    if form := st.session_state.get(FORM):
        drop(form)


def drop(found: Unfinished) -> None:
    """Drop what the browser keeps, here and in all tabs."""
    if (own := st.session_state.get(FORM)) and own.id == found.id:
        _forget(own)
    progress.keep_unfinished(found.closed())


def take_up(found: Unfinished) -> None:
    """Go on here with what the browser keeps; if this version cannot, drop it and remember why."""
    set_aside(found.id)
    try:
        attempt = compute.attempt_of(this_tab.with_time(found), now := time.monotonic())
    except compute.CannotGoOn as why:
        st.session_state[GONE] = str(why)
        this_tab.end(found.kind)
        drop(found)
        return
    st.session_state.pop(GONE, None)
    st.session_state[ATTEMPT], st.session_state[FORM] = attempt, found
    st.session_state[SERIAL] = serial() + 1
    st.session_state[RESUMED] = len(attempt.given)
    this_tab.begin(found.kind, found.id)
    this_tab.time_is_up(found.id, float("inf") if attempt.done else attempt.left(now))
    state.progress_changed()  # the tab has to remember it


def has_resumed(attempt: Attempt) -> bool:
    """Check whether the question on screen is the one at which it went on here."""
    return st.session_state.get(RESUMED) == len(attempt.given)


def serial() -> int:
    """Return a counter of sets and questions, which makes the widget keys of each question unique."""
    return st.session_state.get(SERIAL, 0)


def own_id() -> str:
    """Return the id under which the browser keeps the attempt, and the score card of an interview."""
    form = st.session_state.get(FORM)
    return form.id if form else ""


def set_aside(but: str = "") -> None:
    """Keep the attempt of this session with its time, before another one takes its place. but: an id that stays."""
    attempt, form = st.session_state.get(ATTEMPT), st.session_state.get(FORM)
    if attempt is None or form is None or form.id == but:
        return
    keep(attempt)
    form = st.session_state[FORM]
    _forget(form)
    if not form.goes_on:
        drop(form)


def _forget(form: Unfinished) -> None:
    for name in (ATTEMPT, FORM):
        st.session_state.pop(name, None)
    this_tab.end(form.kind)
    state.progress_changed()
