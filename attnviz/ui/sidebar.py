"""The sidebar: links to the pages, the text, the model, and how it runs. Streamlit's own controls.

A phone's sidebar covers the page. There, text and model stand on the page itself (`on_narrow_screens`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import streamlit as st

from attnviz.compute.view import View, anything
from attnviz.config import divisors
from attnviz.figures.drawing import escaped
from attnviz.session.examples import EXAMPLES
from attnviz.session.opening import offered, short_name
from attnviz.session.pages import ALL
from attnviz.session.settings import MODEL_NAMES, MODELS, Number, Settings, kind_of, widths
from attnviz.ui import state
from attnviz.ui.alone import present_button
from attnviz.ui.components.copy_link import copy_link
from attnviz.ui.components.early import early
from attnviz.ui.open_model import download_progress, open_model
from attnviz.ui.source import source_button

ATTENTIONS = {"gqa": "MHA, GQA or MQA", "mla": "MLA"}  # the first by the number of KV heads
NARROW_OPEN = "narrow-open"
SHOWN = 40  # characters of the text


def sidebar() -> None:
    """All of it."""
    with st.sidebar:
        early()
        _links()
        _controls()
        open_model()
        download_progress()
        copy_link()
        present_button()


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
    with st.container(key="sidebar-text"):
        _text()
    _select("Model", "model", _models(s), format_func=_model)
    if s.model == "own":
        _own_model(s)
    with st.expander("Mask and position settings"):
        _mask(s)
    source_button(view)


@state.part(state.NARROW, anything)
def on_narrow_screens(view: View) -> None:
    """The text and the model that are shown, and behind them what changes both; style.css hides it on wide screens."""
    s = view.settings
    said = [_beginning(s.text)] * state.page().needs_text + [s.model_name]
    with (
        st.container(key="narrow"),
        st.expander(" · ".join(said), key=NARROW_OPEN, on_change="rerun", icon=":material/edit:") as opened,
    ):
        if opened.open:
            if state.page().needs_text:
                _text("narrow-", _close)
            _control(
                st.selectbox, "Model", "model", options=_models(s), format_func=_model, place="narrow-", then=_close
            )
            st.caption("Everything else is in the sidebar, behind “»” above.")


def _close() -> None:
    """So that the page, which changes, is in sight."""
    st.session_state[NARROW_OPEN] = False


def _beginning(text: str) -> str:
    one_line = " ".join(text.split())
    return f"“{escaped(one_line[:SHOWN])}{'…' * (len(one_line) > SHOWN)}”" if one_line else "No text"


def _text(place: str = "", then: Callable[[], object] = lambda: None) -> None:
    """The text, and examples. then: called when one is applied."""
    _control(
        st.text_area, "Your text" if place else "Text", "text", height=124, place=place,
        placeholder="Type anything, in any script …",
    )  # fmt: skip
    # Leaving the box applies what is in it; the button is there to be pressed.
    st.button(
        "Apply", key=f"{place}apply-text", help="Or press Ctrl + Enter in the text.", on_click=_apply, args=(then,)
    )
    key = f"{place}example"
    st.pills("Examples", list(EXAMPLES), key=key, on_change=_take_example, args=(key, then))


def _apply(then: Callable[[], object]) -> None:
    then()
    state.rerun()


def _take_example(key: str, then: Callable[[], object]) -> None:
    chosen = st.session_state[key]
    st.session_state[key] = None
    if chosen:
        from attnviz.compute import examples  # with torch, which the sidebar does not wait for

        state.change(**examples.chosen(state.current(), chosen))
        then()
        state.rerun()


def _own_model(s: Settings) -> None:
    _slider("Layers", "n_layers")
    _slider("Query heads", "n_heads")
    _steps("d_model", "d_model", widths(s.n_heads))
    _select("Attention type", "attention", ATTENTIONS, format_func=ATTENTIONS.__getitem__)
    if s.attention == "mla":
        _number("Latent, in numbers per token (kv_lora_rank)", "kv_lora_rank")
        _number("Rotated key, in dimensions (qk_rope_head_dim)", "qk_rope_head_dim", step=2)
    else:
        _steps("KV heads", "n_kv_heads", divisors(s.n_heads))
    _number(
        "head_dim (0: d_model / query heads)", "head_dim", step=2,
        help="Dimensions of each head; of MLA, those without RoPE, and those of a value.",
    )  # fmt: skip
    _number("Seed", "seed")
    if s.attention != "mla":  # whose projections have no biases
        _control(st.checkbox, "Bias on q, k and v", "qkv_bias")


def _mask(s: Settings) -> None:
    _control(st.checkbox, "Causal: no token attends to a later one", "causal")
    _slider("Sliding window, in tokens (0: none)", "window")
    _slider(
        "Attention-sink tokens", "n_sinks",
        help="First tokens that stay visible behind the window (StreamingLLM, arXiv 2309.17453).",
    )  # fmt: skip
    _control(st.checkbox, "RoPE", "rope")
    if s.opened:
        st.caption("A window of 0 and RoPE’s default θ stand for the model’s own.")
    elif s.model != "own":
        st.caption("The checkpoints were trained causal, without a window, with RoPE.")


def _slider(label: str, field: str, **options: object) -> None:
    kind = kind_of(field)
    assert isinstance(kind, Number)
    _control(st.slider, label, field, min_value=int(kind.low), max_value=int(kind.high), **options)


def _number(label: str, field: str, step: int = 1, **options: Any) -> None:
    kind = kind_of(field)
    assert isinstance(kind, Number)
    _control(st.number_input, label, field, min_value=int(kind.low), max_value=int(kind.high), step=step, **options)


def _steps(label: str, field: str, possible: Iterable[int]) -> None:
    """A slider over the values that go with the number of query heads; none where that is one value."""
    values = sorted(possible)
    if len(values) > 1:
        _control(st.select_slider, label, field, options=values)


def _select(label: str, field: str, options: Iterable[str], format_func: Callable[[str], str]) -> None:
    _control(st.selectbox, label, field, options=options, format_func=format_func)


def _control(widget: Callable, label: str, field: str, **options: Any) -> None:
    """All of the page follows what is set here."""
    state.control(widget, label, field, reruns=(), **options)


def _model(name: str) -> str:
    if name not in MODELS:
        return short_name(name)
    return f"{MODEL_NAMES[name]} · {'untrained' if name == 'own' else 'trained'}"


def _models(s: Settings) -> list[str]:
    """The shipped ones, one's own, and those that are listed, were opened before, or are open."""
    return [*MODELS, *offered(s.model, MODELS)]
