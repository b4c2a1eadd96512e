"""Current settings, stored in the session and mirrored in the URL, and the fragments ("parts") of a page.

The settings live under one permanent session key, not under the widgets' keys, which Streamlit drops with the page
that showed them. The URL always contains the current settings; opening a URL restores them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitAPIException

from attnviz.compute import choices
from attnviz.compute.queue import FRAGMENT_SEMAPHORE, ON_WAIT, Interrupted
from attnviz.compute.view import View, always, drawable
from attnviz.server.history import is_by_history
from attnviz.server.preempt import run_after
from attnviz.session import openable
from attnviz.session.page import Element, Page
from attnviz.session.pages import ELEMENTS, PAGES
from attnviz.session.settings import Settings
from attnviz.session.shared import DEFAULT_TEXT, SELECTION

_SETTINGS, _NOTICES, _LINK_SELECTION = "settings", "notices", "asked selection"  # session keys, as those below
_LINK_TAB, _LINK_LESSON = "link to a tab", "link to a lesson"
_NO_TEXT = "no text chosen"  # True while each page shows its own text or the default one
_HANDED_OVER = "handed over"  # True if a callback chose the settings of the page that opens next
_LINKED = "settings in the URL"  # the object, so that each part of a run need not write its link to compare them
_DRAWN, _PAGE = "parts drawn", "page"
_INTERRUPTED = "parts interrupted"  # those that a request has interrupted, and that no run has drawn since
_BEFORE_LESSON, _LEFT_LESSON = "before lesson", "left lesson"  # settings before the lesson; whether it was left since
_UNSENT, _FOLLOWERS = "progress unsent", "parts with progress"  # whether STORE has to run; (page, part) of each
_TARGET_PAGE = "going to"  # the path of the page to switch to, until it is open
# parts that set text, model, mask and position
CONTROLS, NARROW, OPEN_MODEL, OPEN_RUN = "controls", "narrow", "open-model", "open-run"
LINKS = "links"  # a part of the sidebar, like CONTROLS
STORE = "progress-store"  # a part that keeps the progress in the browser, and draws nothing
LESSON, PRESENTER, ROUTE = "lesson", "presenter", "route"  # parts at the bottom: bars
CONTROL_PARTS = (CONTROLS, NARROW, OPEN_MODEL, OPEN_RUN)
TEXT_PARTS = ("notices", "top")  # text above the drawings; rerun after them, so that the drawings come first
FIELDS_OF_CONTROLS = (
    "text",
    "model",
    "run_kind",
    "n_heads",
    "attention",
)  # settings that other controls show or depend on
_CURRENT_PART: ContextVar[str] = ContextVar("part")  # the part that is being drawn
_PARTS: dict[tuple[str, str], Callable[[], None]] = {}  # all parts by their module and key


def current() -> Settings:
    """Return the current settings."""
    return st.session_state.get(_SETTINGS) or Settings()


def change(**fields: Any) -> None:
    """Change some of the settings, from a widget's callback; the part that reruns then writes the URL."""
    st.session_state[_SETTINGS] = changed(**fields)


def changed(**fields: Any) -> Settings:
    """Return the current settings with these changed, and with what follows from that."""
    if "text" in fields:
        st.session_state[_NO_TEXT] = False
    return choices.changed(View(current(), padded=page().path == "heads"), **fields)


# ---- the URL


def open_page(page: Page) -> None:
    """Read the settings from the URL, and store a notice for each value that could not be used.

    The session's settings win if the URL already matches them, since they may contain a text too long for a URL. They
    also win when a link leads to another page, because it may predate the latest change; but not for Back and Forward,
    nor for a link to a lesson step.
    """
    to_another = st.session_state.get(_PAGE, page.path) != page.path and not is_by_history()
    st.session_state[_PAGE], st.session_state[_DRAWN], st.session_state[_LINKED] = page.path, [], None
    st.session_state[_INTERRUPTED] = []
    link = st.query_params.to_dict()
    to_another = to_another and _step_of(link) in (("", "1"), _step_of(current().to_link()))
    first = _SETTINGS not in st.session_state
    if first or (link != current().to_link() and not to_another):
        before = current()
        st.session_state[_SETTINGS], st.session_state[_NOTICES] = Settings.from_link(link or _started_with(), page)
        _remember_before_lesson(before)
        st.session_state[_LINK_SELECTION] = {name: link[name] for name in SELECTION if name in link}
        if first or not link or link.get("text", page.text) != page.text:
            st.session_state[_NO_TEXT] = not link
    if not st.session_state.pop(_HANDED_OVER, False):
        st.session_state[_SETTINGS] = settings_on(page)
    elif current().text != DEFAULT_TEXT:
        st.session_state[_NO_TEXT] = False  # a page goes on with the text of another one
    st.session_state[_LINK_TAB] = first and current().tab in page.tabs and not (current().lesson or current().route)
    bare = not page.path and link.keys() <= {"lesson", "lesson_step", "present", "route", "route_item", "route_run"}
    st.session_state[_LINK_LESSON] = first and bare and bool(current().lesson or current().route)
    _drop_missing_element(page)


