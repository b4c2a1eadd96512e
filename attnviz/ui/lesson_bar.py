"""Lesson bar at the bottom of a page: the step's text, navigation buttons, and the mark on the element to look at.

The step is part of the settings, and so of every link: the bar stays when the user leaves the lesson's path.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import streamlit as st

from attnviz.compute.view import View, always
from attnviz.figures.drawing import escaped
from attnviz.session.lesson import Lesson, Step
from attnviz.session.pages import ELEMENTS
from attnviz.session.route import NOT_BEGUN, Item
from attnviz.session.settings import Settings
from attnviz.ui import bars, presenter, progress, route_bar, state
from attnviz.ui.components.lesson_mark import lesson_mark

_ANSWERED = "answered"  # session key: the place whose answer is shown
_RUN = ("text", "model", "rope", "theta", "causal", "window", "n_sinks")  # settings that change the numbers of a step
_CHANGED = "*You have changed the text, the model or how it runs. This describes the step as it opens.*\n\n"


def open_linked_step() -> None:
    """Open the page of a step whose link names only the lesson."""
    if state.current().lesson and state.take_link_lesson():
        _open(state.current().lesson, state.current().lesson_step)


def lesson_bar() -> None:
    """Draw the bar if a lesson is open; after one was left, a choice between its settings and those before it."""
    if state.current().lesson:
        _name_window()
        with _place(), st.container(key="lesson-bar"):
            _bar()
    elif not state.current().route and (before := state.settings_before_lesson()) and not state.alone():
        with st.bottom, st.container(key="lesson-left"):
            _choice(before)


def _place() -> AbstractContextManager:
    """Return where the bar stands: at the bottom of the window, or above the list of lessons, which it would cover."""
    listed = state.page().path == "lessons" and not state.current().present
    return nullcontext() if listed else st.bottom


def _choice(before: Settings) -> None:
    """Offer the settings before the lesson, on this page and on the tab that is open at the click."""
    with st.container(horizontal=True, vertical_alignment="center", key="lesson-tools"):
        st.caption("You left the lesson. Go on with the settings as they are now, or with those from before it?")
        label = (
            "Default settings" if before == replace(Settings(), tab=before.tab) else "Settings from before the lesson"
        )
        st.button(label, key="lesson-restore", type="primary", on_click=_restore)
        st.button("Keep these settings", key="lesson-keep", on_click=state.forget_lesson)


def _restore() -> None:
    before = state.settings_before_lesson() or state.current()
    state.forget_lesson()
    state.go(state.page().path, before)


def _name_window() -> None:
    """Name the browser's window, and so the bookmark, after the step."""
    from attnviz.compute import lessons  # imported late: numpy would delay pages without a lesson

    s = state.current()
    lesson = lessons.lesson(s.lesson)
    if lesson and lesson.step(s.lesson_step).page == state.page():
        st.set_page_config(page_title=f"{_where(lesson, s.lesson_step)}: {lesson.step(s.lesson_step).title} · AttnViz")


def _where(lesson: Lesson, number: int) -> str:
    return f"Step {min(number, len(lesson.steps))} of {len(lesson.steps)}"


@state.part(state.LESSON, always)
def _bar(view: View) -> None:
    from attnviz.compute import lessons, placeholders

    s = view.settings
    lesson = lessons.lesson(s.lesson)
    if lesson is None:
        st.warning(f"There is no lesson “{escaped(s.lesson[:40])}”. The Lessons page lists all lessons.")
        st.button("Close", key="lesson-close", on_click=_leave)
        return
    number = min(s.lesson_step, len(lesson.steps))
    step, at_step, place = lesson.step(number), View(lesson.settings(number, s.route_run)), (lesson.name, number)
    text, question, answer = (placeholders.filled(each, at_step) for each in (step.text, step.question, step.answer))
    open_now = _still_to_do(lesson, number, text)
    if not s.present:  # a lecturer's presentation is nobody's progress
        last = number == len(lesson.steps) and open_now is None
        progress.reached(lesson.name, number, last=last)
        if last:
            route_bar.did_lesson(lesson.name)
    left_step = _left_step(step, s, at_step.settings)
    answered, whole = _is_answered(place), _is_whole(s, place, step)
    brief = open_now or ("This step is done." if step.asks else text)
    changed = _CHANGED * any(getattr(s, name) != getattr(at_step.settings, name) for name in _RUN)
    with bars.frame(whole=whole, asks=step.asks, presented=s.present):
        with st.container(key="lesson-text"):
            st.markdown(f"## {step.title}\n\n{changed}{text if whole else brief}", width="stretch")
            if question:
                _question(place, question, answer, beside=s.present)
        with st.container(horizontal=True, vertical_alignment="center", key="lesson-tools"):
            _tools(view, lesson, number, left_step, open_now)
    parts = [f"{_where(lesson, number)}: {step.title}.", text, question, answer * answered]
    _mark(lesson, number, bars.spoken(" ".join(each for each in parts if each)), left_step, answered)


