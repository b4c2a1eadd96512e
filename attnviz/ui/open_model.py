"""Open a model: a folder of one's own machine, or a hub id with its download. Drawn only where any may be opened."""

from __future__ import annotations

import sys

import streamlit as st

from attnviz.compute.view import View, anything
from attnviz.config import ConfigError
from attnviz.figures.drawing import escaped
from attnviz.session import opening as allowed
from attnviz.ui import state

FIELD, PICKED, SAID = "open-model-name", "open-model-picked", "open-model-said"
STARTED, OPEN = "open-model-started", "open-model-shown"
EVERY = 0.5  # seconds from one look at a download to the next


@state.part(state.OPEN_MODEL, anything)
def open_model(view: View) -> None:
    """What opens a model, closed until it is wanted: looking into the hub's cache takes its library."""
    if not allowed.may_choose():
        return
    with st.expander("Open a model", icon=":material/folder_open:", key=OPEN, on_change="rerun") as shown:
        if shown.open:
            _form()


def _form() -> None:
    from attnviz.compute import opening

    st.text_input(
        "Path of a folder, or hub id", key=FIELD, placeholder="~/models/smol or Qwen/Qwen3-0.6B",
        help="A folder in Hugging Face's layout: config.json, tokenizer.json, safetensors. Llama, Mistral, Qwen2, "
        "Qwen3, GPT-2, Gemma 2 and Gemma 3 (text) run here.",
    )  # fmt: skip
    here = opening.in_the_cache()
    names = [*here, *(name for name in allowed.SMALL if name not in here)]
    st.selectbox(
        "Or one of these", names, index=None, key=PICKED, on_change=_take_picked, placeholder="Small models",
        format_func=lambda name: f"{name} · {'downloaded' if name in here else allowed.SMALL[name]}",
    )  # fmt: skip
    st.button("Open this model", key="open-model-go", on_click=_open, width="stretch")
    if st.session_state.pop(STARTED, False):
        st.rerun()  # all of the page, with the progress of the download
    if said := st.session_state.pop(SAID, ""):
        st.error(escaped(said), icon=":material/error:")


def _take_picked() -> None:
    if st.session_state[PICKED]:
        st.session_state[FIELD] = st.session_state[PICKED]
    state.rerun(state.OPEN_MODEL)


def _open() -> None:
    """Open what is here at once, and download what is not."""
    from attnviz.compute import opening

    try:
        name = opening.chosen(st.session_state.get(FIELD, ""))
        if opening.is_here(name):
            _show(name)
            state.rerun()
            return
        opening.download(name)
        st.session_state[STARTED] = True
    except ConfigError as error:
        st.session_state[SAID] = str(error)
    state.rerun(state.OPEN_MODEL)


def _show(name: str) -> None:
    """Give the page to a model that can be opened. ConfigError for one that cannot."""
    from attnviz.compute import opening

    opening.check(name)
    allowed.remember(name)
    st.session_state[OPEN] = False
    state.change(model=name, layer=0, head=0)


def download_progress() -> None:
    """How far a download is, looked at twice per second while there is one."""
    opening = sys.modules.get("attnviz.compute.opening")  # or nothing was ever downloaded
    if opening and allowed.may_choose() and opening.running():
        st.fragment(_progress, run_every=EVERY)()


def _progress() -> None:
    from attnviz.compute import opening

    found = opening.running()
    if found is None:
        return
    if found.running:
        share = min(found.there / found.size, 1.0) if found.size else 0.0
        size = f"{found.there / 1e6:,.0f} of {found.size / 1e6:,.0f} MB" if found.size else "asking for its size"
        st.progress(share, f"{escaped(found.name)}: {size}")
        st.button("Cancel the download", key="open-model-cancel", on_click=found.cancel, width="stretch")
        return
    opening.seen(found)
    try:
        if found.done:
            _show(found.name)
        else:
            st.session_state[SAID] = found.problem
    except ConfigError as error:
        st.session_state[SAID] = str(error)
    state.write_link()
    st.rerun()