def _started_with() -> dict[str, str]:
    """Return what a bare address opens: the saved run that the app was started with, if any, or the defaults."""
    name = openable.started_with()
    return {"model": name, "selection": "auto"} if name else {}


def settings_on(page: Page) -> Settings:
    """Return the settings with which a link in the app opens this page."""
    return choices.with_text_of(page, current()) if st.session_state.get(_NO_TEXT) else current()


def _remember_before_lesson(before: Settings) -> None:
    """Store the settings before a lesson; those before an earlier one if nobody has chosen between them since."""
    if current().lesson and not before.lesson and not st.session_state.pop(_LEFT_LESSON, False):
        st.session_state[_BEFORE_LESSON] = before


def leave_lesson() -> Settings:
    """Return the settings without the lesson, from a callback, and offer those before it."""
    st.session_state[_LEFT_LESSON] = True
    return replace(current(), lesson="", lesson_step=1)


def settings_before_lesson() -> Settings | None:
    """Return the settings before the lesson that was left, with the open tab; None if nothing has to be chosen.

    They are the defaults where the lesson was the first that this session opened.
    """
    now = current()
    if now.lesson or not st.session_state.get(_LEFT_LESSON):
        return None
    before = replace(st.session_state.get(_BEFORE_LESSON, Settings()), tab=now.tab, only=now.only, present=now.present)
    return None if before == now else before


def forget_lesson() -> None:
    """Keep the settings as they are: no longer offer those before the lesson."""
    st.session_state.pop(_LEFT_LESSON, None)


def _step_of(link: Mapping[str, str]) -> tuple[str, str]:
    """Return the lesson and the step that a link opens."""
    return link.get("lesson", ""), link.get("lesson_step", "1")


def _drop_missing_element(page: Page) -> None:
    """Open the tab of the single element that the link selects; show the whole page if it lacks the element."""
    s = current()
    if s.only and s.only not in {element.key for element in page.shown(s.tab)}:
        if s.only in page.keys:
            change(tab=ELEMENTS[s.only].tab)
            return
        if not s.present:
            notice = f"{page.name} does not show “{s.only}” with these settings; the whole page is shown instead."
            st.session_state.setdefault(_NOTICES, []).append(notice)
        change(only="")


def alone() -> Element | None:
    """Return the element that is shown alone: the one in the link or, while presenting, the page's first drawing.

    A lesson step without a drawing, such as one on a slider, is presented with its whole page.
    """
    s = current()
    if s.only:
        return ELEMENTS[s.only]
    shown = page().drawings(s.tab) if s.present and not s.lesson else ()
    return shown[0] if shown else None


def go(path: str, settings: Settings) -> None:
    """Open a page with these settings, from a callback; the whole page if it lacks the element shown alone."""
    if settings.only and settings.only not in PAGES[path].keys:
        settings = replace(settings, only="")  # here: a second change of the URL would be a second entry for Back
    st.session_state[_SETTINGS], st.session_state[_TARGET_PAGE] = settings, path
    st.rerun()  # of the whole page: `follow` then switches to the other one


def follow(page: Page) -> None:
    """Switch to the page that a callback passed to `go`; called before anything is drawn on this one."""
    path = st.session_state.pop(_TARGET_PAGE, None)
    if path == page.path:
        write_link()  # otherwise `open_page` would restore the settings of the old URL
    elif path is not None:
        st.session_state[_HANDED_OVER] = True
        st.switch_page(PAGES[path].file, query_params=current().to_link())


def write_link() -> None:
    """Write the current settings to the URL, unless a switch to another page is pending."""
    settings = current()
    if st.session_state.get(_LINKED) is settings or _TARGET_PAGE in st.session_state:
        return
    link = settings.to_link()
    if st.query_params.to_dict() != link:
        st.query_params.from_dict(link)
    st.session_state[_LINKED] = settings


def take_notices() -> list[str]:
    """Return and clear the notices about unusable values of the link."""
    return st.session_state.pop(_NOTICES, [])


def take_link_selection() -> dict[str, str]:
    """Return and clear the layer, head, query and key of the link, as written there."""
    return st.session_state.pop(_LINK_SELECTION, {})


def take_link_tab() -> bool:
    """Check once whether the link that began the session opens one of the page's tabs, outside lessons and routes."""
    return st.session_state.pop(_LINK_TAB, False)


def take_link_lesson() -> bool:
    """Check once whether the link that began the session names only a lesson or route: /?lesson=one-head&present=1."""
    return st.session_state.pop(_LINK_LESSON, False)


