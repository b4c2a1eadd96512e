"""Lesson bar at the bottom of a page: the step's text, navigation buttons, and the mark on the element to look at.

The step is part of the settings, and so of every link: the bar stays when the user leaves the lesson's path.
"""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from attnviz.compute.view import View, always
from attnviz.figures.drawing import escaped
from attnviz.session.elements import ELEMENTS
from attnviz.session.lessons import Lesson, Step
from attnviz.session.settings import Settings
from attnviz.ui import state
from attnviz.ui.components.lesson_mark import lesson_mark

_ANSWERED = "answered"  # session key: the (lesson, step) whose answer is shown


def lesson_bar() -> None:
    """Draw the bar if a lesson is open."""
    if state.current().lesson:
        with st.bottom, st.container(key="lesson-bar"):
            _bar()


@state.part(state.LESSON, always)
def _bar(view: View) -> None:
    from attnviz.compute import lessons  # imported late: numpy would delay pages without a lesson

    s = view.settings
    lesson = lessons.lesson(s.lesson)
    if lesson is None:
        st.warning(f"There is no lesson “{escaped(s.lesson[:40])}”. The Lessons page lists all lessons.")
        st.button("Close", key="lesson-close", on_click=_leave)
        return
    number = min(s.lesson_step, len(lesson.steps))
    step, at_step = lesson.step(number), View(lesson.settings(number))
    left_step = _left_step(step, s, at_step.settings)
    place = f"Step {number} of {len(lesson.steps)}"
    with st.container(key="lesson-text"):
        st.markdown(f"##### {step.title}\n\n{lessons.filled(step.text, at_step)}")
        if step.question:
            _question(lesson, number, lessons.filled(step.question, at_step), lessons.filled(step.answer, at_step))
    with st.container(horizontal=True, vertical_alignment="center", key="lesson-tools"):
        element = ELEMENTS.get(step.target)
        look = f" · Look at: {element.name}" if element else ""
        st.caption(f"{lesson.title} · {place}{look}")
        _button("Back", "back", "K", lesson, number - 1, number > 1)
        _button("Next", "next", "J", lesson, number + 1, number < len(lesson.steps))
        if left_step:
            _button("Back to the step", "return", "G", lesson, number, True)
        st.button("All lessons", key="lesson-home", shortcut="L", on_click=_home)
        st.button("Leave", key="lesson-leave", on_click=_leave)
    _mark(step, f"{place}: {step.title}", "" if left_step else f"{lesson.name}-{number}")


def _mark(step: Step, announcement: str, name: str) -> None:
    """Outline the step's element if its page is open."""
    element = ELEMENTS.get(step.target) if state.page() == step.page else None
    lesson_mark(announcement, element.css_class if element else "", element.name if element else "", name)


def _button(label: str, name: str, shortcut: str, lesson: Lesson, number: int, active: bool) -> None:
    st.button(
        label, key=f"lesson-{name}", shortcut=shortcut, disabled=not active, on_click=_open, args=(lesson.name, number),
        type="primary" if name == "next" else "secondary",
    )  # fmt: skip


def _open(name: str, number: int) -> None:
    from attnviz.compute import lessons

    lesson = lessons.lesson(name)
    if lesson is None:
        return
    step, settings = lesson.step(number), lesson.settings(number)
    if state.current().present:
        element = ELEMENTS.get(step.target)
        only = step.target if element and element.drawing else ""
        settings = replace(settings, present=True, only=only)
    state.go(step.page.path, settings)


def _question(lesson: Lesson, number: int, question: str, answer: str) -> None:
    shown = st.session_state.get(_ANSWERED) == (lesson.name, number)
    if shown:
        st.markdown(f"**{question}** {answer}")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{question}**", width="content")
        st.button("Show the answer", key="lesson-answer", shortcut="Q", on_click=_answer, args=(lesson.name, number))


def _answer(name: str, number: int) -> None:
    st.session_state[_ANSWERED] = name, number


def _left_step(step: Step, now: Settings, then: Settings) -> bool:
    """Check whether the page or the settings differ from those the step opens."""
    return state.page() != step.page or replace(now, only="", present=False) != then


def _home() -> None:
    state.go("lessons", replace(state.current(), only=""))


def _leave() -> None:
    state.go(state.page().path, replace(state.current(), lesson="", lesson_step=1))
