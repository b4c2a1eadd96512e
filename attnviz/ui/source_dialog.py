"""Dialog with the source of the attention that just ran."""

from __future__ import annotations

import streamlit as st

from attnviz.compute.view import View
from attnviz.ui import state


def source_button(view: View) -> None:
    """Button that opens the dialog."""
    if st.button("View source", icon=":material/code:", key="view-source"):
        _show("attention.py" if view.config_problem else view.mixer.source, state.page().path == "decode")


@st.dialog("The code that just ran", width="large")
def _show(file: str, decoding: bool) -> None:
    """Show the modules' source; on the Decode page, the decoding code first."""
    from attnviz.modules.sources import sources

    if decoding:
        from attnviz.compute import decode

        for name, source in decode.sources().items():
            st.caption(f"decode/{name}")
            st.code(source, language="python", height=400)
    for name, source in sources(file).items():
        st.caption(f"modules/{name}")
        st.code(source, language="python", height=400)
