"""The parts of the heads page of which one at a time is looked at closer, in the order they are offered."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attnviz.analysis.groups import log_softmax, next_token_losses
from attnviz.analysis.heads import statistics
from attnviz.analysis.rollout import reachable, rollout
from attnviz.config import ModelConfig
from attnviz.cost import attention_name
from attnviz.experiments import ablation
from attnviz.figures import ablation as ablation_figures
from attnviz.figures import head_detail, head_studies, heads
from attnviz.figures import rollout as rollout_figures
from attnviz.figures.theme import kv_colour
from attnviz.figures.words import count, listed
from attnviz.ui import charts, groups_runs, heads_runs, runs, state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.components.line_view import line_view
from attnviz.ui.heads_runs import HeadsView
from attnviz.ui.selection import head_name, heads_of, key_of, layer_and_head, pinned, query_of
from attnviz.ui.settings import MOST_PINNED
from attnviz.ui.words import quoted


def select(layer: int, head: int) -> None:
    """Look at another head, after a click in a grid."""
    state.change(layer=layer, head=head)
    state.rerun("head")


def number(view: HeadsView) -> None:
    """The weight of the query and key looked at, from two vectors to one number."""
    drawing = head_detail.number_explained(view.trace, view.labels, *layer_and_head(view), query_of(view), key_of(view))
    charts.show(drawing, "number")


def stages(view: HeadsView) -> None:
    """The whole head at three stages."""
    charts.show(heads.stage_maps(view.trace, view.labels, *layer_and_head(view)), "stages")


def lines(view: HeadsView) -> None:
    """The selected head and the pinned ones as lines between two columns of tokens."""
    shown = beside_one_another(view)
    layers, members = (list(axis) for axis in zip(*shown, strict=True))
    read = view.config.layer.kv_head_of
    line_view(
        view.trace.weights[layers, members], view.trace.allowed[layers], view.labels,
        [f"L{layer} H{head}" for layer, head in shown], [read[head] for head in members], view.config.n_kv_heads,
        key="lines",
        title=f"Lines as thick as the weight, for {', '.join(f'L{layer} H{head}' for layer, head in shown)}",
        note="Queries on the left, keys on the right; every query's lines share a weight of 1. Point at a token to see "
        "only its lines, click to keep them. The slider leaves out the weakest lines of every query. Pinned heads stay "
        "while others are selected.",
    )  # fmt: skip


def side_by_side(view: HeadsView) -> None:
    """The maps of the selected head and the pinned ones, two in a row, shaded alike."""
    _pins(view)
    shown = beside_one_another(view)
    if len(shown) == 1:
        st.info("Pin another head above, and its map stands beside this one.", icon=":material/push_pin:")
    log = state.current().colour == "log"
    for i in range(0, len(shown), 2):
        for column, (layer, head) in zip(st.columns(2, gap="large"), shown[i : i + 2], strict=False):
            with column:
                drawing = heads.head_map(view.trace, view.labels, layer, head, log=log, query=query_of(view))
                charts.show(drawing, f"side-{layer}-{head}")


def beside_one_another(view: HeadsView) -> list[tuple[int, int]]:
    """The selected head and the pinned ones, each once."""
    return list(dict.fromkeys([layer_and_head(view), *pinned(view)]))


def _pins(view: HeadsView) -> None:
    there = heads_of(view)
    state.control(
        st.multiselect, "Pinned heads, looked at beside the selected one", "pinned", options=list(there),
        shown=[name for name in state.current().pinned if name in there], format_func=head_name,
        max_selections=MOST_PINNED,
        reruns=[state.PAGE],  # the grid marks them too
    )  # fmt: skip


def does(view: HeadsView) -> None:
    """Statistics of all heads on this text, and what the selected head's role rests on."""
    layer, head = layer_and_head(view)
    found = statistics(view.trace.weights)
    for column, name in zip(st.columns(3), head_studies.STATISTICS, strict=True):
        with column:
            drawing = head_studies.statistic_map(found, name, len(view.labels), layer, head)
            charts.show(drawing, f"statistic-{name.replace('_', '-')}")
    scores, role = heads_runs.scores_of(view.settings), heads_runs.roles_of(view.settings)[layer][head]
    colour = kv_colour(view.config.layer.kv_head_of[head], view.config.n_kv_heads)
    charts.show(head_studies.role_scores(scores, role, layer, head, colour), "role")


