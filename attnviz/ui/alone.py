"""Single-element view of a page (for an iframe or a projector), and the presenter's bar."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from attnviz.compute.view import View, always
from attnviz.session.elements import Element, drawings
from attnviz.ui import state
from attnviz.ui.components.stage import stage
from attnviz.ui.qr_code import qr_code

# Hides everything but the element and its contents; its containers take the full width, without gaps.
STYLE = """<style>
.stMainBlockContainer :is(.stElementContainer, .stExpander, .stColumn):not(
  .{it}, .{it} *, :has(.{it}, .stAlert)
) {{ display: none; }}
.stMainBlockContainer .stColumn:has(.{it}) {{ width: 100%; flex: 1 1 100%; }}
.stMainBlockContainer .stVerticalBlock:not(.{it}, .{it} *) {{ gap: 0; }}
.stMainBlockContainer {{ padding: 0.75rem 1rem !important; max-width: none; }}
.stAppHeader {{ display: none; }}
</style>"""
WHOLE_PAGE = """<style>.stMainBlockContainer { zoom: 1.4; }</style>"""
PRESENTED = """<style>
.stAppHeader, .stSidebar { display: none; }
.stBottomBlockContainer { zoom: 1.4; padding-block: 0.25rem; }
.stMainBlockContainer [data-testid="stCaptionContainer"] { display: none; }
</style>"""


def style(element: Element) -> None:
    """Hide everything but the element."""
    st.html(STYLE.format(it=element.css_class))


def present_button() -> None:
    """Sidebar button that starts presentation mode."""
    st.button(
        "Present", key="present", shortcut="P", on_click=_begin, icon=":material/slideshow:",
        help="Show one drawing at a time, enlarged and without the sidebar.",
    )  # fmt: skip


def _begin() -> None:
    state.go(state.page().path, replace(state.current(), present=True))


def presenter() -> None:
    """Presenter's bar: step through the page's drawings, show the link as a QR code, leave."""
    st.html(PRESENTED)
    if not state.alone():
        st.html(WHOLE_PAGE)
    with st.bottom, st.container(key="presenter"):
        _presenter()


@state.part(state.PRESENTER, always)
def _presenter(view: View) -> None:
    s, element = view.settings, state.alone()
    shown = drawings(state.page().path, s.tab)
    at = shown.index(element) if element in shown else -1
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right"):
        st.caption(f"{state.page().name} · {element.name}, {at + 1} of {len(shown)}" if element else state.page().name)
        if shown:
            _step_button("◀", "previous", "Left", shown, at - 1)
            _step_button("▶", "following", "Right", shown, at + 1)
        qr_code(s)
        st.button("Leave", key="present-leave", shortcut="Esc", on_click=_end)
        stage(element.css_class if element else "", key="stage")


def _step_button(label: str, name: str, shortcut: str, shown: tuple[Element, ...], to: int) -> None:
    key = shown[to].key if 0 <= to < len(shown) else ""
    st.button(
        label, key=f"present-{name}", shortcut=shortcut, disabled=not key, on_click=_show, args=(key,),
        help=f"The {name} drawing of this page",
    )  # fmt: skip


def _show(key: str) -> None:
    state.go(state.page().path, replace(state.current(), only=key))


def _end() -> None:
    state.go(state.page().path, replace(state.current(), present=False, only=""))
