"""What a person can do with the progress that their browser keeps: save it to a file, load one, delete it."""

from __future__ import annotations

import streamlit as st

from attnviz.figures.drawing import escaped
from attnviz.session.progress import MAX_BYTES
from attnviz.ui import progress, state

FILE = "attnviz-progress.json"
_UPLOADS, _MESSAGE = "progress uploads", "progress message"  # session keys
_DELETE = "delete-progress"  # of the popover: whether it is open
KEPT = (
    "Your progress stays in this browser: lessons, mistakes, questions, spoken answers, tasks, mock interviews. The "
    "server stores nothing. Save it to a file to take it to another browser; what is not finished, a set, an interview "
    "or code, is not in the file."
)


def keep() -> None:
    """Draw where the progress is, and the controls for it."""
    st.caption(progress.problem() or KEPT)
    with st.expander("Save, load or delete your progress", key="keep-progress"):
        st.download_button("Save to a file", progress.get().for_file().json(), FILE, "application/json")
        uploads = st.session_state.setdefault(_UPLOADS, 0)  # a new key after each upload makes the server drop the file
        st.file_uploader(
            "Load a file; it is added to your progress", type="json", key=_upload(uploads), on_change=_load
        )
        if message := st.session_state.pop(_MESSAGE, ""):
            st.warning(escaped(message))
        with st.popover("Delete", key=_DELETE, on_change="rerun"):
            st.markdown("This deletes all of it, here and in the browser. It cannot be undone.")
            st.button("Delete it", key="delete-progress-now", type="primary", on_click=_delete)


def _upload(uploads: int) -> str:
    return f"progress-file-{uploads}"


def _load() -> None:
    file = st.session_state[_upload(st.session_state[_UPLOADS])]
    if file is None:
        return
    st.session_state[_UPLOADS] += 1
    if problem := progress.take_file(file.read(MAX_BYTES + 1)):
        st.session_state[_MESSAGE] = f"This file cannot be loaded. {problem}"
    else:
        st.toast("The file is added to your progress.", icon=":material/upload_file:")
    state.redraw_progress()


def _delete() -> None:
    progress.forget()
    st.session_state[_DELETE] = False  # closes the popover
    st.toast("Your progress is deleted, here and in this browser.", icon=":material/delete:")
    state.redraw_progress()
