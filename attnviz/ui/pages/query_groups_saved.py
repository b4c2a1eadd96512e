"""The query-grouping page of a saved run: what its file says about KV heads, keys and values."""

from __future__ import annotations

import streamlit as st

from attnviz.compute import recorded
from attnviz.compute.view import View, drawable
from attnviz.figures import groups, recorded_groups
from attnviz.figures.drawing import escaped
from attnviz.ui import charts, controls, state
from attnviz.ui.components.group_diagram import group_diagram
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.headline import grid_options


def is_saved(view: View) -> bool:
    """Check whether a saved run is selected that can be drawn."""
    return view.settings.recorded and drawable(view)


@state.part("saved", is_saved)
def saved(view: View) -> None:
    """Which KV head each query head reads, the maps of a layer, and how similar keys and values are."""
    (layer, head), mixer = view.layer_and_head, view.mixer
    if why := mixer.cannot("sharing"):
        st.info(why)
    else:
        diagram = groups.sharing(mixer.n_heads, mixer.n_kv_heads, mixer.kv_head_of, head, cached=view.config.causal)
        group_diagram(diagram, key="diagram", on_head=_take)
    st.markdown(f"## Layer {layer}: {mixer.maps_finding()}")
    st.caption(f"{mixer.maps_note} Weights: {escaped(view.origin)}.")
    if view.config.n_layers > 1:
        controls.control(
            st.segmented_control, "Layer", "layer", shown=layer, options=range(view.config.n_layers), required=True,
        )  # fmt: skip
    head_grid(
        [view.traced.weights], [view.traced.allowed], view.labels, key="layer-maps", selected=(0, head),
        on_select=lambda _, chosen: _take(chosen), sides=view.sides,
        row_names=view.layer_names[layer : layer + 1] or [f"Layer {layer}"],
        masks=view.config.causal,
        **grid_options([mixer]),
    )  # fmt: skip
    _similarity(view)


def _take(head: int) -> None:
    state.change(head=head)
    state.rerun("saved")


def _similarity(view: View) -> None:
    (layer, _), mixer, run = view.layer_and_head, view.mixer, view.saved
    if run is None:
        return
    controls.control(st.segmented_control, "Compare", "alike", options=("keys", "values"), required=True)
    part = view.settings.alike
    if why := mixer.cannot(f"similar {part}"):
        st.info(why)
        return
    what = "KV head" if mixer.shares_kv_heads else "head"
    drawing = recorded_groups.similarity(recorded.cosines_of(run, layer, part), part, layer, what)
    charts.show(drawing, "similarity")
