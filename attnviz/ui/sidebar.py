"""The sidebar: links to the pages, the text, the model, and how it runs. Streamlit's own controls."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import streamlit as st

from attnviz.compute.view import View, anything
from attnviz.config import divisors
from attnviz.session.examples import EXAMPLES
from attnviz.session.pages import ALL
from attnviz.session.settings import MODEL_NAMES, MODELS, Number, Settings, kind_of, widths
from attnviz.ui import state
from attnviz.ui.components.copy_link import copy_link
from attnviz.ui.source import source_button


def sidebar() -> None:
    """All of it."""
    with st.sidebar:
        _links()
        _controls()
        copy_link()


@state.part(state.LINKS, anything)
def _links(view: View) -> None:
    """Links to the pages carry the settings, also into a new tab."""
    st.markdown("### AttnViz")
    link = view.settings.to_link()
    for page in ALL:
        st.page_link(page.file, label=page.name, width="stretch", query_params=link)


@state.part(state.CONTROLS, anything)
def _controls(view: View) -> None:
    s = view.settings
    _text()
    _select("Model", "model", MODELS, format_func=_model)
    if s.model == "own":
        _own_model(s)
    with st.expander("Mask and position settings"):
        _mask(s)
    source_button(view)


def _text() -> None:
    _control(st.text_area, "Text", "text", height=124, placeholder="Type anything, in any script …")
    st.button("Apply", key="apply-text", help="Or press Ctrl + Enter in the text.")  # leaving the box applies it
    st.pills("Examples", list(EXAMPLES), key="example", on_change=_take_example)


def _take_example() -> None:
    chosen = st.session_state["example"]
    st.session_state["example"] = None
    if chosen:
        from attnviz.compute import examples  # with torch, which the sidebar does not wait for

        state.change(**examples.chosen(state.current(), chosen))
        state.rerun()


def _own_model(s: Settings) -> None:
    _slider("Layers", "n_layers")
    _slider("Query heads", "n_heads")
    _steps("KV heads", "n_kv_heads", divisors(s.n_heads))
    _steps("d_model", "d_model", widths(s.n_heads))
    seed = kind_of("seed")
    assert isinstance(seed, Number)
    _control(st.number_input, "Seed", "seed", min_value=seed.low, max_value=seed.high, step=1)
    _control(st.checkbox, "Bias on q, k and v", "qkv_bias")


def _mask(s: Settings) -> None:
    _control(st.checkbox, "Causal: no token attends to a later one", "causal")
    _slider("Sliding window, in tokens (0: none)", "window")
    _slider(
        "Attention-sink tokens", "n_sinks",
        help="First tokens that stay visible behind the window (StreamingLLM, arXiv 2309.17453).",
    )  # fmt: skip
    _control(st.checkbox, "RoPE", "rope")
    if s.model != "own":
        st.caption("The checkpoints were trained causal, without a window, with RoPE.")


def _slider(label: str, field: str, **options: object) -> None:
    kind = kind_of(field)
    assert isinstance(kind, Number)
    _control(st.slider, label, field, min_value=int(kind.low), max_value=int(kind.high), **options)


def _steps(label: str, field: str, possible: Iterable[int]) -> None:
    """A slider over the values that go with the number of query heads; none where that is one value."""
    values = sorted(possible)
    if len(values) > 1:
        _control(st.select_slider, label, field, options=values)


def _select(label: str, field: str, options: Iterable[str], format_func: Callable[[str], str]) -> None:
    _control(st.selectbox, label, field, options=options, format_func=format_func)


def _control(widget: Callable, label: str, field: str, **options: object) -> None:
    """All of the page follows what is set here."""
    state.control(widget, label, field, reruns=(), **options)


def _model(name: str) -> str:
    return f"{MODEL_NAMES[name]} · {'untrained' if name == 'own' else 'trained'}"
