"""The Lessons page: all lessons, each with its first step a click away."""

from __future__ import annotations

import streamlit as st

from attnviz.compute import lessons as compute
from attnviz.compute.view import View, anything
from attnviz.figures.drawing import escaped
from attnviz.session.lessons import Lesson
from attnviz.ui import state

COLUMNS = 2


def show() -> None:
    """The whole page."""
    st.markdown(
        "Each lesson leads through the pages of this app: a bar says what to look at, and it is marked. Keys: J next, "
        "K back, Q answer, L this list. Change what you like on the way: G brings you back to the step."
    )
    everything()


@state.part("lessons", anything)
def everything(view: View) -> None:
    """The lessons, and what is wrong with files that are none."""
    found, unread = compute.lessons()
    for each in unread:
        st.error(f"**{escaped(each.file)}** is not shown. {escaped(each.reason)}", icon=":material/error:")
    columns = st.columns(COLUMNS)
    for i, lesson in enumerate(found.values()):
        with columns[i % COLUMNS].container(border=True):
            _lesson(lesson, view.settings.lesson_step if view.settings.lesson == lesson.name else 0)


def _lesson(lesson: Lesson, at: int) -> None:
    first = lesson.step(at or 1)
    st.page_link(
        first.page.file, label=f"**{lesson.title}**", icon=":material/arrow_forward:", icon_position="right",
        query_params=lesson.settings(at or 1).to_link(),
    )  # fmt: skip
    steps = f"{len(lesson.steps)} steps, about {lesson.minutes} minutes"
    st.caption(f"{lesson.about} {steps}.{f' You are at step {at}.' if at else ''}")
