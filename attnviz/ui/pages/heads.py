"""Heads page: the grid of all heads, the selected head, and one of several tabs about it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st

from attnviz.analysis.layers import Each
from attnviz.compute import heads as compute_heads
from attnviz.compute import look_here
from attnviz.compute.view import View
from attnviz.compute.vocabulary import next_tokens_of
from attnviz.figures.drawing import Caption, Drawing, escaped
from attnviz.figures.head_captions import MERGED, map_caption, path_caption, path_numbers
from attnviz.figures.role_captions import DEFINITION, role_text, role_title, text_sentence, text_title
from attnviz.figures.theme import kv_colour
from attnviz.phrases import count, first_of
from attnviz.session.pages.heads import MAX_PINNED
from attnviz.session.shared import NOBODY_CHOSE
from attnviz.ui import charts, controls, state
from attnviz.ui.components.head_grid import head_grid, layer_cells
from attnviz.ui.components.head_view import Cell, head_path, head_view
from attnviz.ui.components.picture_view import picture_view
from attnviz.ui.components.text_view import text_view
from attnviz.ui.headline import grid_options, run_title, show_headline, split_text
from attnviz.ui.layer_progress import LayerProgress
from attnviz.ui.pages import heads_studies, heads_tabs

STOPPED = "layers stopped"  # session key: the `_grid_key` whose computation the user has stopped
TABS = {
    "lines": heads_tabs.lines,
    "writes": heads_tabs.writes,
    "number": heads_tabs.number,
    "stages": heads_tabs.stages,
    "side": heads_tabs.side_by_side,
    "difference": heads_tabs.difference,
    "does": heads_studies.does,
    "average": heads_tabs.average,
    "rollout": heads_tabs.rolled,
    "family": heads_studies.family,
    "off": heads_studies.off,
    "masks": heads_studies.masks,
    "cross": heads_studies.crossed,
    "models": heads_studies.two_models,
}


def prepare(view: View) -> None:
    """Compute and cache what `grid` draws, before the first session needs it."""
    padded = replace(view, padded=True)
    padded.labels, padded.trace, compute_heads.roles_of(view.settings), compute_heads.on_text(padded)


def show() -> None:
    """Draw the page. Of a large model, what to look at is known once the grid has computed its layers."""
    if compute_heads.is_layerwise(View(state.current())):
        above = st.container()
        _maps()
        with above:
            top()
    else:
        top()
        _maps()
    with st.container(key="below-tabs"):  # on a phone, by server/page_style.css
        path()
    tabs()


def _maps() -> None:
    with st.container(key="split"):  # reordered on a phone by server/page_style.css
        left, right = st.columns(2, gap="medium")
        with left:
            grid()
            read()
        with right:
            head()


@state.part("top")
def top(view: View) -> None:
    """One sentence on the run and, outside a lesson, one on what to look at."""
    view = replace(view, padded=True)
    padding = f"The {first_of(view.n_padding, 'token')} {'is' if view.n_padding == 1 else 'are'} padding."
    show_headline(view, padding if view.n_padding else "")
    if view.n_split:
        controls.control(
            st.toggle, f"Merge the rows and columns of {split_text(view)}", "merged", reruns=("top", "grid", "head"),
            help=MERGED,
        )  # fmt: skip
    if not view.settings.lesson:
        _look_here(view)


def _look_here(view: View) -> None:
    """Say what to look at, with a button that selects it."""
    found = look_here.found_in(view)
    sentence, go = st.columns([6, 1], vertical_alignment="center")
    sentence.markdown(f":material/search: {look_here.sentence(view, found)}", help=look_here.how(view))
    if found and found.share.stands_out and not look_here.is_shown(view, found):
        go.button(f"Show L{found.layer} H{found.head}", width="stretch", on_click=_select_found)


def _select_found() -> None:
    state.change(**NOBODY_CHOSE)
    state.rerun()


@state.part("grid")
def grid(view: View) -> None:
    """Grid of all layers and heads, filled as they are computed for a large model; a click selects a head."""
    view = replace(view, padded=True)
    if not compute_heads.draws_layerwise(view):
        _draw_grid(view)
        return
    key, layers, n = _grid_key(view), (view.merged or view.trace).layers, view.config.n_layers
    stopped = st.session_state.get(STOPPED) == key
    place, drawn = st.empty(), st.empty()
    cells = [
        layer_cells(layers[i].weights, layers[i].allowed, n)
        for i in range(len(compute_heads.on_text(view, stopped=True).labels))
    ]
    progress = LayerProgress(n, place, drawn, partial(_draw_so_far, view), partial(_set_stopped, key), cells)
    compute_heads.on_text(view, _merging(view, progress), stopped=stopped)
    place.empty()
    if cells:
        with drawn.container():
            _draw_grid(view, cells, "head-grid" if len(cells) == n else "layers-stopped-at")
    if len(cells) < n:
        st.button(f"Compute the other {count(n - len(cells), 'layer')}", on_click=_set_stopped, args=(None,))


def _merging(view: View, progress: LayerProgress) -> compute_heads.LayerCallback:
    """Return the callback, which gets merged maps if these are drawn."""
    if not (merged := view.merged):
        return progress
    return lambda layer, _: progress(layer, merged.layers[layer])


def _draw_so_far(view: View, cells: Sequence[np.ndarray]) -> None:
    _draw_grid(view, cells, f"first-{len(cells)}-layers")


def _draw_grid(view: View, cells: Sequence[np.ndarray] = (), key: str = "head-grid") -> None:
    """Draw the grid of all layers, or of the layers in `cells`. key: unique within one run."""
    found, n = compute_heads.on_text(view, stopped=bool(cells)), len(cells) or view.config.n_layers
    whole, merged = n == view.config.n_layers, view.merged
    layers = (merged or view.trace).layers
    head_grid(
        Each(layers, "weights"),
        Each(layers, "allowed"),
        merged.labels if merged else view.labels,
        key=key,
        selected=view.layer_and_head,
        title=run_title(view) if whole else f"The first {count(n, 'layer')}. {run_title(view)}",
        **grid_options([layer.mixer for layer in view.config.layers[:n]]),
        pinned=[pin for pin in view.pinned if pin[0] < n],
        roles=compute_heads.grid_roles(view, found)[:n],
        here=None if view.saved else found.labels[:n],  # of a saved run these are its roles
        measures={name: values[:n] for name, values in found.by_name().items()},
        scored=compute_heads.grid_note(view),
        cells=cells,
        positions=merged.positions if merged else None,
        sides=view.sides,
        row_names=view.layer_names[:n] or None,
        masks=not view.saved or view.config.causal,
    )


def _grid_key(view: View) -> Hashable:
    """Return a key for everything that the grid depends on."""
    return view.config, view.settings.model, view.settings.seed, view.ids, view.n_padding, view.settings.merged


def _set_stopped(key: Hashable) -> None:
    st.session_state[STOPPED] = key
    state.rerun("grid")


@state.part("text")
def read(view: View) -> None:
    """The text shaded by the selected query's weights, and the next tokens predicted after it; or the run's picture."""
    view = replace(view, padded=True)
    (layer, head), one = view.layer_and_head, view.traced
    colour = kv_colour(one.mixer.kv_head_of[head], view.config.n_kv_heads)
    if view.saved and view.sides and (picture := view.saved.picture):
        picture_view(
            one.weights_of(head), picture, view.sides, query=view.query, name=f"L{layer} H{head}", key="text-view",
            on_query=lambda query: _take_cell(query, -1), colour=colour,
        )  # fmt: skip
        return
    text_view(
        one.shares[head], one.allowed, view.key_labels, view.key_spans,
        None if view.saved else next_tokens_of(view), query=view.query,
        name=f"L{layer} H{head}", key="text-view",
        on_query=lambda query: _take_cell(query, -1),
        of="weights" if one.mixer.attends else f"shares of {one.mixer.maps}",
        colour=colour, sides=view.sides,
    )  # fmt: skip


@state.part("head")
def head(view: View) -> None:
    """The selected head's map."""
    view = replace(view, padded=True)
    cell, merged = _cell(view), view.merged
    caption = map_caption(
        view.trace, view.labels, cell.layer, cell.head, scale=cell.scale, exclude_first=cell.exclude_first,
        merged=merged, key_labels=view.key_labels if view.two_texts else None,
    )  # fmt: skip
    head_view(
        view.trace, view.labels, cell, caption, merged, key="head-view", on_head=heads_tabs.select,
        on_cell=partial(_take_characters, view) if merged else _take_cell, on_scale=_take_scale,
        on_pin=partial(_take_pin, f"{cell.layer}.{cell.head}"), sides=view.sides,
    )  # fmt: skip


