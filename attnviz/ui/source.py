"""The source of the attention that just ran, in a dialog."""

from __future__ import annotations

import streamlit as st

from attnviz.compute.view import View


def source_button(view: View) -> None:
    """A button that opens the dialog."""
    if st.button("View source", icon=":material/code:", key="view-source"):
        _show(view.settings.model)


@st.dialog("The code that just ran", width="large")
def _show(model: str) -> None:
    from attnviz.modules.sources import sources

    for name, source in sources(model).items():
        st.caption(f"modules/{name}")
        st.code(source, language="python", height=400)
