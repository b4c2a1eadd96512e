"""Step by step page: the source that ran, the prediction, the residual stream, softmax by tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import streamlit as st

from attnviz.compute import steps as compute_steps
from attnviz.compute.view import View
from attnviz.compute.vocabulary import vocabulary
from attnviz.figures import residual, theme, traffic
from attnviz.figures import step_captions as captions
from attnviz.figures import steps as figures
from attnviz.figures.drawing import Drawing
from attnviz.figures.numbers import percent
from attnviz.phrases import count
from attnviz.ui import charts, controls, state
from attnviz.ui.components.source_walk import source_walk
from attnviz.ui.headline import show_headline
from attnviz.ui.walking import take_entry, take_entry_of_last, take_step

SELECTED_BY = {  # tab: what is selected for it; the query of a decode step is the last token
    "walk": ("layer", "head", "query", "key"),
    "step": ("layer", "head"),
    "lens": ("query",),
    "residual": ("query",),
    "tiles": ("layer", "head", "query"),
}


def show() -> None:
    """Draw the page."""
    top()
    parts()


@state.part("top")
def top(view: View) -> None:
    """One sentence on the run."""
    show_headline(view)


@state.part("tabs")
def parts(view: View) -> None:
    """The open tab with the controls for layer, head and tokens; the other tabs are not computed."""
    with st.container(horizontal=True, vertical_alignment="center"):
        tab = controls.tabs(view, "Show", quiet=True)
        _selection(view, tab)
    if tab in ("walk", "step"):
        st.caption("The source below is the code that ran; each marked line shows the tensor it made.")
    if tab in ("walk", "lens", "residual") and len(view.ids) > compute_steps.MAX_RECORDED:
        st.caption(f"The first {compute_steps.MAX_RECORDED} of {len(view.ids)} tokens are recorded in this tab.")
    TABS[tab](view)


def _selection(view: View, tab: str) -> None:
    """Controls of what the open tab shows."""
    (layer, head), used = view.layer_and_head, SELECTED_BY[tab]
    n = min(len(view.labels), compute_steps.MAX_RECORDED)
    if "layer" in used:
        _choose("Layer", "layer", layer, range(view.config.n_layers), lambda i: f"Layer {i}", 105)
    if "head" in used:
        _choose("Head", "head", head, range(view.mixer.n_heads), lambda i: f"Head {i}", 105)
    if "query" in used:
        _choose("Query token", "query", min(view.query, n - 1), range(n), lambda i: f"query {i} {view.labels[i]}", 130)
    if "key" in used:
        _choose("Key token", "key", min(view.key, n - 1), range(n), lambda i: f"key {i} {view.labels[i]}", 130)


def _choose(label: str, field: str, shown: int, options: range, written: Callable[[int], str], width: int) -> None:
    controls.control(
        st.selectbox, label, field, shown=shown, options=options, format_func=written, width=width,
        label_visibility="collapsed",
    )  # fmt: skip


def _walk(view: View) -> None:
    mistake = compute_steps.offered_mistake(view)
    if mistake:
        names = {"right": "Right version", "mistaken": f"With the mistake: {mistake.title}"}
        controls.control(
            st.segmented_control, "Version", "version", options=list(names), format_func=names.__getitem__,
            required=True, then=_from_the_change,
        )  # fmt: skip
    if view.mixer.absorbed and not compute_steps.mistake_of(view):
        controls.control(
            st.checkbox, "Absorbed form: W_UK is applied to the query, and keys and values are never expanded",
            "absorbed",
        )  # fmt: skip
    walk = compute_steps.walk_of(view)
    if walk.n_folded:
        st.caption(
            f"The loop over {count(walk.n_folded, 'token')} is folded: shown is the turn of the query token, "
            f"{view.query}. Choose another one to see its turn."
        )
    source_walk(
        walk, view.labels, view.config.n_kv_heads, key="source-walk",
        at=compute_steps.stop_of(view, walk), on_step=take_step, on_entry=take_entry,
    )  # fmt: skip


def _decode_step(view: View) -> None:
    """One decode step: a token read with the cache of those before it, then the next token sampled."""
    step, words = compute_steps.decode_step_of(view), vocabulary(view.settings)
    n_written = len(step.ids) - len(view.ids)
    labels, words = words.labels(step.ids), words.after(step.ids)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(captions.decode_step_text(labels, n_written, words[step.chosen]), width="content")
        st.button("Back to Decode", key="to-decode", on_click=lambda: state.go("decode", state.current()))
    source_walk(
        step.walk, labels, view.config.n_kv_heads, key="decode-walk", words=words,
        at=compute_steps.decode_stop_of(view, step.walk),
        on_step=partial(take_step, field="decode_step"), on_entry=take_entry_of_last,
    )  # fmt: skip


def _from_the_change() -> None:
    """Start the walk of the other version at its changed line."""
    state.change(step=-1)


def _prediction(view: View) -> None:
    """Logit lens of the selected token, and how much each part added to the logit of the next one."""
    read = compute_steps.lens_of(view)
    query, last = _query(view), len(read.best) - 1
    layer = last if view.settings.lens < 0 else min(view.settings.lens + 1, last)
    after = [vocabulary(view.settings).after(view.ids[:n]) for n in range(1, len(view.ids) + 1)]
    words, where = after[query], "by the model" if layer == last else f"read after layer {layer - 1}"
    controls.control(
        st.segmented_control, "Read the prediction after", "lens", shown=layer - 1 if layer < last else -1,
        options=[*range(last - 1), -1], required=True,
        format_func=lambda i: "the last layer" if i < 0 else f"layer {i}",
    )  # fmt: skip
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(
            figures.candidates(compute_steps.odds_of(view, layer, query), words, view.labels[query], query, where),
            "candidates",
        )
    with right:
        _attribution(view, compute_steps.odds_of(view, last, query), words, query)
    charts.show(figures.lens_map(read, after, view.labels, query, layer), "lens")
    st.caption("Select a cell to see its candidates and what made its logit.")
    st.dataframe(
        figures.lens_table(read, after, view.labels, query), hide_index=True, key="lens-table",
        selection_mode="single-cell", on_select=_take_lens,
    )  # fmt: skip


def _take_lens() -> None:
    """Select the layer and the query of the clicked cell.

    A row of the table is a layer, 0 the embedding; a column's name begins with the token's position.
    """
    cells = st.session_state["lens-table"].selection.cells
    if cells and cells[0][1][0].isdigit():
        state.change(lens=max(0, cells[0][0] - 1), query=int(cells[0][1].split()[0]))
        state.rerun("tabs")


def _attribution(view: View, odds: np.ndarray, words: Sequence[str], query: int) -> None:
    best = np.argsort(odds)[::-1][: figures.CANDIDATES].tolist()
    rank = view.settings.candidate
    controls.control(
        st.selectbox, "Next token whose logit is decomposed", "candidate", options=range(len(best)), width=320,
        format_func=lambda i: f"{i + 1}. {words[best[i]]} ({percent(odds[best[i]])})",
    )  # fmt: skip
    token = best[rank]
    added = compute_steps.attribution_of(view, query, token)
    charts.show(
        figures.attribution(
            added, compute_steps.logit_part_names(view), words[token], compute_steps.logit_of(view, query, token),
            view.labels[query],
        ),
        "attribution",
    )  # fmt: skip
    if cap := view.config.logit_softcap:
        st.caption(f"Logits before the soft cap: this model predicts from {cap:g} · tanh(logit / {cap:g}).")


def _residual(view: View) -> None:
    """Norm of the residual stream, and how much each part wrote into it."""
    written, names, query = compute_steps.residual_of(view), compute_steps.part_names(view), _query(view)
    labels = view.labels[: compute_steps.MAX_RECORDED]
    after, parts = compute_steps.norms(written)
    rms_norm = view.config.norm == "rmsnorm"
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(residual.stream(after, names, labels, query, view.config.d_model, rms_norm), "stream")
    with right:
        charts.show(residual.written(parts, names, query, labels[query]), "written")


def _tiles(view: View) -> None:
    """The selected head's softmax by tiles, as in FlashAttention."""
    if why := view.mixer.cannot("tiles"):
        st.info(why)
        return
    n = len(view.ids)
    sizes = sorted({*(2**i for i in range(10) if 2**i < n), n, min(view.settings.block, n)})
    controls.control(
        st.select_slider, "Keys per tile", "block", options=sizes, shown=min(view.settings.block, n), width=420
    )
    tiled, (layer, head) = compute_steps.tiled_of(view), view.layer_and_head
    st.markdown(
        f"Layer {layer}, head {head}: each query reads its keys in tiles, as FlashAttention does.",
        help=f"For {figures.tiles_text(n, tiled.largest_difference)} (arXiv 2205.14135).",
    )
    hue = theme.kv_colour(view.mixer.kv_head_of[head], view.config.n_kv_heads)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(
            figures.tile_row(tiled.scores, tiled.allowed, tiled.table, view.labels, view.query, hue), "tile-row"
        )
        st.dataframe(figures.tile_table(tiled.table), hide_index=True, placeholder="–")
    with right:
        widths = view.mixer.head_dim, view.mixer.value_dim
        charts.show(traffic.traffic(n, *widths, view.settings.block), "traffic")
        charts.on_demand(
            "Time on this machine",
            {"kernel-times": lambda: _kernel_times(view.mixer.head_dim)},
        )
    with st.expander("Source: attnviz/experiments/tiles.py"):
        st.code(compute_steps.tiles_source(), language="python")


def _kernel_times(head_dim: int) -> Drawing:
    return traffic.kernel_times(compute_steps.TIMED, compute_steps.kernel_seconds(head_dim), head_dim)


def _query(view: View) -> int:
    return min(view.query, len(view.ids) - 1, compute_steps.MAX_RECORDED - 1)


TABS = {"walk": _walk, "step": _decode_step, "lens": _prediction, "residual": _residual, "tiles": _tiles}
