"""The question turned round: all models on this accelerator, and all accelerators for this model."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from attnviz.compute import cost as compute_cost
from attnviz.compute.view import View
from attnviz.cost import Answer, load_presets
from attnviz.cost.variants import KINDS
from attnviz.figures import cost as figures
from attnviz.session.pages.cost import SIZES
from attnviz.ui import controls, state
from attnviz.ui.pages.cost_question import PARTS

SIZE_NAMES = {"": "Any size", "4": "up to 4 B", "15": "4 to 15 B", "80": "15 to 80 B", "more": "over 80 B"}
SELECT = "Select a row to open its answer (keyboard: arrows, then Shift + Space)."
HEIGHT, MANY = 460, 12  # pixels of a list that scrolls; rows of one that does not


def models(view: View, asked: Answer) -> None:
    """All published models of the chosen sizes and kinds, those that fit first; a row opens its answer."""
    assert SIZE_NAMES.keys() == {"", *SIZES}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.control(
            st.segmented_control, "Parameters", "size", options=list(SIZE_NAMES), format_func=SIZE_NAMES.__getitem__,
            required=True,
        )  # fmt: skip
        controls.control(
            st.pills, "Attention", "kinds", options=list(KINDS), format_func=KINDS.__getitem__,
            selection_mode="multi",
        )  # fmt: skip
    answers = compute_cost.listed_models(asked, view.settings)
    if not answers:
        st.info("No published model is of this size and kind. Choose another size, or no kind for all.")
        return
    st.markdown(f"## {figures.models_finding(answers)}")
    st.caption(f"The largest that fits is on top. {SELECT}")
    _table(figures.models_list(answers), "models", lambda row: {"preset": _id(answers[row])})


def cards(view: View, asked: Answer) -> None:
    """All accelerators, those that hold the model first; a row opens its answer."""
    answers = compute_cost.listed_accelerators(asked)
    st.markdown(f"## {figures.accelerators_finding(answers)}")
    st.caption(f"The fastest that holds it is on top, by its peak bandwidth. {SELECT}")
    _table(figures.accelerators_list(answers), "cards", lambda row: {"machine": answers[row].serving.accelerator.id})


def _id(answer: Answer) -> str:
    return next(id for id, model in load_presets().items() if model == answer.serving.model)


def _table(columns: dict[str, list], key: str, chosen: Callable[[int], dict[str, str]]) -> None:
    """Show a list whose selected row changes the settings as `chosen` says."""

    def take() -> None:
        rows = st.session_state[f"list-{key}"].selection.rows
        if rows:
            state.change(**chosen(rows[0]))
            state.rerun(*PARTS)

    long = len(next(iter(columns.values()))) > MANY
    st.dataframe(
        columns, hide_index=True, key=f"list-{key}", height=HEIGHT if long else "content", placeholder="–",
        selection_mode="single-row", on_select=take,
        column_config={name: st.column_config.NumberColumn(format="%.2f") for name in columns if name.endswith("GiB")},
    )  # fmt: skip
