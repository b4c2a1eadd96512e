"""Sidebar: page links, text, model, and mask and position settings, as Streamlit widgets.

On a phone the sidebar covers the page, so text and model are also on the page itself (`on_narrow_screens`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import streamlit as st

from attnviz.compute.beyond_training import TRAINED_ON
from attnviz.compute.view import View, always
from attnviz.config import FAMILY, divisors
from attnviz.figures.drawing import escaped
from attnviz.mechanisms import OWN
from attnviz.session.examples import EXAMPLES
from attnviz.session.openable import MODEL_NAMES, MODELS, is_run, offered, short_name
from attnviz.session.page import Page
from attnviz.session.pages import PAGES, by_purpose
from attnviz.session.settings import Settings
from attnviz.session.shared import NOBODY_CHOSE, widths
from attnviz.ui import controls, state
from attnviz.ui.components.copy_link import copy_link
from attnviz.ui.open_model import download_progress, open_model
from attnviz.ui.open_run import open_run
from attnviz.ui.presenter import present_button
from attnviz.ui.source_dialog import source_button

NARROW_OPEN = "narrow-open"
MAX_QUOTED_CHARS = 40  # of the text


def sidebar() -> None:
    """Draw the sidebar."""
    with st.sidebar:
        _links()
        _controls()
        open_model()
        open_run()
        download_progress()
        copy_link()
        present_button()


@state.part(state.LINKS, always)
def _links(view: View) -> None:
    """Page links that carry the settings, also into a new tab."""
    st.markdown("## AttnViz")
    _page_link(PAGES[""])
    for purpose, pages in by_purpose().items():
        st.caption(purpose)
        for page in pages:
            _page_link(page)


def _page_link(page: Page) -> None:
    link = state.settings_on(page).to_link()
    st.page_link(page.file, label=page.name, width="stretch", query_params=link)


@state.part(state.CONTROLS, always)
def _controls(view: View) -> None:
    s = view.settings
    _select("Model", "model", _models(s), format_func=_model)  # first: below the examples it was out of sight
    with st.container(key="sidebar-text"):
        _text(view)
    if s.recorded:
        return
    if s.model == "own":
        st.markdown("**The untrained model**")
        _own_model(s)
    elif not s.opened:
        st.caption(f"A small model, {TRAINED_ON}.")
    with st.expander("Mask and position settings"):
        _mask(s)
    source_button(view)


@state.part(state.NARROW, always)
def on_narrow_screens(view: View) -> None:
    """Expander titled with the text and the model, with the controls for both; page_style.css hides it if wide."""
    s = view.settings
    title = [_quoted_start(text_of(view))] * state.page().needs_text + [s.model_name]
    with (
        st.container(key="narrow"),
        st.expander(" · ".join(title), key=NARROW_OPEN, on_change="rerun", icon=":material/edit:") as opened,
    ):
        if opened.open:
            if state.page().needs_text:
                _text(view, "narrow-", _close)
            _control(
                st.selectbox, "Model", "model", options=_models(s), format_func=_model, place="narrow-", then=_close
            )
            st.caption("All other settings are in the sidebar: open it with “»” above.")


def _close() -> None:
    """Close the expander, so that the page that changes is visible."""
    st.session_state[NARROW_OPEN] = False


def _quoted_start(text: str) -> str:
    one_line = " ".join(text.split())
    if not one_line:
        return "No text"
    return f"“{escaped(one_line[:MAX_QUOTED_CHARS])}{'…' * (len(one_line) > MAX_QUOTED_CHARS)}”"


def text_of(view: View) -> str:
    """Return the text that is shown: the typed one, or that of a saved run."""
    if not view.settings.recorded:
        return view.settings.text
    return "" if view.config_problem else view.shown_text


def _text(view: View, place: str = "", then: Callable[[], object] = lambda: None) -> None:
    """Text area and example pills. then: called after the text or an example is applied."""
    if view.settings.recorded:
        _text_of_run(view, place)
        return
    _control(
        st.text_area, "Your text" if place else "Text", "text", height=124, place=place,
        placeholder="Type anything, in any script …",
    )  # fmt: skip
    # The text area already applies its text on blur; the button makes that discoverable.
    st.button(
        "Apply", key=f"{place}apply-text", help="Or press Ctrl + Enter in the text.", on_click=_apply, args=(then,)
    )
    controls.pick("Examples", list(EXAMPLES), f"{place}example", partial(_take_example, then))


def _text_of_run(view: View, place: str) -> None:
    """The text of a saved run, which cannot be changed, and the choice of its kind of attention."""
    saved = None if view.config_problem else view.saved
    if saved is None:
        return  # the notices say what is missing
    kinds = {kind.name: kind.title for kind in saved.saved.kinds}
    if len(kinds) > 1:
        _control(
            st.segmented_control, "Attention", "run_kind", shown=saved.kind, options=list(kinds), place=place,
            format_func=lambda name: kinds[name].replace("self-attention", "self").capitalize(), required=True,
        )  # fmt: skip
    label = "Text of the queries" if view.two_texts else "Tokens" if saved.picture else "Text"
    texts = {label: text_of(view)} | ({"Text of the keys": saved.key_text} if view.two_texts else {})
    for called, text in texts.items():
        key = f"{place}run-{called}"
        st.session_state[key] = text  # at every run: a widget keeps its value otherwise
        st.text_area(called, height=124 if called == label else 90, key=key, disabled=True)
    about = " ".join(saved.saved.sentences)
    st.caption(f"The text belongs to the saved run, which no model reads again. {escaped(about)}".strip())


def _apply(then: Callable[[], object]) -> None:
    then()
    state.rerun()


def _take_example(then: Callable[[], object], name: str) -> None:
    state.change(text=EXAMPLES[name], **NOBODY_CHOSE)
    then()
    state.rerun()


def _own_model(s: Settings) -> None:
    _control(st.slider, "Layers", "n_layers")
    _control(st.slider, "Query heads", "n_heads")
    _steps("d_model", "d_model", widths(s.n_heads))
    _select("Attention type", "attention", OWN, format_func=lambda name: OWN[name].family)
    chosen = OWN[s.attention].chosen
    if "kv_lora_rank" in chosen:
        _control(st.number_input, "Latent size, numbers per token (kv_lora_rank)", "kv_lora_rank")
    if "qk_rope_head_dim" in chosen:
        _control(st.number_input, "RoPE key dimensions (qk_rope_head_dim)", "qk_rope_head_dim", step=2)
    if "n_kv_heads" in chosen:
        _steps("KV heads", "n_kv_heads", divisors(s.n_heads))
    _control(
        st.number_input, "head_dim (0: d_model / query heads)", "head_dim", step=2,
        help="Dimensions per head. For MLA: the key dimensions without RoPE, and the value dimensions.",
    )  # fmt: skip
    _control(st.number_input, "Seed", "seed")
    if "qkv_bias" in chosen:
        _control(st.checkbox, "Bias on q, k and v", "qkv_bias")


def _mask(s: Settings) -> None:
    _control(st.checkbox, "Causal: no token attends to a later one", "causal")
    _control(
        st.slider, "Sliding window, in tokens (0: none)", "window",
        help="With w, each token attends to itself and the w − 1 tokens before it; without a causal mask, also to the "
        "w − 1 after it.",
    )  # fmt: skip
    _control(
        st.slider, "Attention-sink tokens", "n_sinks",
        help="First tokens that stay visible outside the window (StreamingLLM, arXiv 2309.17453).",
    )  # fmt: skip
    _control(st.checkbox, "RoPE", "rope")
    if s.model in FAMILY:
        st.caption("The checkpoints were trained with a causal mask and RoPE, without a window.")
    elif s.model != "own":
        st.caption("Window 0 and the default RoPE base mean the model’s own values.")


def _steps(label: str, field: str, possible: Iterable[int]) -> None:
    """Slider over the values allowed by the number of query heads; no slider for a single value."""
    values = sorted(possible)
    if len(values) > 1:
        _control(st.select_slider, label, field, options=values)


def _select(label: str, field: str, options: Iterable[str], format_func: Callable[[str], str]) -> None:
    _control(st.selectbox, label, field, options=options, format_func=format_func)


def _control(widget: Callable, label: str, field: str, **options: Any) -> None:
    """Widget for a setting whose change reruns the whole page."""
    controls.control(widget, label, field, reruns=(), **options)


def _model(name: str) -> str:
    if is_run(name):
        from attnviz.compute.recorded import title_of  # it imports torch

        return f"{title_of(name)} · saved run"
    if name not in MODELS:
        return short_name(name)
    return f"{MODEL_NAMES[name]} · {'untrained' if name == 'own' else 'trained'}"


def _models(s: Settings) -> list[str]:
    """Return the shipped checkpoints, "own", and the listed, previously opened and current models."""
    return [*MODELS, *offered(s.model, MODELS)]
