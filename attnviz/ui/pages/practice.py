"""Practice page: drills, questions to answer aloud, a mock interview, and coding tasks."""

from __future__ import annotations

import random

import streamlit as st

from attnviz.compute import due as compute_due
from attnviz.compute import practice as compute
from attnviz.compute import progress as compute_progress
from attnviz.compute.practice import Attempt
from attnviz.compute.view import View, always
from attnviz.phrases import count
from attnviz.session.pages import PAGES
from attnviz.session.route import Item
from attnviz.session.unfinished import MOCK, SET
from attnviz.ui import controls, keeping, offer_unfinished, state
from attnviz.ui import progress as kept
from attnviz.ui.pages import practice_attempt as attempts
from attnviz.ui.pages import practice_code as code
from attnviz.ui.pages import practice_due as due
from attnviz.ui.pages import practice_interview as interview
from attnviz.ui.pages import practice_kept, practice_missed
from attnviz.ui.pages import practice_spoken as spoken

PAGE = PAGES["practice"]


def prepare(view: View) -> None:
    """Compute and cache the questions of the selected set."""
    compute.set_of(view.settings)


def show() -> None:
    """Draw the page."""
    clock()
    parts()


def still_to_do(item: Item) -> str | None:
    """Say what is still to be done in an item of a route."""
    if card := item.link.get("card"):
        return spoken.still_to_do(card)
    if item.comes_back:
        counted = compute_due.counted(kept.get(), kept.today().isoformat())
        return f"{counted}." if counted else None
    tab = PAGE.open_tab(item.link.get("tab", ""))
    return attempts.still_to_do(tab == "interview") if tab in ("drills", "interview") else ""


@state.part("clock", always)
def clock(view: View) -> None:
    """Countdown of a set with a time limit; polls the user's own file for changes on the Write tab."""
    attempts.clock()
    if PAGE.open_tab(view.settings.tab) == "write" and (file := code.own_file()[0]):
        code.watch(file)


@state.part("tabs", always)
def parts(view: View) -> None:
    """The open tab."""
    tab = controls.tabs(view, "Show", quiet=True)
    with st.container(key=f"practice-{tab}"):
        TABS[tab](view)
    if tab == "aloud":
        attempts.move_on(spoken.place(), spoken.appeared())
    elif tab == "due":
        due.move_on()
    else:
        attempts.move_on()