def file_name(part: str) -> str:
    """Return the download name for this part: page, part and model; as in `components/save.js`."""
    name = page().path.replace("_", "-") or "overview"
    return re.sub(r"[^\w-]", "", f"attnviz-{name}-{part}-{openable.short_name(current().model)}")


# ---- parts


def page() -> Page:
    """Return the open page."""
    return PAGES[st.session_state.get(_PAGE, "")]


def part(key: str, needs: Callable[[View], bool] = drawable) -> Callable[[Callable[[View], None]], Callable[[], None]]:
    """Decorate `body(view)` as a fragment that draws from the current settings and reruns independently.

    Parts are not nested. needs: predicate that must hold for the part to be drawn; the notices say what is missing, or
    why the model, or a saved run, cannot show this page.
    A part that a request has interrupted is drawn again after the run of that request, unless that run draws it.
    """

    def decorate(body: Callable[[View], None]) -> Callable[[], None]:
        @st.fragment(key=key)
        @wraps(body)
        def run() -> None:
            drawn = st.session_state.setdefault(_DRAWN, [])
            if key not in drawn:
                drawn.append(key)
            interrupted = st.session_state.setdefault(_INTERRUPTED, [])
            if key in interrupted:
                interrupted.remove(key)
            _CURRENT_PART.set(key)
            place = st.empty()
            token = ON_WAIT.set(lambda before: _show_queue_position(place, before))
            try:
                with FRAGMENT_SEMAPHORE.slot():
                    view = View(current())
                    if needs(view) and (needs is always or not view.page_refusal(page())):
                        body(view)
                write_link()
            except Interrupted:
                interrupted.append(key)
            finally:
                ON_WAIT.reset(token)
            if key == STORE:
                st.session_state[_UNSENT] = False
            if left := [*interrupted, *_unsent()]:
                run_after(left)

        _PARTS[body.__module__, key] = run
        return run

    return decorate


def drawn_part() -> str:
    """Return the key of the part that is being drawn."""
    return _CURRENT_PART.get()


def draw_part(module: str, key: str) -> None:
    """Draw one part of the page in this module, which has been imported, or in one of those named after it."""
    places = [place for place in _PARTS if place[1] == key and f"{place[0]}_".startswith(f"{module}_")]
    _PARTS[min(places)]()


def _show_queue_position(place: DeltaGenerator, before: int) -> None:
    """Show how many runs are ahead of this one in the queue; clear the message once it runs."""
    if not before:
        place.empty()
        return
    place.caption(f":material/hourglass_empty: Waiting: {before} {'run is' if before == 1 else 'runs are'} ahead …")


def rerun(*parts: str, sidebar: bool = True) -> None:
    """Rerun these parts, or all parts of the page, from a callback; then the links, which carry the settings.

    sidebar: whether a rerun of all parts includes the controls for text and model.
    """
    drawn = st.session_state.get(_DRAWN, [])
    requested = parts or [key for key in drawn if sidebar or key not in CONTROL_PARTS]
    page_parts = [key for key in drawn if key in requested and key not in (*CONTROL_PARTS, LINKS)]
    page_parts.sort(key=TEXT_PARTS.__contains__)
    bars = [key for key in (LESSON, ROUTE) if key in drawn and key not in page_parts]
    page_parts += bars  # they show whether the settings are still those of the step or the item
    control_parts = [key for key in drawn if key in CONTROL_PARTS and key in requested]
    # Bars record progress while they are drawn. It is stored at the end of this run, as another run would end this
    # one before the browser has removed what is no longer drawn.
    sent = [STORE] if bars and STORE in drawn else _unsent()
    _rerun([*page_parts, *control_parts, *({LINKS} & set(drawn)), *sent])


def _rerun(parts: list[str]) -> None:
    """Rerun these parts; the whole page if another callback is to leave it, since a run of parts would replace that."""
    if _TARGET_PAGE in st.session_state:
        st.rerun()
    try:
        st.rerun(list(dict.fromkeys(parts)))
    except StreamlitAPIException:  # one of them is not on this page, or not drawn yet
        st.rerun()


# ---- progress


def progress_changed() -> None:
    """Let the part that keeps the progress run after the parts that run now."""
    st.session_state[_UNSENT] = True


def follow_progress() -> None:
    """Let the part that is being drawn be drawn again by `redraw_progress`."""
    if key := _CURRENT_PART.get(""):
        st.session_state.setdefault(_FOLLOWERS, set()).add((page().path, key))


def redraw_progress() -> None:
    """Rerun the parts that show the progress, from a callback."""
    drawn, followers = st.session_state.get(_DRAWN, []), st.session_state.get(_FOLLOWERS, ())
    _rerun([key for key in drawn if key == STORE or (page().path, key) in followers])


def _unsent() -> list[str]:
    """Return the part that keeps the progress, if this has changed since it ran and it is on the page."""
    return [STORE] * (st.session_state.get(_UNSENT, False) and STORE in st.session_state.get(_DRAWN, []))