def masks(view: HeadsView) -> None:
    """One layer under five masks; a click puts a mask in force for the whole page."""
    layer, head = layer_and_head(view)
    with st.container(horizontal=True):
        state.control(st.number_input, "Window, in tokens", "mask_window", min_value=1, max_value=128)
        state.control(st.number_input, "First tokens kept behind it", "mask_sinks", min_value=1, max_value=16)
        state.control(st.number_input, "Padding in front, in tokens", "mask_padding", min_value=1, max_value=127)
    offered = heads_runs.masks_of(state.current())
    found = heads_runs.masked_of(state.current(), view.ids, layer)
    st.markdown(f"#### Layer {layer} under {len(offered)} masks{_mask_losses(offered, found.losses)}")
    st.caption(
        f"The same model and the first {count(found.weights.shape[-1], 'token')} of the text, one line a mask. What is "
        "masked gets no weight, and what a query may still see sums to 1; a query that may see nothing has none. "
        "**Click a map to put its mask in force for the whole page.**"
    )
    in_force = [mask.in_force(state.current()) for mask in offered]
    head_grid(
        found.weights, found.allowed, view.labels[: found.weights.shape[-1]], view.config.layer.kv_head_of,
        key="masks", selected=(in_force.index(True) if any(in_force) else 0, head), on_select=_take_mask,
        kv_names=kv_names(view.config), row_names=[mask.name for mask in offered],
    )  # fmt: skip
    if not any(in_force):
        st.caption("The mask in force is another one: see “How it runs” on the left.")


def _take_mask(row: int, head: int) -> None:
    state.change(head=head, **heads_runs.masks_of(state.current())[row].fields())
    state.rerun(state.PAGE)


def _mask_losses(offered: list[heads_runs.Mask], losses: list[float]) -> str:
    """What the first three masks make of the loss, in a title."""
    if not losses:
        return ""
    said = [f"{mask.name.lower()} {loss:.2f}" for mask, loss in zip(offered[:3], losses, strict=False)]
    return f": {'; '.join(said)} nats a token"


def family(view: HeadsView) -> None:
    """The same text and the same layer under MHA, GQA, MQA and MLA; one hue is one KV head."""
    layer, head = layer_and_head(view)
    ids = view.ids[: heads_runs.MAX_COMPARED]
    if view.config.n_layers > 1:
        state.control(
            st.segmented_control, "Layer", "layer", reruns=["head"], shown=layer,
            options=range(view.config.n_layers), required=True,
        )  # fmt: skip
    st.markdown(f"#### Layer {layer} with fewer and fewer KV heads: heads of one hue share keys and values")
    trained = " Each was trained by itself: head 3 of one is not head 3 of another." if _is_trained(view) else ""
    st.caption(f"The same {count(len(ids), 'token')} of text. A row of a map is a query and sums to 1.{trained}")
    for member in groups_runs.variants(state.current()):
        config, traced = runs.config_of(member), runs.trace_of(member, ids, min(view.n_padding, len(ids) - 1))
        st.markdown(f"**{attention_name(config)}**: {_who_shares(config, head)}")
        head_grid(
            traced.weights[layer : layer + 1], traced.allowed[layer : layer + 1], view.labels[: len(ids)],
            config.layer.kv_head_of, key=f"family-{attention_name(config).lower()}", selected=(0, head),
            on_select=lambda _, chosen: select(layer, chosen), kv_names=kv_names(config), row_names=[f"Layer {layer}"],
        )  # fmt: skip


def kv_names(config: ModelConfig) -> list[str] | None:
    """What MLA's expanded keys are called; None for KV heads that are projected."""
    return [f"Keys {head}" for head in range(config.n_heads)] if config.attention == "mla" else None


def _is_trained(view: HeadsView) -> bool:
    return view.settings.model != "own"


def _who_shares(config: ModelConfig, head: int) -> str:
    """Which heads read what head `head` reads."""
    if config.attention == "mla":
        return f"every head has keys and values of its own, expanded from {config.kv_lora_rank} numbers a token"
    read = config.layer.kv_head_of
    others = [h for h in range(config.n_heads) if read[h] == read[head] and h != head]
    company = f"with {'head' if len(others) == 1 else 'heads'} {listed(others)}" if others else "alone"
    return f"{count(config.n_kv_heads, 'KV head')}; head {head} reads KV head {read[head]} {company}"


def rolled(view: HeadsView) -> None:
    """Rollout through the layers, with what it leaves out."""
    layer, _ = layer_and_head(view)
    shares, reach = rollout(view.trace.weights), reachable(view.trace.allowed)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(rollout_figures.rollout_map(shares, reach, view.labels, layer, query_of(view)), "rollout")
    with right:
        charts.show(rollout_figures.rollout_of_query(shares, view.labels, query_of(view)), "rollout-query")
        st.markdown(
            "**Weights are not an explanation.** Quite different weights can lead to the same prediction, and large "
            "ones need not be what mattered (Jain and Wallace, arXiv 1902.10186). What a head does to the prediction "
            "is seen by switching it off."
        )