@state.part("path")
def path(view: View) -> None:
    """Role of the selected head, one query from score to weight, the zoomable map, and the numbers of both."""
    view = replace(view, padded=True)
    cell = _cell(view)
    st.markdown(_role(view, cell), help=DEFINITION)
    if why := view.mixer.cannot("score"):
        st.info(why)
        charts.on_demand("Zoom, numbers and downloads", {"map": lambda: _map(view)})
        return
    caption = path_caption(
        view.trace, view.labels, cell.layer, cell.head, cell.query, cell.key, key_labels=view.key_labels
    )
    head_path(view.trace, view.key_labels, cell, caption, key="head-path", on_cell=_take_cell)
    with charts.beside("head-path"):
        charts.on_demand("Zoom, numbers and downloads", {"map": lambda: _map(view), "path": lambda: _path(view)})


def _role(view: View, cell: Cell) -> str:
    """Return Markdown, a title and a text, on what the head does on the probes and on this text."""
    if view.mixer.cannot("probes"):
        found = compute_heads.text_scores_of(view, cell.layer, cell.head)
        said = f"{text_sentence(*found, view.key_labels)} {view.mixer.shares_note}".rstrip()
        return f"### {escaped(text_title(*found))}\n\n{escaped(said)}"
    probes, role = compute_heads.probes_of(view.settings), compute_heads.roles_of(view.settings)[cell.layer][cell.head]
    scores = compute_heads.scores_of(view.settings).of(cell.layer, cell.head)
    here = text_sentence(*compute_heads.text_scores_of(view, cell.layer, cell.head), view.labels)
    said = f"{role_text(role, scores, probes)} {here} {view.mixer.shares_note}".rstrip()
    return f"### {escaped(role_title(role, scores, probes))}\n\n{escaped(said)}"


