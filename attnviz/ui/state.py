"""The current settings, held in the session and mirrored in the address, and the parts of a page that run alone.

The settings live under one permanent key of the session, not under the widgets' keys, which Streamlit drops with the
page that showed them. The address says what is current; whoever opens an address gets what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.compute.queue import PARTS, TELL
from attnviz.compute.view import View, drawable
from attnviz.session.elements import ELEMENTS, Element, drawings, on_page
from attnviz.session.pages import PAGES, Page
from attnviz.session.settings import SELECTION, Settings

_SETTINGS, _NOTICES, _ASKED = "settings", "notices", "asked selection"
_DRAWN, _PAGE = "parts drawn", "page"
_GOING = "going to"  # the path of a page, until it is open
CONTROLS, NARROW, OPEN_MODEL = "controls", "narrow", "open-model"  # what chooses the text, the model and how it runs
LINKS = "links"  # a part of the sidebar, like CONTROLS
LESSON, PRESENTER = "lesson", "presenter"  # the parts at the bottom: the step of a lesson, the presenter's bar
CHOICES = (CONTROLS, NARROW, OPEN_MODEL)
WORDS = ("notices", "top")  # said above the drawings, and sent after them
SHOWN_BY_CHOICES = ("text", "model", "n_heads", "attention")  # settings that other controls show, or depend on
_HERE: ContextVar[str] = ContextVar("part")  # the part that is being drawn


def current() -> Settings:
    """Return the current settings."""
    return st.session_state.get(_SETTINGS) or Settings()


def change(**fields: Any) -> None:
    """Change some of the settings; called from widgets' callbacks. The part that runs then writes the address.

    What a model has written belongs to its text: another text, or another model, begins anew.
    """
    if {"text", "model"} & fields.keys():
        fields = {"written": (), "shown": -1, **fields}
    st.session_state[_SETTINGS] = replace(current(), **fields).normalised()


# ---- the address


def open_page(page: Page) -> None:
    """Take the settings from the address, and keep a sentence for each value that could not be used.

    Where the address has the current settings already, the session's settings stay: they may hold a text longer than an
    address can carry. They stay on the way to another page, too, where a link may not say yet what was set just before
    it was clicked; not by Back and Forward, and not where the link leads to a step of a lesson.
    """
    to_another = st.session_state.get(_PAGE, page.path) != page.path and not _by_history()
    st.session_state[_PAGE], st.session_state[_DRAWN] = page.path, []
    link = st.query_params.to_dict()
    to_another = to_another and _step_of(link) in (("", "1"), _step_of(current().to_link()))
    if _SETTINGS not in st.session_state or (link != current().to_link() and not to_another):
        st.session_state[_SETTINGS], st.session_state[_NOTICES] = Settings.from_link(link, page)
        st.session_state[_ASKED] = {name: link[name] for name in SELECTION if name in link}
    _only_what_is_there(page)


def _step_of(link: Mapping[str, str]) -> tuple[str, str]:
    """The lesson and the step that a link leads to."""
    return link.get("lesson", ""), link.get("lesson_step", "1")


def _only_what_is_there(page: Page) -> None:
    """Show all of the page where it does not have the element that the link asks for alone."""
    s = current()
    if s.only and s.only not in {element.key for element in on_page(page.path, s.tab)}:
        if not s.present:
            said = f"{page.name} does not show “{s.only}” with these settings; all of the page is shown."
            st.session_state.setdefault(_NOTICES, []).append(said)
        change(only="")


def alone() -> Element | None:
    """The element that is shown alone: the one asked for; in presenting, the page's first drawing otherwise."""
    s = current()
    if s.only:
        return ELEMENTS[s.only]
    there = drawings(page().path, s.tab) if s.present else ()
    return there[0] if there else None


def go(path: str, settings: Settings) -> None:
    """From a callback: open a page with these settings."""
    st.session_state[_SETTINGS], st.session_state[_GOING] = settings, path
    st.rerun()  # all of the page, which leaves for the other one


def follow(page: Page) -> None:
    """Open the page that a callback asked for; called before anything is drawn on this one."""
    path = st.session_state.pop(_GOING, None)
    if path == page.path:
        write_link()  # or the address, which is still that of before, would be taken for what is wanted
    elif path is not None:
        st.switch_page(PAGES[path].file, query_params=current().to_link())


def _by_history() -> bool:
    """Whether Back or Forward brought this run."""
    run = get_script_run_ctx()
    return run is not None and run.is_history_navigation


def write_link() -> None:
    """Write the current settings to the address; not to that of a page that is about to be left for another."""
    if _GOING in st.session_state:
        return
    link = current().to_link()
    if st.query_params.to_dict() != link:
        st.query_params.from_dict(link)


def take_notices() -> list[str]:
    """What of the link could not be used; said once."""
    return st.session_state.pop(_NOTICES, [])


def take_asked() -> dict[str, str]:
    """The layer, head, query and key that the link asked for, in its words; given once."""
    return st.session_state.pop(_ASKED, {})


