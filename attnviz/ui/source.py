"""The source of the attention that just ran, in a dialog."""

from __future__ import annotations

import inspect

import streamlit as st

from attnviz.compute.view import View


def source_button(view: View) -> None:
    """A button that opens the dialog."""
    if st.button("View source", icon=":material/code:", key="view-source"):
        _show(view.settings.model)


@st.dialog("The code that just ran", width="large")
def _show(model: str) -> None:
    st.code(_source(model), language="python")


def _source(model: str) -> str:
    """The source of the attention that runs, and of the function it calls."""
    from attnviz.modules import GroupedQueryAttention, MultiHeadLatentAttention, attend

    module = MultiHeadLatentAttention if model == "mla" else GroupedQueryAttention
    return inspect.getsource(module) + "\n\n" + inspect.getsource(attend)