def _cell(view: View) -> Cell:
    s = view.settings
    return Cell(
        *view.layer_and_head,
        query=view.query,
        key=view.key,
        chosen=view.key if 0 <= s.key < len(view.key_labels) or view.key != view.strongest_key else -1,
        scale=s.colour,
        exclude_first=s.sink_aside,
        pinned=view.layer_and_head in view.pinned,
    )


def _take_cell(query: int, key: int) -> None:
    state.change(query=query, key=key)
    state.rerun(*heads_tabs.SELECTED)


def _take_characters(view: View, query: int, key: int) -> None:
    """Select a character's last token, and of another the token with the largest weight; -1 for the strongest key."""
    last, head = view.spans[query].stop - 1, view.layer_and_head[1]
    row = abs(view.traced.weights[head, last])
    _take_cell(last, view.spans[key].start + int(row[slice(*view.spans[key][:2])].argmax()) if key >= 0 else -1)


def _take_scale(scale: str, exclude_first: bool) -> None:
    state.change(colour=scale, sink_aside=exclude_first)
    state.rerun(*heads_tabs.SELECTED)


def _take_pin(name: str) -> None:
    pins = state.current().pinned
    state.change(pinned=tuple(p for p in pins if p != name) if name in pins else (*pins, name)[-MAX_PINNED:])
    state.rerun()  # the grid marks it too


def _map(view: View) -> Drawing:
    from attnviz.figures import heads

    cell = _cell(view)
    return heads.head_map(
        view.trace, view.labels, cell.layer, cell.head,
        scale=cell.scale, exclude_first=cell.exclude_first, query=cell.query, key=cell.key,
        ground=st.context.theme.type, unmerged=view.merged is not None,
        key_labels=view.key_labels if view.two_texts else None,
    )  # fmt: skip


def _path(view: View) -> Caption:
    cell = _cell(view)
    return path_numbers(view.trace, view.labels, cell.layer, cell.head, cell.query, cell.key, view.key_labels)


@state.part("tabs")
def tabs(view: View) -> None:
    """The open tab; the others are not computed."""
    TABS[controls.tabs(view, "Look closer")](replace(view, padded=True))
