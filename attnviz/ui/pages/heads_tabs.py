"""Tabs of the Heads page on the maps of the selected head and of several; one tab at a time is shown."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attnviz.compute import heads as compute_heads
from attnviz.compute.view import View, head_name
from attnviz.compute.vocabulary import vocabulary
from attnviz.figures import head_detail, head_values, heads
from attnviz.figures import rollout as rollout_figures
from attnviz.figures.theme import kv_colour, kv_scale
from attnviz.mechanisms import Mixer
from attnviz.phrases import count, first_of
from attnviz.session.pages.heads import MAX_PINNED
from attnviz.trace import LayerTrace
from attnviz.ui import charts, controls, state
from attnviz.ui.components.line_view import line_view
from attnviz.ui.components.narrow_screen import narrow_screen

SELECTED = ("top", "text", "head", "path", "tabs")  # parts that show the selected head or cell
DIFFERENCES = {"heads": "with another head", "texts": "with itself on a second text"}
AVERAGES = {"layer": "the selected layer", "all": "all layers"}


def select(layer: int, head: int) -> None:
    """Select another head, after a click in a grid."""
    state.change(layer=layer, head=head)
    state.rerun(*SELECTED)


def _read_by(mixer: Mixer, head: int) -> str:
    """Name what a head reads; "" where a saved run does not say it."""
    return kv_names(mixer)[mixer.kv_head_of[head]] if mixer.keys_known else ""


def kv_names(mixer: Mixer) -> list[str]:
    """Return the names of the KV heads, or of MLA's expanded keys."""
    return [f"{'KV' if mixer.shares_kv_heads else 'Keys'} {kv_head}" for kv_head in range(mixer.n_kv_heads)]


def number(view: View) -> None:
    """The weight of the selected query and key, from two vectors to one number."""
    if why := view.mixer.cannot("score"):
        st.info(why)
        return
    at = *view.layer_and_head, view.query, view.key
    drawing = head_detail.weight_by_steps(view.trace, view.labels, *at, view.key_labels)
    charts.show(drawing, "number")


def stages(view: View) -> None:
    """The selected head's maps of scores, masked scores and weights."""
    if why := view.mixer.cannot("score") or view.mixer.cannot("stages"):
        st.info(why)
        return
    if note := view.mixer.score_note:
        st.caption(f"{note} The scores are drawn after that.")
    ground, stacked = st.context.theme.type, narrow_screen() and not view.settings.present
    drawing = heads.stage_maps(
        view.trace, view.labels, *view.layer_and_head, ground=ground, stacked=stacked, key_labels=view.key_labels
    )
    charts.show(drawing, "stages")


def lines(view: View) -> None:
    """The selected head and the pinned ones as lines between two columns of tokens."""
    shown = selected_and_pinned(view)
    ones = [(view.trace.layers[layer], head) for layer, head in shown]
    line_view(
        np.stack([one.shares[head] for one, head in ones]), np.stack([one.allowed for one, _ in ones]), view.labels,
        [f"L{layer} H{head}" for layer, head in shown], [one.mixer.kv_head_of[head] for one, head in ones],
        view.config.n_kv_heads,
        key="lines",
        title=f"Line thickness = attention weight, for {', '.join(f'L{layer} H{head}' for layer, head in shown)}",
        note="Queries on the left, keys on the right. The slider hides each query's smallest weights. Pinned heads "
        f"stay when another head is selected.{_shares_notes(*(one for one, _ in ones))}",
        reads=[_read_by(one.mixer, head) for one, head in ones], query=view.query,
        sides=view.sides,
    )  # fmt: skip


def writes(view: View) -> None:
    """Output of the selected head: value-weighted maps, output norms, and the logits it changes most."""
    (layer, head), config = view.layer_and_head, view.config
    if config.norms_per_layer == 4:
        st.info("This model normalises the attention output, so what one head adds to the residual stream depends on "
                "all heads. It is not drawn for a single head.")  # fmt: skip
        return
    if why := view.mixer.cannot("writes"):
        st.info(why)
        return
    written, allowed, read = compute_heads.writes_of(view), view.trace.masks[layer], view.mixer.kv_head_of[head]
    name, scale = f"L{layer} H{head}", kv_scale(read, config.n_kv_heads, ground=st.context.theme.type)
    left, right = st.columns(2, gap="large")
    with left:
        colour = kv_colour(read, config.n_kv_heads)
        charts.show(head_values.output_norms(written, view.labels, view.query, name, colour), "norms")
    with right:
        effects = compute_heads.logit_effects_of(view)
        words = vocabulary(view.settings).after(view.ids[: view.query + 1])
        bars = head_values.logit_bars(effects, words, view.labels, view.query, name)
        charts.show(bars, "logits")
    for column, projected in zip(st.columns(2, gap="large"), (False, True), strict=True):
        with column:
            drawing = head_values.value_map(written, allowed, view.labels, scale, view.query, projected=projected)
            charts.show(drawing, "projected" if projected else "weighted")


def difference(view: View) -> None:
    """Map of the selected head's weights minus another head's, or minus its own on another text."""
    controls.control(
        st.segmented_control, "Compare the selected head", "difference_of", options=list(DIFFERENCES), required=True,
        format_func=DIFFERENCES.__getitem__,
    )  # fmt: skip
    if view.settings.difference_of == "texts":
        if why := view.refusal("second text"):
            st.info(why)
            return
        _difference_of_texts(view)
    else:
        _difference_of_heads(view)


