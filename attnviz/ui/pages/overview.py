"""The front page: what there is to see, alive before torch or plotly is imported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import streamlit as st

from attnviz.compute.view import View, anything
from attnviz.session.pages import ALL, PAGES
from attnviz.session.settings import Settings
from attnviz.text import tokenizer
from attnviz.ui import state
from attnviz.ui.components.head_grid import head_grid

FRONT_DOOR = Path(__file__).parents[2] / "checkpoints" / "front.npz"


def show() -> None:
    """A sentence, a live grid, a door to each page."""
    st.markdown(state.page().sentence)
    if st.session_state.pop("opened", False):  # a click in the grid below; pages cannot be changed in its callback
        st.switch_page(PAGES["heads"].file, query_params=state.current().to_link())
    _grid()
    _doors()


@state.part("doors", anything)
def _doors(view: View) -> None:
    pages = [page for page in ALL if page.path]
    for column, page in zip(st.columns(len(pages)), pages, strict=True):
        with column.container(border=True, height="stretch"):
            st.page_link(
                page.file, label=f"**{page.name}**", icon=":material/arrow_forward:", icon_position="right",
                query_params=view.settings.to_link(),
            )  # fmt: skip
            st.caption(page.sentence)


def _grid() -> None:
    with np.load(FRONT_DOOR, allow_pickle=False) as kept:
        weights, ids = kept["weights"].astype(np.float32), kept["ids"].tolist()
    L, H, T, _ = weights.shape
    st.caption(
        f"Below: all {L * H} heads of a small trained model, {H} query heads sharing 4 KV heads, on the default text. "
        "A row is a query and sums to 1; colour is the KV head it reads. Point at a cell; click a head to open it."
    )
    head_grid(
        weights,
        np.broadcast_to(np.tri(T, dtype=bool), (L, T, T)),
        tokenizer().labels(ids),
        [h // 2 for h in range(H)],
        key="front-grid",
        selected=(Settings().layer, Settings().head),
        on_select=_open,
        model=Settings().model,
    )


def _open(layer: int, head: int) -> None:
    state.change(layer=layer, head=head)
    st.session_state["opened"] = True