def _still_to_do(lesson: Lesson, number: int, text: str) -> str | None:
    """Say what is still to be done at a step; None where it asks nothing on its page, or nothing any more."""
    step = lesson.step(number)
    kept, today = progress.get(), progress.today().isoformat()
    read = lesson.name in kept.lessons and bool(kept.lessons[lesson.name].done)
    if state.current().route_run > 1:  # its questions are others than those that were answered
        read = route_bar.is_done()
    through = number == len(lesson.steps) and read
    if not step.asks:
        return None
    asked = Item(step.title, step.page, step.link, lesson.minutes, text)
    return route_bar.still_to_do(asked, done=through or asked.is_done(kept, NOT_BEGUN, today))


def _is_whole(s: Settings, place: bars.Place, step: Step) -> bool:
    """Check whether the whole text is shown: always where it covers nothing, and with the answer to its question."""
    covers = not s.present and state.page().path != "lessons"
    return not covers or _is_answered(place) or bars.is_whole(place, asks=step.asks)


def ended_set() -> None:
    """Record a set of questions that was ended: as done where a lesson's last step or the route's item asks it."""
    s = state.current()
    from attnviz.compute import lessons

    lesson = lessons.lesson(s.lesson) if s.lesson else None
    if lesson is None:
        route_bar.ended_set()
    elif s.lesson_step >= len(lesson.steps) and route_bar.is_set(lesson.step(s.lesson_step)):
        progress.reached(lesson.name, len(lesson.steps), last=True)
        route_bar.did_lesson(lesson.name)


def _tools(view: View, lesson: Lesson, number: int, left_step: bool, open_now: str | None) -> None:
    """Draw where the user is, and the buttons; while presenting, those of the presenter in place of the lessons'."""
    s, step, place = view.settings, lesson.step(number), (lesson.name, number)
    if s.present:
        st.caption(f"{lesson.title} · {min(number, len(lesson.steps))} / {len(lesson.steps)}")
    else:
        whole = _is_whole(s, place, step)
        bars.caption(_caption(s, lesson, number, open_now, whole=whole))
        if step.question:
            _answer_button(place)
        if state.page().path != "lessons":
            bars.fold_button(place, "lesson", whole=whole, then=_hide_answer)
    if number == 1 and route_bar.is_open() and not s.present:
        route_bar.back_button(s.route_item)
    else:
        _button("Back", "back", "K", (lesson.name, number - 1), number > 1)
    if left_step:
        _button("Back to the step", "return", "G", place)
    _next_button(lesson, number, primary=open_now is None)
    if s.present:
        presenter.tools(s)
        return
    home = "All items" if route_bar.is_open() else "All lessons"
    st.button(home, key="lesson-home", shortcut="L", icon=":material/list:", on_click=_home)
    st.button("Leave", key="lesson-leave", icon=":material/close:", on_click=_leave)
    if number == 1:
        with st.container(key="lesson-present-key", width="content"):  # not on touch screens or in a low bar: bars.css
            st.caption("P presents the lesson")


def _caption(s: Settings, lesson: Lesson, number: int, open_now: str | None, *, whole: bool) -> str:
    """Say where the person is and, at the last step, whether the lesson is done; with the whole text, in what."""
    said = [_where(lesson, number)]
    if number == len(lesson.steps):
        or_next = "" if route_bar.is_open() else ", or with “Next”"  # a route leaves it as skipped
        said += ["lesson done" if open_now is None else f"done once answered{or_next}"]
    if whole and (element := ELEMENTS.get(lesson.step(number).target)):
        said += [f"Look at: {element.name}"]
    return " · ".join([*said, *[lesson.title] * whole, *[route_bar.position(s, whole=whole)] * route_bar.is_open()])