def file_name(part: str) -> str:
    """What a file of this part is called: the page, the part, the model; as in `components/save.js`."""
    name = page().path.replace("_", "-") or "overview"
    return f"attnviz-{name}-{part}-{current().model_name}"


# ---- parts


def page() -> Page:
    """The page that is open."""
    return PAGES[st.session_state.get(_PAGE, "")]


def part(key: str, needs: Callable[[View], bool] = drawable) -> Callable[[Callable[[View], None]], Callable[[], None]]:
    """A part of a page that runs alone: a fragment that draws `body(view)` from the current settings.

    Parts stand side by side and are not nested. needs: what has to be there to draw it; the page's top says what is
    missing.
    """

    def decorate(body: Callable[[View], None]) -> Callable[[], None]:
        @st.fragment(key=key)
        @wraps(body)
        def run() -> None:
            drawn = st.session_state.setdefault(_DRAWN, [])
            if key not in drawn:
                drawn.append(key)
            _HERE.set(key)
            said = st.empty()
            token = TELL.set(lambda before: _say(said, before))
            try:
                with PARTS.turn():
                    view = View(current())
                    if needs(view):
                        body(view)
                write_link()
            finally:
                TELL.reset(token)

        @wraps(body)
        def run_if_wanted() -> None:
            if _wanted(key):
                run()

        return run_if_wanted

    return decorate


def _wanted(key: str) -> bool:
    """Whether the part is drawn: where one element is shown alone, only the part that has it."""
    element = alone()
    return element is None or key in (element.part, LESSON, PRESENTER, "notices")


def _say(place: Any, before: int) -> None:
    """Say how many runs are before this one; nothing any more once it runs."""
    if not before:
        place.empty()
        return
    place.caption(f":material/hourglass_empty: {before} {'run is' if before == 1 else 'runs are'} before yours …")


def rerun(*parts: str, sidebar: bool = True) -> None:
    """From a callback: run these parts again, or all of the page, and last the links, which carry the settings.

    sidebar: whether the controls that choose text and model change too, where all of the page runs again.
    """
    drawn = st.session_state.get(_DRAWN, [])
    asked = parts or [key for key in drawn if sidebar or key not in CHOICES]
    wanted = [key for key in drawn if key in asked and key not in (*CHOICES, LINKS)]
    wanted.sort(key=WORDS.__contains__)
    if LESSON in drawn and LESSON not in wanted:
        wanted.append(LESSON)  # it says whether the settings are still those of the step
    try:
        st.rerun([*wanted, *(key for key in drawn if key in CHOICES and key in asked), *({LINKS} & set(drawn))])
    except StreamlitAPIException:  # one of them is not on this page, or not drawn yet
        st.rerun()


# ---- widgets


def tabs(view: View, label: str, *, quiet: bool = False) -> str:
    """Choose which of the page's parts is open, and say which is. quiet: the label stands above already."""
    tab = page().open_tab(view.settings.tab)
    names = _in_its_group(tab)
    control(
        st.segmented_control, label, "tab", shown=tab, options=list(names), format_func=names.__getitem__,
        required=True, label_visibility="collapsed" if quiet or page().groups else "visible",
    )  # fmt: skip
    return tab


def _in_its_group(tab: str) -> dict[str, str]:
    """The tabs offered beside this one, {value in links: name}: those of its group, which is chosen above."""
    names, groups = page().tabs, page().groups
    if not groups:
        return dict(names)
    group = next(name for name, tabs_ in groups.items() if tab in tabs_)
    st.session_state["control-group"] = group
    st.segmented_control(
        "Look closer", list(groups), key="control-group", required=True, on_change=_take_group, args=(_HERE.get(),)
    )
    return {name: names[name] for name in groups[group]}


def _take_group(part: str) -> None:
    change(tab=page().groups[st.session_state["control-group"]][0])
    rerun(part)


def control(
    widget: Callable[..., Any],
    label: str,
    field: str,
    *,
    shown: object = None,
    reruns: Sequence[str] | None = None,
    place: str = "",
    then: Callable[[], object] | None = None,
    **options: Any,
) -> Any:
    """A widget for one field of the settings: `control(st.slider, "Layers", "n_layers", min_value=1, …)`.

    shown: what it stands at where the field's own value is not among what is offered just now.
    reruns: the parts that show the field; by default the one that the widget stands in; () for all of the page.
    place: where there is a second widget for the same field. then: called once the field is changed.
    """
    key = f"control-{place}{field}"
    value = getattr(current(), field) if shown is None else shown
    st.session_state[key] = list(value) if isinstance(value, tuple) else value  # as the browser will send it back
    parts = [_HERE.get()] if reruns is None else reruns
    return widget(label, key=key, on_change=_take, args=(field, key, parts, then), **options)


def _take(field: str, key: str, reruns: Sequence[str], then: Callable[[], object] | None) -> None:
    change(**{field: st.session_state[key]})
    if then:
        then()
    rerun(*reruns, sidebar=field in SHOWN_BY_CHOICES)
