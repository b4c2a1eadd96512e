"""Presentation mode: a page's drawings one at a time, and the presenter's bar."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from attnviz.compute.view import View, always
from attnviz.session.page import Element
from attnviz.session.settings import Settings
from attnviz.ui import state
from attnviz.ui.components.stage import stage
from attnviz.ui.qr_code import qr_code


def present_button() -> None:
    """Sidebar button that starts presentation mode."""
    st.button(
        "Present", key="present", shortcut="P", on_click=_begin, icon=":material/slideshow:",
        help="Show one drawing at a time, enlarged and without the sidebar; in a lesson, the step's. "
        "Key P; then ← and → or Page Up and Page Down step, B blanks the screen, Esc leaves.",
    )  # fmt: skip


def _begin() -> None:
    """Present the drawing of the lesson step that is open, otherwise the page's first."""
    s, page = state.current(), state.page()
    only = _drawing_of_step(s)
    presentable = only in {element.key for element in page.shown(s.tab)}
    state.go(page.path, replace(s, present=True, only=only if presentable else ""))


def _drawing_of_step(s: Settings) -> str:
    from attnviz.compute import lessons  # imported late: numpy would delay pages without a lesson

    lesson = lessons.lesson(s.lesson) if s.lesson else None
    return lesson.step(s.lesson_step).drawing if lesson else ""


def bar() -> None:
    """Presenter's bar: step through the page's drawings, show the link as a QR code, leave.

    In a lesson its steps lead on, and the lesson bar holds the presenter's tools.
    """
    if not state.current().lesson:
        with st.bottom, st.container(key="presenter"):
            _bar()


@state.part(state.PRESENTER, always)
def _bar(view: View) -> None:
    s, element = view.settings, state.alone()
    shown = state.page().drawings(s.tab)
    at = shown.index(element) if element in shown else -1
    every = [each for each in shown if not each.tab] + _by_tab(s)[0]
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right"):
        number = f", {every.index(element) + 1} of {len(every)}" if element in every else ""
        st.caption(f"{state.page().name} · {element.name}{number}" if element else state.page().name)
        if shown:
            _step_button("◀", "previous", "Left", _of_tab_before(s, element) or (shown[at - 1] if at > 0 else None))
            _step_button("▶", "following", "Right", shown[at + 1] if at + 1 < len(shown) else _of_next_tab(s))
        tools(s)


def tools(s: Settings) -> None:
    """Draw the QR code's button and the one that ends the presentation; enlarge the drawing."""
    element = state.alone()
    qr_code(s)
    st.button("Leave", key="present-leave", shortcut="Esc", on_click=_end)
    stage(element.css_class if element else "", key="stage")


def _by_tab(s: Settings) -> tuple[list[Element], int]:
    """Return the drawings of the page's tabs, tab by tab, and how many of them are in tabs before the open one."""
    page = state.page()
    tabs = list(page.tabs)
    drawings = [element for tab in tabs for element in page.drawings(tab) if element.tab]
    return drawings, sum(tabs.index(element.tab) < tabs.index(page.open_tab(s.tab)) for element in drawings)


def _of_next_tab(s: Settings) -> Element | None:
    """Return the first drawing of the next tab that has one."""
    drawings, n_before = _by_tab(s)
    open_tab = state.page().open_tab(s.tab)
    return next((each for each in drawings[n_before:] if each.tab != open_tab), None)


def _of_tab_before(s: Settings, element: Element | None) -> Element | None:
    """Return the last drawing of the tab before this one, if the element is the first of its tab."""
    drawings, n_before = _by_tab(s)
    return drawings[n_before - 1] if n_before and drawings[n_before : n_before + 1] == [element] else None


def _step_button(label: str, name: str, shortcut: str, to: Element | None) -> None:
    st.button(
        label, key=f"present-{name}", shortcut=shortcut, disabled=to is None, on_click=_show, args=(to,),
        help=f"The {name} drawing of this page",
    )  # fmt: skip


def _show(to: Element) -> None:
    s = state.current()
    state.go(state.page().path, replace(s, only=to.key, tab=to.tab or s.tab))


def _end() -> None:
    state.go(state.page().path, replace(state.current(), present=False, only=""))
