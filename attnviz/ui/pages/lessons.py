"""Lessons page: the routes, the list of lessons, each linking to its first step, and the plan of a workshop."""

from __future__ import annotations

import streamlit as st

from attnviz.compute import lessons as compute
from attnviz.compute import routes
from attnviz.compute.view import View, always
from attnviz.figures.drawing import escaped
from attnviz.phrases import count, day
from attnviz.session.lesson import Lesson
from attnviz.session.progress import LessonState
from attnviz.session.route import Route
from attnviz.ui import controls, progress, route_bar, route_plan, state
from attnviz.ui.pages.lessons_workshop import workshop

COLUMNS = 2


def show() -> None:
    """Draw the page."""
    parts()


@state.part("tabs", always)
def parts(view: View) -> None:
    """The open tab."""
    TABS[controls.tabs(view, "Show", quiet=True)](view)


def _all(view: View) -> None:
    st.markdown(
        "Each lesson leads through pages of this app; a bar says what to look at, and the page marks it. Change any "
        "setting on the way: the bar has a button back to the step."
    )
    _route_list()
    with st.container(key="lesson-keys"):  # not on touch screens: page_style.css
        st.caption("Keys: J next, K back, Q answer, L this list, G back to the step, P present.")
    _lesson_list(view)


def _route_list() -> None:
    """The routes, each with its items and times, and a tick where one is done."""
    if compute.planned():  # a lecture's own list
        return
    kept = progress.get()
    for route in routes.routes(kept).values():
        on, begun = route_bar.done_on(route.name), route_plan.so_far(route)
        so_far = f", done on {on}" if on else f", {begun}" if begun else ""
        with st.container(horizontal=True, vertical_alignment="top", key=f"route-{route.name}", gap="small"):
            label = "Begin again" if on else "Go on" if route.name in kept.routes else "Begin"
            st.button(label, key=f"begin-{route.name}", on_click=route_bar.start, args=(route.name, bool(on)))
            here = route.name == state.current().route
            about = f"**{route.title}** · {count(len(route.items), 'item')}{_today(route)}{so_far}"
            with st.expander(about, expanded=here):
                route_plan.plan(route, names_day=here)


def _today(route: Route) -> str:
    """Say how long a route takes today, where its title does not."""
    if route.interview_in:
        return ""
    return f", {count(sum(item.minutes_with(progress.due()) for item in route.items), 'minute')} today"


def _lesson_list(view: View) -> None:
    """The lessons, and an error for each file that is not a valid lesson."""
    lessons, unread = compute.lessons()
    for each in unread:
        st.error(f"**{escaped(each.file)}** is not shown. {escaped(each.reason)}", icon=":material/error:")
    if compute.planned():
        minutes = sum(lesson.minutes for lesson in lessons.values())
        st.caption(f"{count(len(lessons), 'lesson')} in the order of your order.txt, about {count(minutes, 'minute')}.")
        _cards(view, list(lessons.values()))
        return
    own = compute.own(lessons)
    if own:
        st.markdown("## Your lessons")
        _cards(view, own)
        st.markdown("## Lessons of AttnViz")
    _cards(view, [lesson for lesson in lessons.values() if lesson not in own])


def _cards(view: View, lessons: list[Lesson]) -> None:
    kept = progress.get().lessons
    for at in range(0, len(lessons), COLUMNS):  # row by row, so that a phone and a screen reader keep their order
        row = enumerate(lessons[at : at + COLUMNS], at + 1)
        for column, (number, lesson) in zip(st.columns(COLUMNS), row, strict=False):
            with column.container(border=True, height="stretch"):
                _lesson(view, number, lesson, kept.get(lesson.name))


def _lesson(view: View, number: int, lesson: Lesson, kept: LessonState | None) -> None:
    """Draw a lesson's card: a link to where the person is in it, and a tick where it is done."""
    open_now = view.settings.lesson == lesson.name
    reached = min(kept.step, len(lesson.steps)) if kept and not kept.done and kept.step > 1 else 0
    at = view.settings.lesson_step if open_now else reached
    first, tick = lesson.step(at or 1), ":green[:material/check:] " * bool(kept and kept.done)
    st.page_link(
        first.page.file, label=f"{tick}**{number} · {lesson.title}**", icon=":material/arrow_forward:",
        icon_position="right", query_params=lesson.settings(at or 1).to_link(),
    )  # fmt: skip
    steps = f"{count(len(lesson.steps), 'step')}, about {count(lesson.minutes, 'minute')}"
    st.caption(f"{lesson.about} {steps}.{_where(lesson, at, open_now, kept)}")


def _where(lesson: Lesson, at: int, open_now: bool, kept: LessonState | None) -> str:
    """Say where the person is in a lesson, or when they were through with it."""
    if open_now:
        return f" You are at step {at}."
    if kept and kept.done:
        return f" Done on {day(kept.done)}."
    if at == len(lesson.steps) and lesson.step(at).asks:
        return f" You reached step {at}, which asks something: the lesson is done once that is answered."
    return f" You reached step {at}: it opens there." if at else ""


TABS = {"all": _all, "workshop": workshop}