def _drills(view: View) -> None:
    attempt = practice_kept.current()
    if attempt and attempt.of != "interview" and attempt.is_of(view.settings):
        attempts.show(attempt)
        return
    if _others(attempt, SET):
        return
    s = view.settings
    subject = compute.SUBJECTS.get(s.subject, "all six subjects")
    st.markdown(
        f"**{count(s.questions, 'question')}** on {subject if s.subject == 'rope' else subject.lower()}, "
        f"made from live tensors, the shipped checkpoints and {len(compute.PRESETS)} published models, and graded by "
        "computation. Everyone with this page's link gets the same questions in the same order."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.control(
            st.selectbox, "Subject", "subject", options=["", *compute.SUBJECTS], width=215,
            format_func=lambda key: compute.SUBJECTS.get(key, "All subjects"),
        )  # fmt: skip
        controls.control(
            st.selectbox, "Up to level", "level", options=list(compute.LEVELS), width=125,
            format_func=compute.LEVELS.__getitem__,
        )  # fmt: skip
        controls.control(st.number_input, "Questions", "questions", width=120)
        controls.control(st.number_input, "Minutes (0: no limit)", "minutes", width=150)
        _set_controls()
    with st.container(horizontal=True, key=_awaited()):
        _start("set", "Start")
        if label := practice_missed.label():
            st.button(label, on_click=practice_missed.repeat, key="again", icon=":material/replay:")
    _progress_section()


def _set_controls() -> None:
    controls.control(st.number_input, "Set", "question_set", width=130)
    st.button("Another set", on_click=_another, icon=":material/casino:")


def _interview(view: View) -> None:
    attempt = practice_kept.current()
    if attempt and attempt.of == "interview" and attempt.is_of(view.settings):
        (interview.score_card if attempt.done and attempt.plan else attempts.show)(attempt)
        return
    if _others(attempt, MOCK):
        return
    interview.about(view.settings.interview)
    with st.container(horizontal=True, vertical_alignment="bottom", key=_awaited()):
        _set_controls()
        _start("interview", "Start the interview")
    interview.kept()


def _awaited() -> str | None:
    """Return the key of a container that is not seen before the browser has sent what runs here instead."""
    return "awaited" if kept.is_awaited() else None


def _others(attempt: Attempt | None, kind: str) -> bool:
    """Offer to go on with what else has been begun; return whether it hides the start of one of this kind.

    attempt: the one of this session, which other settings than those in force name.
    """
    if why := st.session_state.get(practice_kept.GONE):
        st.warning(why)
    mock_runs = bool(attempt and _runs_elsewhere(attempt, kind))
    kinds = [each.kind for each in offer_unfinished.offer(primary=kind == MOCK)]
    if SET in kinds and kind == SET:
        st.caption("One set is kept at a time: starting another one drops this one.")
    if kept_mock := kind == MOCK and MOCK in kinds:
        st.caption("One interview is kept at a time: go on with it, or drop it to start another one.")
    return mock_runs or kept_mock


def _runs_elsewhere(attempt: Attempt, kind: str) -> bool:
    """Say that an attempt with other settings or on another tab runs; return whether it is a mock interview."""
    if attempt.done:
        return False
    mock = attempt.of == "interview"
    what = "A mock interview" if mock else "Another set of questions"
    ends = (
        "Its answers are counted; to start another one ends it." if kind == SET else f"It is kept {kept.where_kept()}."
    )
    then = "End it before you start another." if mock else ends
    st.info(
        f"{what} is running, at question {attempt.at + 1} of {len(attempt.questions)}. {then}", icon=":material/timer:"
    )
    st.button("Go on with it", type="primary" if mock else "secondary", key="go-on", on_click=_open, args=(attempt,))
    return mock


def _open(attempt: Attempt) -> None:
    state.change(tab="interview" if attempt.of == "interview" else "drills", **dict(attempt.settings))
    state.rerun()


def _another() -> None:
    state.change(question_set=random.randrange(1_000_000))
    state.rerun("tabs")


def _start(of: str, label: str) -> None:
    st.button(
        label, type="primary", on_click=attempts.begin, args=(of,), key=f"start-{of}", icon=":material/play_arrow:"
    )


def _progress_section() -> None:
    """Table of the user's progress, and what can be done with it."""
    progress = attempts.progress()
    kinds = {subject: sum(k.subject == subject for k in compute.KINDS.values()) for subject in compute.SUBJECTS}
    st.markdown("## Your progress")
    st.markdown(compute_progress.said(kept.get(), kept.today().isoformat()))
    st.table(  # a dataframe's toolbar would lie on its header, and on a phone its last column would be cut off
        {
            "Subject": list(compute.SUBJECTS.values()),
            "Kinds of questions": [kinds[row.subject] for row in progress.tallies()],
            "Answered": [row.asked for row in progress.tallies()],
            "Right": [f"{row.right / row.asked:.0%}" if row.asked else "–" for row in progress.tallies()],
        },
        hide_index=True, width="content", border="horizontal",
    )  # fmt: skip
    first, second, third = compute.GAPS
    st.caption(
        f"A missed question comes back after {first} other answers. Once you get it right, it comes back with other "
        f"numbers after {second} more, then after {third}. {len(progress.missed)} still to come back in sets."
    )
    keeping.keep()


TABS = {"drills": _drills, "aloud": spoken.show, "interview": _interview, "due": due.show, "write": code.show}
