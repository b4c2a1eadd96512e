"""Form that opens a local folder or downloads a hub id. Shown only where any model may be opened."""

from __future__ import annotations

import sys

import streamlit as st

from attnviz.compute.view import View, always
from attnviz.config import ConfigError
from attnviz.figures.drawing import escaped
from attnviz.session import openable as allowed
from attnviz.session.shared import NOBODY_CHOSE
from attnviz.ui import state
from attnviz.ui.problems import show_problem

FIELD, PICKED, MESSAGE = "open-model-name", "open-model-picked", "open-model-message"
STARTED, OPEN = "open-model-started", "open-model-shown"
POLL_INTERVAL = 0.5  # seconds between two polls of a download


@state.part(state.OPEN_MODEL, always)
def open_model(view: View) -> None:
    """Expander with the form; drawn only when open, because listing the hub's cache imports huggingface_hub."""
    if not allowed.may_choose():
        return
    with st.expander("Open a model", icon=":material/folder_open:", key=OPEN, on_change="rerun") as shown:
        if shown.open:
            _form()


def _form() -> None:
    from attnviz.compute import opening

    cached = opening.cached_hub_ids()
    names = [*cached, *(name for name in allowed.SMALL if name not in cached)]
    st.selectbox(
        "Small models", names, index=None, key=PICKED, on_change=_take_picked, placeholder="Choose one, or type below",
        format_func=lambda name: f"{name} · {'downloaded' if name in cached else allowed.SMALL[name]}",
    )  # fmt: skip
    with st.form("open-model-form", border=False):  # Enter in the field opens it
        st.text_input(
            "Path of a folder, or hub id", key=FIELD, placeholder="~/models/smol or Qwen/Qwen3-0.6B",
            help="A folder in Hugging Face's layout: config.json, tokenizer.json, safetensors. Supported: Llama, "
            "Mistral, Qwen2, Qwen3, GPT-2, Gemma 2 and Gemma 3 (text).",
        )  # fmt: skip
        st.form_submit_button("Open this model", key="open-model-go", on_click=_open, width="stretch")
    if st.session_state.pop(STARTED, False):
        st.rerun()  # the whole page, to show the progress of the download
    if message := st.session_state.pop(MESSAGE, ""):
        show_problem(message)


def _take_picked() -> None:
    if st.session_state[PICKED]:
        st.session_state[FIELD] = st.session_state[PICKED]
    state.rerun(state.OPEN_MODEL)


def _open() -> None:
    """Open the chosen model, downloading it first if it is not on this machine."""
    from attnviz.compute import opening

    try:
        name = opening.resolved_name(st.session_state.get(FIELD, ""))
        if opening.is_cached_locally(name):
            _show(name)
            state.rerun()
            return
        opening.download(name)
        st.session_state[STARTED] = True
    except ConfigError as error:
        st.session_state[MESSAGE] = str(error)
    state.rerun(state.OPEN_MODEL)


def _show(name: str) -> None:
    """Select the model for the page. Raises ConfigError if it cannot be opened."""
    from attnviz.compute import opening

    opening.check(name)
    allowed.remember(name)
    st.session_state[OPEN] = False
    state.change(model=name, **NOBODY_CHOSE)


def download_progress() -> None:
    """Show the progress of a running download, polled twice per second."""
    opening = sys.modules.get("attnviz.compute.opening")  # not imported: nothing was ever downloaded
    if opening and allowed.may_choose() and opening.running():
        st.fragment(_progress, run_every=POLL_INTERVAL)()


def _progress() -> None:
    from attnviz.compute import opening

    running = opening.running()
    if running is None:
        return
    if running.running:
        share = min(running.received / running.size, 1.0) if running.size else 0.0
        size = (
            f"{running.received / 1e6:,.0f} of {running.size / 1e6:,.0f} MB" if running.size else "requesting its size"
        )
        st.progress(share, f"{escaped(running.name)}: {size}")
        st.button("Cancel the download", key="open-model-cancel", on_click=running.cancel, width="stretch")
        return
    opening.discard(running)
    try:
        if running.done:
            _show(running.name)
        else:
            st.session_state[MESSAGE] = running.problem
    except ConfigError as error:
        st.session_state[MESSAGE] = str(error)
    state.write_link()
    st.rerun()
