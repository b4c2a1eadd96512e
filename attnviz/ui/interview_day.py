"""The day of the person's interview, if they say it: what they do not know well comes back before it."""

from __future__ import annotations

from datetime import date, timedelta

import streamlit as st

from attnviz.phrases import day
from attnviz.session.progress import InterviewDay
from attnviz.ui import progress, state

KEY = "interview-day"  # of the control
_OPEN = "interview-day-open"  # of the popover: whether it is open


def choose(suggest: bool = False) -> None:
    """Control for the day. suggest: also a button that says it is tomorrow, while none is chosen."""
    today, on = progress.today(), _on()
    tomorrow = today + timedelta(days=1)
    st.session_state[KEY] = date.fromisoformat(on) if on else None
    label = f"Interview on {day(on)}" if on else "When is your interview?"
    with st.popover(label, icon=":material/event:", key=_OPEN, on_change="rerun"):
        st.date_input(
            "Day of the interview", key=KEY, min_value=today, format="YYYY-MM-DD", on_change=_take_control
        )  # fmt: skip
        # A typed day is sent when the control is left, and Escape drops it: the button is where to go, also with Tab.
        st.button("Keep this day", key="interview-day-keep", on_click=_close)
        in_time = "" if on == today.isoformat() else " Questions that you do not know well come back in time for it."
        st.caption(f"Kept {progress.where_kept()}, not on the server.{in_time}")
    if suggest and not on:
        st.button(
            f"It is tomorrow, {day(tomorrow.isoformat())}", key="interview-tomorrow", on_click=_take, args=(tomorrow,)
        )


def heading() -> str:
    """Head what prepares for an interview: when it is, a question while that is not known."""
    return f"Interview {progress.when(on)}" if (on := _on()) else "Interview tomorrow?"


def said() -> str:
    """Say, after another sentence, that a coming interview is considered; "" without one."""
    on = _on()
    if on <= progress.today().isoformat():  # none, or what comes back now does so after it
        return ""
    return f" Your interview is on {day(on)}: what you do not know well comes back in time for it."


def planned(days: int) -> str:
    """Say which day a route that ends before an interview in so many days takes it to be on."""
    return "" if _on() else f"Unless you choose a day, “Begin” sets it to {day(_in(days))}."


def plan_for(days: int) -> None:
    """Set the day to the one in so many days where none is set, and say so."""
    if _on():
        return
    on = _in(days)
    progress.record(interview=InterviewDay(on, progress.now()))
    st.toast(
        f"Your interview is set to {day(on)}. “All items” in the bar leads to the control that changes it.",
        icon=":material/event:", duration="long",
    )  # fmt: skip


def _in(days: int) -> str:
    return (progress.today() + timedelta(days=days)).isoformat()


def _on() -> str:
    return progress.get().interview_on(progress.today().isoformat())


def _close() -> None:
    st.session_state[_OPEN] = False


def _take_control() -> None:
    _take(st.session_state[KEY])


def _take(chosen: date | None) -> None:
    progress.record(interview=InterviewDay(chosen.isoformat() if chosen else "", progress.now()))
    state.redraw_progress()