def off(view: HeadsView) -> None:
    """The prediction and the loss with heads switched off, and what each head alone is worth on this text."""
    if len(view.ids) < 2:
        st.info("A single token has no next token to predict. Type a longer text.")
        return
    there, (layer, head) = heads_of(view), layer_and_head(view)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(
            st.multiselect, "Heads switched off", "off", options=list(there), format_func=head_name,
            shown=[name for name in state.current().off if name in there], max_selections=32,
            placeholder=f"none chosen: the selected one, L{layer} H{head}",
        )  # fmt: skip
        state.control(
            st.segmented_control, "What they hand on", "off_way", options=ablation.WAYS, required=True,
            format_func={"zero": "nothing", "mean": "their mean"}.get,
        )  # fmt: skip
    gone = [there[name] for name in state.current().off if name in there] or [(layer, head)]
    ids, way = view.ids[: heads_runs.MAX_ABLATED], state.current().off_way
    left, right = st.columns(2, gap="large")
    with left:
        _prediction(view, ids, gone, way)
    with right:
        place = st.empty()
        before, losses = heads_runs.effects_of(
            state.current(), ids, lambda done: place.progress(done, "Switching off one head after another …")
        )
        place.empty()
        charts.show(ablation_figures.effect_map(losses, before, way, layer, head), "effects")


def _prediction(view: HeadsView, ids: tuple[int, ...], gone: list[tuple[int, int]], way: str) -> None:
    """Loss and next tokens before and after."""
    query, tokens = min(query_of(view), len(ids) - 1), np.array(ids)
    before, after = (ablation.predict_without(view.model, ids, heads, way) for heads in ([], gone))
    losses = [float(next_token_losses(logits, tokens).mean()) for logits in (before, after)]
    names = listed(f"L{layer} H{head}" for layer, head in gone)
    st.markdown(f"#### Without {names}, the loss goes from {losses[0]:.3f} to {losses[1]:.3f} nats a token")
    padding = " Here the padding is read as text." if view.n_padding else ""
    st.caption(f"Mean over the {count(len(ids) - 1, 'prediction')} on this text; {view.origin}.{padding}")
    came = int(tokens[query + 1]) if query + 1 < len(ids) else None
    odds = [np.exp(log_softmax(logits[query])) for logits in (before, after)]
    charts.show(
        ablation_figures.next_tokens(*odds, heads_runs.vocabulary(), view.labels[query], query, came), "next-tokens"
    )


def crossed(view: HeadsView) -> None:
    """The text's queries on a second text's keys, in every layer and head."""
    if view.config.attention == "mla":
        st.info("Latent attention is built for one text here. Choose MHA, GQA or MQA on the left for a second one.")
        return
    state.control(st.text_area, "Second text, whose tokens become keys and values", "second_text", height=80)
    context = tuple(runs.tokenizer().encode(state.current().second_text))[: heads_runs.MAX_COMPARED]
    if not context:
        st.info("The second text is empty: type one above.")
        return
    (layer, head), ids = layer_and_head(view), view.ids[: heads_runs.MAX_COMPARED]
    weights = heads_runs.crossed_of(view.settings, ids, context)  # (L, H, T, S)
    labels, key_labels = view.labels[: len(ids)], runs.tokenizer().labels(list(context))
    allowed = np.ones(weights[:, 0].shape, bool)  # (L, T, S)
    query, key = np.unravel_index(int(weights[layer, head].argmax()), weights.shape[2:])
    st.markdown(
        f"#### Layer {layer}, head {head}: {quoted(labels[query])} reads {quoted(key_labels[key])} of the second text "
        f"with weight {weights[layer, head, query, key]:.2f}"
    )
    st.caption(
        f"Cross-attention: {count(len(ids), 'query token')} of the text, {count(len(context), 'key token')} of the "
        "second (at most 128 of each); each row sums to 1. What runs: each text is read by itself, then every layer's "
        "own projections take queries from the states of the one and keys and values from those of the other, without "
        f"a mask and without RoPE, since two texts have no distance. {_never_crossed(view)}"
    )
    read = view.config.layer.kv_head_of
    head_grid(
        weights, allowed, labels, read, key="crossed", selected=(layer, head), on_select=select, key_labels=key_labels
    )
    line_view(
        weights[[layer], [head]], allowed[[layer]], labels, [f"L{layer} H{head}"], [read[head]],
        view.config.n_kv_heads, key="crossed-lines", key_labels=key_labels,
    )  # fmt: skip


def _never_crossed(view: HeadsView) -> str:
    return "The model was never trained to do this." if _is_trained(view) else f"{view.origin.capitalize()}."
