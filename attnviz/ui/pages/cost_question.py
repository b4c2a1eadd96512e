"""The question on top of the Cost page, in words and numbers, and its answer in one sentence and one bar."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from attnviz.compute import cost as compute_cost
from attnviz.compute.counting import BeingCounted
from attnviz.compute.view import View, countable
from attnviz.config import ConfigError
from attnviz.cost import PRECISIONS, load_accelerators, load_presets
from attnviz.cost.units import tokens_text
from attnviz.figures import cost as figures
from attnviz.figures.cost.machines import BATCHES
from attnviz.figures.cost.prompts import LENGTHS
from attnviz.figures.drawing import escaped
from attnviz.session.pages.cost import OWN_MEMORY, PASTED, SELECTED
from attnviz.ui import charts, controls, state
from attnviz.ui.components.to_scale import to_scale

COUNT = "count by transformers"  # session key: of the pasted configuration
PARTS = ("amounts", "tabs", "own")  # what follows from the question: the whole page


@state.part("amounts", countable)
def question(view: View) -> None:
    """The controls for the whole page, and the answer."""
    s = view.settings
    with st.container(horizontal=True, vertical_alignment="top"):
        _model(view)
        _typed_and_slid("Context, tokens", "context", {*LENGTHS, s.context}, tokens_text)
        _typed_and_slid("Sequences (users)", "batch", {*BATCHES, s.batch}, "{:,}".format)
        _precision("Weights", "weights")
        _precision("KV cache", "precision")
        _accelerator(view)
    try:
        answer = compute_cost.answer(view)
    except BeingCounted as begun:
        st.info(f"{begun}: see below.", icon=":material/hourglass:")
        if st.session_state.get(COUNT) is not begun.count:
            st.session_state[COUNT] = begun.count
            state.go(state.page().path, state.current())  # the whole page draws the polling fragment
        return
    except ConfigError as problem:
        st.error(escaped(str(problem)), icon=":material/error:")
        return
    st.markdown(figures.sentence(answer), help=figures.memory_note(answer))
    to_scale([figures.panel(answer)], "answer")
    with charts.beside("answer"):
        charts.calculation(*figures.calculation(answer), "answer")


def _model(view: View) -> None:
    """The model that the page answers for: published, pasted, or the one in the sidebar."""
    names = {
        SELECTED: f"{compute_cost.selected_model(view).name} (in the sidebar)",
        PASTED: "Pasted configuration",
        **{id: model.name for id, model in load_presets().items()},
    }
    controls.control(
        st.selectbox, "Model to serve", "preset", shown=compute_cost.asked_id(view.settings), options=list(names),
        format_func=names.__getitem__, width=280, reruns=PARTS, then=_open_its_tab,
    )  # fmt: skip


def _open_its_tab() -> None:
    """Show the text area for a pasted model; leave it for another one."""
    s = state.current()
    if (s.preset == PASTED and not s.facts.strip()) or s.tab == "facts":
        state.change(tab="facts" if s.preset == PASTED else "")


def _typed_and_slid(label: str, field: str, options: set[int], text: Callable[[int], str]) -> None:
    """One number, to type and, in powers of two and what was typed, to slide."""
    with st.container(width=165, gap="xxsmall"):
        controls.control(st.number_input, label, field, place="typed-", reruns=PARTS)
        controls.control(
            st.select_slider, label, field, options=sorted(options), format_func=text, label_visibility="collapsed",
            reruns=PARTS,
        )  # fmt: skip


def _precision(label: str, field: str) -> None:
    controls.control(
        st.selectbox,
        label,
        field,
        options=list(PRECISIONS),
        format_func=figures.precision_name,
        width=175,
        reruns=PARTS,
    )


def _accelerator(view: View) -> None:
    """One of the known accelerators, or a memory of one's own; and how many of it."""
    names = {id: f"{card.name} · {card.data_sheet_gb:g} GB" for id, card in load_accelerators().items()}
    names |= {OWN_MEMORY: "Another memory: type its GiB"}
    controls.control(
        st.selectbox, "Accelerator", "machine", options=list(names), format_func=names.__getitem__, width=280,
        reruns=PARTS,
    )  # fmt: skip
    if view.settings.machine == OWN_MEMORY:
        controls.control(st.number_input, "Memory, GiB", "own_memory", width=130, reruns=PARTS)
        controls.control(
            st.number_input, "Bandwidth, GB/s", "own_bandwidth", width=150, reruns=PARTS,
            help="0: not known; then no speed is given.",
        )  # fmt: skip
    controls.control(st.number_input, "Number of them", "n_machines", width=130, reruns=PARTS)
    if view.settings.n_machines > 1:
        controls.control(
            st.selectbox, "Divided by", "parallel", options=list(figures.PARALLEL), width=210, reruns=PARTS,
            format_func=lambda way: figures.PARALLEL[way].capitalize(),
            help="Tensor parallelism divides the heads, so that each accelerator caches a part of every sequence. With "
            "data-parallel attention each caches its own sequences whole.",
        )  # fmt: skip
