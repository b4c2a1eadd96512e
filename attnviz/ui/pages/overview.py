"""The overview: the maps of the text and the model chosen, and a door to each page. Imports neither torch nor plotly.

The maps of the default text ship with the app: they are there before torch is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from attnviz.compute.view import View, anything, drawable
from attnviz.session.pages import PAGES, ways
from attnviz.text import tokenizer
from attnviz.ui import state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.headline import headline, what_heads_read

SHIPPED = Path(__file__).parents[2] / "checkpoints" / "front.npz"
WIDER = {"Look around": 3}  # shares of the width; 2 for the other ways
HOW_TO_READ = (
    "Each map is one attention head: each row is a query, each column a key; the more a cell stands out, the larger "
    "its weight. Its hue is the KV head it reads. Point at a cell; click a head to open it."
)


def show() -> None:
    """A sentence, all heads on the text, a door to each page."""
    if st.session_state.pop("open heads", False):  # pages cannot be changed in a callback
        st.switch_page(PAGES["heads"].file, query_params=state.current().to_link())
    st.markdown(state.page().sentence)
    maps()
    doors()


def ready(view: View) -> bool:
    """Whether the maps are there, or can be computed."""
    return view.maps_ship or drawable(view)


@state.part("maps", ready)
def maps(view: View) -> None:
    """All layers and heads on the text, in the hues of the KV heads."""
    reads: dict[str, Any] = {}
    kv_head_of: Sequence[int]
    if view.maps_ship:
        weights, allowed, labels, kv_head_of = _shipped()
        says = f"GQA: {len(kv_head_of)} query heads read {max(kv_head_of) + 1} KV heads, {len(labels)} tokens."
    else:
        weights, allowed, labels = view.trace.weights, view.trace.allowed, view.labels
        kv_head_of, says = view.config.layer.kv_head_of, headline(view)
        reads = what_heads_read(view.config, view.config.n_layers)
    st.caption(f"{says} {HOW_TO_READ}")
    head_grid(
        weights, allowed, labels, kv_head_of,
        key="front-grid", selected=(view.settings.layer, view.settings.head), on_select=_open,
        **reads,
    )  # fmt: skip


def _shipped() -> tuple[np.ndarray, np.ndarray, list[str], list[int]]:
    """Weights (L, H, T, T), who may attend (L, T, T), T labels, and the KV head that each of H heads reads."""
    with np.load(SHIPPED, allow_pickle=False) as file:
        weights, ids = file["weights"].astype(np.float32), file["ids"].tolist()
    L, H, T, _ = weights.shape
    causal = np.broadcast_to(np.tri(T, dtype=bool), (L, T, T))
    return weights, causal, tokenizer().labels(ids), [head // 2 for head in range(H)]


def _open(layer: int, head: int) -> None:
    state.change(layer=layer, head=head)
    st.session_state["open heads"] = True
    st.rerun()


@state.part("doors", anything)
def doors(view: View) -> None:
    """The ways that lead on: to understand, to look around, to prepare, to work out a cost."""
    link, found = view.settings.to_link(), ways()
    for column, (way, pages) in zip(st.columns([WIDER.get(way, 2) for way in found]), found.items(), strict=True):
        with column.container(border=True, height="stretch"):
            st.markdown(f"##### {way}")
            for page in pages:
                st.page_link(
                    page.file, label=f"**{page.name}**", icon=":material/arrow_forward:", icon_position="right",
                    query_params=link,
                )  # fmt: skip
                st.caption(page.sentence)
