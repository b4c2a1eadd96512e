"""Frame of every page: sidebar, title, notices, then the page's own content. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import streamlit as st

from attnviz.compute.beyond_training import beyond_training, model_card, split_characters, trained_on
from attnviz.compute.view import View, always
from attnviz.figures.drawing import escaped
from attnviz.server.browser import workarounds
from attnviz.server.page_style import BASE, IN_HTML, LEFT, style
from attnviz.session import openable
from attnviz.session.kinds import MAX_CHARACTERS
from attnviz.session.pages import PAGES
from attnviz.ui import local_session, presenter, progress, state
from attnviz.ui.components import copy_link
from attnviz.ui.components.page_index import page_index
from attnviz.ui.components.tab_mark import tab_mark
from attnviz.ui.lesson_bar import lesson_bar, open_linked_step
from attnviz.ui.offer_checkpoint import offer
from attnviz.ui.problems import show_problem
from attnviz.ui.route_bar import open_linked_item, route_bar
from attnviz.ui.sidebar import on_narrow_screens, sidebar

ICON = Path(__file__).with_name("icon.svg")  # Streamlit's icons would be fetched from fonts.gstatic.com

openable.is_local = local_session.is_local_session  # attnviz.session must not import streamlit


def show_page(path: str) -> None:
    """Draw the page at this path: frame and content, whose module is imported only now."""
    page = PAGES[path]
    st.set_page_config(page_title=f"{page.name} · AttnViz", page_icon=ICON, layout="wide")
    state.follow(page)
    state.open_page(page)
    open_linked_step()
    open_linked_item()
    element, presented = state.alone(), state.current().present
    if not element:
        st.title(page.name)  # first, so that something is visible early
        if page.path and not presented:  # the overview is short, and itself the way to the others
            page_index(page)
    by_html = bool(IN_HTML and element and st.context.is_embedded and not presented)  # the page's HTML has the rules
    if rules := BASE * (not IN_HTML) + style(element, presented) * (not by_html):
        st.html(f"<style>{rules}</style>")
    if element:
        above = st.container()
        import_module(page.module)
        state.draw_part(page.module, element.part)  # without the page's columns and before the rest: each delays it
        with above:
            _workarounds(by_html)
            _bars_and_notices(presented)
        copy_link.copy_link()  # hidden here: it loads save.js, which saves pictures
        return
    _workarounds(by_html)
    if not presented:
        sidebar()
        on_narrow_screens()
    _bars_and_notices(presented)
    if state.take_link_tab():
        tab_mark()
    import_module(page.module).show()
    progress.store()


def _workarounds(by_html: bool) -> None:
    """Draw them; on an embedded page in the container that ends the HTML's rules, unless these are in force."""
    with nullcontext() if by_html or not st.context.is_embedded else st.container(key=LEFT):
        workarounds()


def _bars_and_notices(presented: bool) -> None:
    if presented:
        presenter.bar()
    lesson_bar()
    route_bar()
    _notices()


@state.part("notices", always)
def _notices(view: View) -> None:
    """Show unusable link values, problems with the text or model, and settings outside the model's training."""
    _warn(state.take_notices())
    page = state.page()
    if page.needs_text and not page.path and view.maps_ship:
        return  # the overview shows these maps before there is a model
    if problem := view.model_problem if page.needs_text else view.config_problem:
        show_problem(problem, f" {_instead(view.settings.model)} another model in the sidebar.")
    elif why := view.page_refusal(page):
        offer(why=why, place="offer-page")
    elif page.needs_text:
        _about_the_text(view)


def _instead(model: str) -> str:
    """Say what to do where a model or a saved run cannot be opened, as a sentence's beginning."""
    a_file = openable.is_run(model) and not openable.is_upload(model)  # of an upload, the problem says what to do
    return "Open another file with “Open a run”, or choose" if a_file and openable.may_choose() else "Choose"


def _warn(notices: Iterable[str]) -> None:
    for notice in notices:
        st.warning(escaped(notice), icon=":material/link_off:")


def _about_the_text(view: View) -> None:
    if view.text_problem:
        st.error(escaped(view.text_problem), icon=":material/error:")
        return
    if len(view.settings.text) > MAX_CHARACTERS:
        st.warning(f"The text has {len(view.settings.text):,} characters; only the first {MAX_CHARACTERS:,} are used.")
    if not view.ids:
        st.info("There is no text yet. Type one into the text box, or choose an example.", icon=":material/edit:")
        return
    if view.cut_notice:
        st.warning(escaped(view.cut_notice), icon=":material/content_cut:")
    _warn(view.link_notices(state.take_link_selection()))
    _beyond_training(view)


def _beyond_training(view: View) -> None:
    """Warn, with the model card, if a trained model runs with settings or on a text that it was not trained with."""
    split = [notice for notice in (split_characters(view.spans),) if notice]
    if view.trained_config is None:
        if split:
            st.info(*split, icon=":material/translate:")
        return
    if view.settings.opened:
        if differs := beyond_training(view.trained_config, view.config, None, len(view.ids)) + split:
            st.warning(" ".join(differs), icon=":material/model_training:")
        return
    if differs := beyond_training(view.trained_config, view.config, view.shown_text, len(view.ids)) + split:
        with st.container(horizontal=True, vertical_alignment="center"):
            message = " ".join([*differs, trained_on(view.trained_config)])
            st.warning(message, icon=":material/model_training:", width="stretch")
            st.popover("Model card", width="content").markdown(model_card())
