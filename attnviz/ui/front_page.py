"""The front page: what there is to see, alive before torch or plotly is imported."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import streamlit as st

from attnviz.text import tokenizer
from attnviz.ui import state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.frame import courier, show_notices
from attnviz.ui.settings import Settings

FRONT_DOOR = Path(__file__).parent.parent / "checkpoints" / "front.npz"
ROOMS = {
    "pages/1_heads.py": (
        "Heads",
        "Every attention map of every layer at once, on your own text. What a head looks at, how a score becomes a "
        "weight, and what each head does.",
    ),
    "pages/2_query_groups.py": (
        "Query groups",
        "Which query head reads which key/value head. One control from MHA over GQA to MQA, with maps, cache and "
        "parameters moving along.",
    ),
    "pages/3_rope.py": (
        "RoPE",
        "Each pair of dimensions is a clock hand. See it turn on your own queries and keys, and what longer contexts "
        "do to it.",
    ),
    "pages/4_cost.py": (
        "Cost",
        "Parameters and KV cache: counted in live tensors for your settings, by formula for 58 published models.",
    ),
}


def show() -> None:
    """A sentence, a live grid, four doors."""
    _settings()
    show_notices()
    st.markdown("The real attention modules, run on the text you type and the settings you choose.")
    if st.session_state.pop("opened", False):  # a click in the grid below; pages cannot be changed in its callback
        st.switch_page("pages/1_heads.py")
    _grid()
    link = state.link_to_other_pages()
    for column, (path, (label, sentence)) in zip(st.columns(len(ROOMS)), ROOMS.items(), strict=True):
        with column.container(border=True, height="stretch"):
            st.page_link(
                path, label=f"**{label}**", icon=":material/arrow_forward:", icon_position="right", query_params=link
            )
            st.caption(sentence)


@state.part(state.PAGE, turns=nullcontext())
def _settings() -> None:
    """What is set on the left changes nothing here but the address, so that nobody need wait for it."""
    courier()


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