def _next_button(lesson: Lesson, number: int, *, primary: bool) -> None:
    """Lead to the next step; from the last one to the next lesson, and from the last lesson to the exercises.

    The last one's counts the lesson as done, also where its exercises are not. primary: whether nothing is open there.
    """
    if number < len(lesson.steps):
        _button("Next", "next", "J", (lesson.name, number + 1))
    elif route_bar.is_open() and not state.current().present:
        route_bar.next_button(primary=primary)
    else:
        st.button(
            "Next lesson" if _following(lesson.name) else "Next: Practice", key="lesson-next", shortcut="J",
            type="primary" if primary else "secondary", on_click=_go_on, args=(lesson,),
        )  # fmt: skip


def _go_on(lesson: Lesson) -> None:
    if not state.current().present:
        progress.reached(lesson.name, len(lesson.steps), last=True)
    if following := _following(lesson.name):
        _open(following, 1)
    else:
        _leave("practice")


def _following(name: str) -> str:
    """Return the name of the lesson listed after this one; "" after the last."""
    from attnviz.compute import lessons

    names = [*lessons.lessons()[0], ""]
    return names[names.index(name) + 1] if name in names else ""


def _mark(lesson: Lesson, number: int, announcement: str, left_step: bool, answered: bool) -> None:
    """Outline the step's element if its page is open."""
    step = lesson.step(number)
    element = ELEMENTS.get(step.target) if state.page() == step.page else None
    css_class, element_name = (element.css_class, element.name) if element else ("", "")
    lesson_mark(
        f"Lesson: {lesson.title}", announcement, css_class, element_name, f"{lesson.name}-{number}",
        left=left_step, answered=answered,
    )  # fmt: skip


def _button(label: str, name: str, shortcut: str, to: bars.Place, active: bool = True) -> None:
    st.button(
        label, key=f"lesson-{name}", shortcut=shortcut, disabled=not active, on_click=_open, args=to,
        icon=bars.ICONS.get(name), type="primary" if name == "next" else "secondary",
    )  # fmt: skip


def _open(name: str, number: int) -> None:
    from attnviz.compute import lessons

    lesson = lessons.lesson(name)
    if lesson is None:
        return
    step, now = lesson.step(number), state.current()
    settings = replace(
        lesson.settings(number, now.route_run), route=now.route, route_item=now.route_item, route_run=now.route_run
    )
    if now.present:
        settings = replace(settings, present=True, only=step.drawing)
    state.go(step.page.path, settings)


def _question(place: bars.Place, question: str, answer: str, *, beside: bool) -> None:
    """Draw a step's question. beside: with the button for its answer, which is among the others of a narrower bar."""
    shown = _is_answered(place)
    with st.container(horizontal=True, vertical_alignment="center", key="lesson-question"):
        st.markdown(f"**{question}** {answer}" if shown else f"**{question}**", width="content")
        if beside:
            _answer_button(place)


def _answer_button(place: bars.Place) -> None:
    label = "Hide the answer" if _is_answered(place) else "Show the answer"
    st.button(label, key="lesson-answer", shortcut="Q", on_click=_toggle_answer, args=(place,))


def _is_answered(place: bars.Place) -> bool:
    return st.session_state.get(_ANSWERED) == place


def _toggle_answer(place: bars.Place) -> None:
    st.session_state[_ANSWERED] = None if _is_answered(place) else place


def _hide_answer() -> None:
    st.session_state[_ANSWERED] = None


def _left_step(step: Step, now: Settings, then: Settings) -> bool:
    """Check whether the page or the settings differ from those the step opens."""
    here = replace(now, only="", present=False, route="", route_item=1, route_run=1)
    return state.page() != step.page or here.as_before() != then


def _home() -> None:
    state.go("lessons", state.current())


def _leave(path: str | None = None) -> None:
    """Close the lesson, here or on another page."""
    left = state.leave_lesson()
    state.go(*((state.page().path, left) if path is None else (path, replace(left, only="", present=False))))