def _difference_of_heads(view: View) -> None:
    heads_by_name, (layer, head) = view.heads, view.layer_and_head
    neighbour = f"{layer}.{(head + 1) % view.mixer.n_heads}"
    other = view.settings.other_head if view.settings.other_head in heads_by_name else neighbour
    controls.control(
        st.selectbox, "With head", "other_head", options=list(heads_by_name), shown=other, format_func=head_name
    )  # fmt: skip
    other_layer, other_head = heads_by_name[other]
    here, there = view.traced, view.trace.layers[other_layer]
    names = f"L{layer} H{head}", f"L{other_layer} H{other_head}"
    note = f"The weights of {names[0]} minus those of {names[1]}, on this text.{_shares_notes(here, there)}"
    drawing = head_values.difference_map(
        here.shares[head], there.shares[other_head], here.allowed | there.allowed, view.labels, names, note,
        key_labels=view.key_labels,
    )  # fmt: skip
    charts.show(drawing, "difference")


def _difference_of_texts(view: View) -> None:
    second_text("Second text")
    two = compute_heads.two_texts_of(view)
    if two is None:
        st.info("The second text is empty. Type one above.")
        return
    n, (layer, head) = len(two.labels[0]), view.layer_and_head
    labels = [a if a == b else f"{a} | {b}" for a, b in zip(*two.labels, strict=True)]
    note = f"L{layer} H{head} on the {first_of(n, 'token')} of each text; labels: first | second text's token."
    more = "The shorter text gives the length. Positions are compared, whatever the tokens are."
    allowed = two.allowed[0] | two.allowed[1]
    names = "Text", "second text"
    drawing = head_values.difference_map(*two.weights, allowed, labels, names, note, more)
    charts.show(drawing, "difference")


def second_text(label: str) -> None:
    """Text area for a second text, with a button as below the first one."""
    controls.control(st.text_area, label, "second_text", height=80)
    st.button("Apply", key="apply-second-text", on_click=state.rerun, args=("tabs",))


def average(view: View) -> None:
    """Mean map of the selected layer's heads, or of all heads."""
    controls.control(
        st.segmented_control, "Mean over", "average", options=list(AVERAGES), required=True,
        format_func=AVERAGES.__getitem__,
    )  # fmt: skip
    of = f"all {count(len(view.heads), 'head')}"
    if view.settings.average == "layer":
        of = f"{count(view.mixer.n_heads, 'head')} of layer {view.layer_and_head[0]}"
    drawing = head_values.average_map(*compute_heads.average_of(view), view.labels, of, view.query, view.key_labels)
    charts.show(drawing, "average")
    averaged = [view.traced] if view.settings.average == "layer" else view.trace.layers
    if note := _shares_notes(*averaged):
        st.caption(note.strip())


def _shares_notes(*layers: LayerTrace) -> str:
    """Return what the shares of these layers' weights are, for the end of a note; "" if they are attention weights."""
    return "".join(dict.fromkeys(f" {layer.mixer.shares_note}" for layer in layers if layer.mixer.shares_note))


def side_by_side(view: View) -> None:
    """Maps of the selected and the pinned heads, two per row, on one colour scale."""
    _pins(view)
    shown = selected_and_pinned(view)
    if len(shown) == 1:
        st.info("Pin another head above to see its map beside this one.", icon=":material/push_pin:")
    scale, ground = view.settings.colour, st.context.theme.type
    for i in range(0, len(shown), 2):
        for column, (layer, head) in zip(st.columns(2, gap="large"), shown[i : i + 2], strict=False):
            with column:
                drawing = heads.head_map(
                    view.trace, view.labels, layer, head, scale=scale, query=view.query, ground=ground,
                    key_labels=view.key_labels if view.two_texts else None,
                )  # fmt: skip
                charts.show(drawing, f"side-{layer}-{head}")


def selected_and_pinned(view: View) -> list[tuple[int, int]]:
    """Return (layer, head) of the selected head and of the pinned ones, without duplicates."""
    return list(dict.fromkeys([view.layer_and_head, *view.pinned]))


def _pins(view: View) -> None:
    heads_by_name = view.heads
    controls.control(
        st.multiselect, "Pinned heads, shown beside the selected one", "pinned", options=list(heads_by_name),
        shown=[name for name in view.settings.pinned if name in heads_by_name], format_func=head_name,
        max_selections=MAX_PINNED,
        reruns=(),  # the grid marks them too
    )  # fmt: skip


def rolled(view: View) -> None:
    """Attention rollout through the layers, and its limits as an explanation."""
    if why := view.refusal("rollout"):
        st.info(why)
        return
    (layer, _), (shares, reach) = view.layer_and_head, compute_heads.rollout_of(view)
    notes = tuple(dict.fromkeys(each.mixer.rollout_note for each in view.config.layers if each.mixer.rollout_note))
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(rollout_figures.rollout_map(shares, reach, view.labels, layer, view.query, notes), "rollout")
    with right:
        charts.show(rollout_figures.rollout_of_query(shares, view.labels, view.query), "rollout-query")
        st.markdown(
            "**Do attention weights explain a prediction?** Jain and Wallace (arXiv 1902.10186) found other weights "
            "that give nearly the same prediction. Wiegreffe and Pinter (arXiv 1908.04626) reply that this depends on "
            "what counts as an explanation, and propose tests of when weights can be one. “Ablate heads” measures what "
            "a head contributes to the prediction."
        )
