"""Form that opens a saved run, by its path or as an upload. Shown only where any model may be opened."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from attnviz.compute.view import View, always
from attnviz.config import ConfigError
from attnviz.session import openable
from attnviz.session.shared import NOBODY_CHOSE
from attnviz.ui import state
from attnviz.ui.problems import show_problem

FIELD, MESSAGE, OPEN, UPLOADS = "open-run-path", "open-run-message", "open-run-shown", "open-run-uploads"
MAX_UPLOAD = 200  # MB


@state.part(state.OPEN_RUN, always)
def open_run(view: View) -> None:
    """Expander with the form."""
    if not openable.may_choose():
        return
    with st.expander("Open a run", icon=":material/grid_on:", key=OPEN, on_change="rerun") as shown:
        if shown.open:
            _form()


def _form() -> None:
    with st.form("open-run-form", border=False):  # Enter in the field opens it
        st.text_input(
            "Path of a saved run", key=FIELD, placeholder="~/runs/bert.safetensors",
            help="A file that attnviz.save_run wrote: the attention weights and tokens of any model, and what else it "
            "recorded. AttnViz shows what is in it and runs no model.",
        )  # fmt: skip
        st.form_submit_button("Open this run", key="open-run-go", on_click=_take_path, width="stretch")
    uploader = f"open-run-file-{st.session_state.get(UPLOADS, 0)}"
    st.file_uploader(
        "Or choose its file", type="safetensors", key=uploader, max_upload_size=MAX_UPLOAD, on_change=_take_upload,
        args=(uploader,),
    )  # fmt: skip
    if message := st.session_state.pop(MESSAGE, ""):
        show_problem(message)


def _take_path() -> None:
    from attnviz.compute import recorded

    _open(lambda: recorded.name_of(st.session_state.get(FIELD, "")))


def _take_upload(key: str) -> None:
    from attnviz.compute import recorded

    if file := st.session_state.get(key):
        st.session_state[UPLOADS] = st.session_state.get(UPLOADS, 0) + 1  # an empty uploader, which holds no file
        _open(lambda: recorded.upload(file.name, file.getvalue()))


def _open(name_of: Callable[[], str]) -> None:
    """Select the run whose name this returns; show the reason if it cannot be opened."""
    if not openable.may_choose():
        return  # a browser can send an event of a form that was not drawn
    try:
        name = name_of()
    except ConfigError as error:
        st.session_state[MESSAGE] = str(error)
        state.rerun(state.OPEN_RUN)
        return
    openable.remember(name)
    st.session_state[OPEN] = False
    compared = state.current().other_model
    if not openable.is_run(compared) or compared == name:
        compared = openable.other_run(name) or compared
    state.change(model=name, other_model=compared, **NOBODY_CHOSE)
    state.rerun()
