"""Tabs of the Heads page, in their order; one at a time is shown."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np
import streamlit as st

from attnviz.analysis.groups import log_softmax, next_token_losses
from attnviz.analysis.heads import statistics
from attnviz.analysis.rollout import reachable, rollout
from attnviz.compute import heads as compute_heads
from attnviz.compute import models
from attnviz.compute import query_groups as compute_groups
from attnviz.compute.view import View, head_name
from attnviz.config import ModelConfig
from attnviz.cost import attention_name
from attnviz.experiments import ablation
from attnviz.figures import ablation as ablation_figures
from attnviz.figures import head_detail, head_studies, head_values, heads, role_captions
from attnviz.figures import rollout as rollout_figures
from attnviz.figures.drawing import Drawing, escaped
from attnviz.figures.group_quality import N_AS_MHA, N_TRAINED_ON
from attnviz.figures.numbers import printed
from attnviz.figures.theme import kv_colour, kv_scale
from attnviz.phrases import count, listed
from attnviz.session.opening import offered, short_name
from attnviz.session.settings import MAX_PINNED, MODEL_NAMES, MODELS, OWN_THETA
from attnviz.ui import charts, state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.components.line_view import line_view
from attnviz.ui.headline import quoted, soft_capped
from attnviz.ui.measuring import MeasurementProgress

TRAINING = (  # as in the model card, attnviz/checkpoints/README.md
    f"MHA, GQA and MQA share one training run up to {N_AS_MHA:,} of {N_TRAINED_ON:,} tokens; then the KV heads "
    "of this MHA were averaged into groups, and each model was trained separately. MLA had its own run: its heads do "
    "not correspond to theirs."
)
STOPPED = "ablation stopped"  # session key: the (ablation, model, text) whose measurement the user has stopped
SELECTED = ("top", "text", "head", "path", "closer")  # parts that show the selected head or cell
DIFFERENCES = {"heads": "with another head", "texts": "with itself on a second text"}
AVERAGES = {"layer": "the selected layer", "all": "all layers"}
MAX_SIMILAR = 10  # heads of another model in the table
ABLATIONS = {"zero": "zero ablation", "mean": "mean ablation"}


def select(layer: int, head: int) -> None:
    """Select another head, after a click in a grid."""
    state.change(layer=layer, head=head)
    state.rerun(*SELECTED)


def number(view: View) -> None:
    """The weight of the selected query and key, from two vectors to one number."""
    if view.config.attention_softcap is not None:
        st.info(f"{soft_capped(view)} These steps are not drawn for it.")
        return
    drawing = head_detail.weight_by_steps(view.trace, view.labels, *view.layer_and_head, view.query, view.key)
    charts.show(drawing, "number")


def stages(view: View) -> None:
    """The selected head's maps of scores, masked scores and weights."""
    if view.config.attention_softcap is not None:
        st.caption(f"{soft_capped(view)} The scores are drawn after this cap.")
    ground = st.context.theme.type
    charts.show(heads.stage_maps(view.trace, view.labels, *view.layer_and_head, ground=ground), "stages")


def lines(view: View) -> None:
    """The selected head and the pinned ones as lines between two columns of tokens."""
    shown = selected_and_pinned(view)
    layers, members = (list(axis) for axis in zip(*shown, strict=True))
    read = view.config.layer.kv_head_of
    line_view(
        view.trace.weights[layers, members], view.trace.allowed[layers], view.labels,
        [f"L{layer} H{head}" for layer, head in shown], [read[head] for head in members], view.config.n_kv_heads,
        key="lines",
        title=f"Line thickness = attention weight, for {', '.join(f'L{layer} H{head}' for layer, head in shown)}",
        note="Queries on the left, keys on the right. The slider hides each query's smallest weights. Pinned heads "
        "stay when another head is selected.",
        kv_names=kv_names(view.config),
    )  # fmt: skip


def writes(view: View) -> None:
    """Output of the selected head: value-weighted maps, output norms, and the logits it changes most."""
    (layer, head), config = view.layer_and_head, view.config
    if config.norms_per_layer == 4:
        st.info("This model normalises the attention output, so what one head adds to the residual stream depends on "
                "all heads. It is not drawn for a single head.")  # fmt: skip
        return
    found, allowed, read = compute_heads.writes_of(view), view.trace.allowed[layer], config.layer.kv_head_of[head]
    name, scale = f"L{layer} H{head}", kv_scale(read, config.n_kv_heads, ground=st.context.theme.type)
    left, right = st.columns(2, gap="large")
    with left:
        colour = kv_colour(read, config.n_kv_heads)
        charts.show(head_values.output_norms(found, view.labels, view.query, name, colour), "norms")
    with right:
        effects = compute_heads.logit_effects_of(view)
        bars = head_values.logit_bars(effects, compute_heads.vocabulary(view.settings), view.labels, view.query, name)
        charts.show(bars, "logits")
    for column, projected in zip(st.columns(2, gap="large"), (False, True), strict=True):
        with column:
            drawing = head_values.value_map(found, allowed, view.labels, scale, view.query, projected=projected)
            charts.show(drawing, "projected" if projected else "weighted")


def difference(view: View) -> None:
    """Map of the selected head's weights minus another head's, or minus its own on another text."""
    state.control(
        st.segmented_control, "Compare the selected head", "difference_of", options=list(DIFFERENCES), required=True,
        format_func=DIFFERENCES.__getitem__,
    )  # fmt: skip
    if view.settings.difference_of == "texts":
        _difference_of_texts(view)
    else:
        _difference_of_heads(view)


def _difference_of_heads(view: View) -> None:
    heads_by_name, (layer, head), trace = view.heads, view.layer_and_head, view.trace
    neighbour = f"{layer}.{(head + 1) % view.config.n_heads}"
    other = view.settings.other_head if view.settings.other_head in heads_by_name else neighbour
    state.control(
        st.selectbox, "With head", "other_head", options=list(heads_by_name), shown=other, format_func=head_name
    )  # fmt: skip
    other_layer, other_head = heads_by_name[other]
    allowed = trace.allowed[layer] | trace.allowed[other_layer]
    names = f"L{layer} H{head}", f"L{other_layer} H{other_head}"
    note = f"The weights of {names[0]} minus those of {names[1]}, on this text."
    drawing = head_values.difference_map(
        trace.weights[layer, head], trace.weights[other_layer, other_head], allowed, view.labels, names, note
    )
    charts.show(drawing, "difference")


def _difference_of_texts(view: View) -> None:
    _second_text("Second text")
    two = compute_heads.two_texts_of(view)
    if two is None:
        st.info("The second text is empty. Type one above.")
        return
    n, (layer, head) = len(two.labels[0]), view.layer_and_head
    labels = [a if a == b else f"{a} | {b}" for a, b in zip(*two.labels, strict=True)]
    note = f"L{layer} H{head} on the first {count(n, 'token')} of each text; labels: first | second text's token."
    more = "The shorter text gives the length. Positions are compared, whatever the tokens are."
    allowed = two.allowed[0] | two.allowed[1]
    names = "Text", "second text"
    drawing = head_values.difference_map(*two.weights, allowed, labels, names, note, more)
    charts.show(drawing, "difference")


def _second_text(label: str) -> None:
    """Text area for a second text, with a button as below the first one."""
    state.control(st.text_area, label, "second_text", height=80)
    st.button("Apply", key="apply-second-text", on_click=state.rerun, args=("closer",))


def average(view: View) -> None:
    """Mean map of the selected layer's heads, or of all heads."""
    state.control(
        st.segmented_control, "Mean over", "average", options=list(AVERAGES), required=True,
        format_func=AVERAGES.__getitem__,
    )  # fmt: skip
    (layer, _), trace, n_heads = view.layer_and_head, view.trace, view.config.n_heads
    if view.settings.average == "layer":
        weights, allowed = trace.weights[layer], trace.allowed[layer]
        of = f"{count(n_heads, 'head')} of layer {layer}"
    else:
        weights, allowed = np.stack([layer.mean(0) for layer in trace.weights]), trace.allowed.any(0)
        of = f"all {count(len(view.heads), 'head')}"
    charts.show(head_values.average_map(weights, allowed, view.labels, of, view.query), "average")


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
                    view.trace, view.labels, layer, head, scale=scale, query=view.query, ground=ground
                )
                charts.show(drawing, f"side-{layer}-{head}")


def selected_and_pinned(view: View) -> list[tuple[int, int]]:
    """Return (layer, head) of the selected head and of the pinned ones, without duplicates."""
    return list(dict.fromkeys([view.layer_and_head, *view.pinned]))


def _pins(view: View) -> None:
    heads_by_name = view.heads
    state.control(
        st.multiselect, "Pinned heads, shown beside the selected one", "pinned", options=list(heads_by_name),
        shown=[name for name in view.settings.pinned if name in heads_by_name], format_func=head_name,
        max_selections=MAX_PINNED,
        reruns=(),  # the grid marks them too
    )  # fmt: skip


def does(view: View) -> None:
    """Statistics of all heads on this text, and the selected head's role scores on the probes and on this text."""
    (layer, head), trace = view.layer_and_head, view.trace
    if (trace.allowed.sum(-1) > 1).any():
        found = statistics(trace.weights, trace.allowed)
        for place, name in zip(st.columns(3), head_studies.STATISTICS, strict=True):
            with place:
                drawing = head_studies.statistic_map(found, name, layer, head)
                charts.show(drawing, f"statistic-{name.replace('_', '-')}")
    else:
        st.info("With this text, mask and window, no query can attend to more than one key. Nothing can be compared.")
    scores, role = (
        compute_heads.scores_of(view.settings).of(layer, head),
        compute_heads.roles_of(view.settings)[layer][head],
    )
    here, column = compute_heads.text_scores_of(view, layer, head)
    colour = kv_colour(view.config.layer.kv_head_of[head], view.config.n_kv_heads)
    left, right = st.columns(2, gap="large")
    probes = compute_heads.probes_of(view.settings)
    with left:
        if scores.n_queries:
            charts.show(head_studies.probe_scores(scores, role, probes, layer, head, colour), "role")
        else:
            st.info(role_captions.role_text(role, scores, probes))
    with right:
        if here.n_queries:
            charts.show(head_studies.text_scores(here, column, view.labels, colour), "on-this-text")
    st.caption(role_captions.DEFINITION)


def masks(view: View) -> None:
    """One layer under several masks; a click selects a mask on all pages."""
    layer, head = view.layer_and_head
    with st.container(horizontal=True):
        state.control(st.number_input, "Window, in tokens", "mask_window")
        state.control(st.number_input, "Attention-sink tokens", "mask_sinks")
        state.control(st.number_input, "Padding at the start, in tokens", "mask_padding")
    offered = compute_heads.masks_of(view.settings)
    found = compute_heads.masked_of(view.settings, view.ids, layer)
    n = found.weights.shape[-1]
    st.markdown(f"## Layer {layer} under {len(offered)} masks{_mask_losses(offered, found.losses)}")
    st.caption(
        f"The same model on the first {count(n, 'token')} of the text, one row of maps per mask. "
        + (f"Loss: mean over {count(n - 1, 'next-token prediction')}. " if n > 1 else "")
        + "Masked keys get no weight; the weights of the others sum to 1, and a query with all keys masked gets zeros. "
        "**Click a map to select its mask on all pages.**"
    )
    selected = [mask.selected(view.settings) for mask in offered]
    head_grid(
        found.weights, found.allowed, view.labels[: found.weights.shape[-1]], view.config.layer.kv_head_of,
        key="masks", selected=(selected.index(True) if any(selected) else 0, head), on_select=_take_mask,
        kv_names=kv_names(view.config), row_names=[mask.name for mask in offered],
    )  # fmt: skip
    if not any(selected):
        st.caption("The selected mask is none of these: see “Mask and position settings” in the sidebar.")


def _take_mask(row: int, head: int) -> None:
    state.change(head=head, **compute_heads.masks_of(state.current())[row].fields())
    state.rerun()


def _mask_losses(offered: list[compute_heads.Mask], losses: list[float]) -> str:
    """Return the losses under the first three masks, for a title: the others are not masks to predict with."""
    parts = [f"{loss:.3f} ({mask.name.lower()})" for mask, loss in zip(offered, losses, strict=False)]
    return f": loss {', '.join(parts)} nats per token" if parts else ""


def family(view: View) -> None:
    """One layer on the same text under MHA, GQA, MQA and MLA; one hue is one KV head."""
    layer, head = view.layer_and_head
    ids = view.ids[: compute_heads.MAX_COMPARED]
    if view.config.n_layers > 1:
        state.control(
            st.segmented_control, "Layer", "layer", reruns=SELECTED, shown=layer,
            options=range(view.config.n_layers), required=True,
        )  # fmt: skip
    members = compute_groups.variants(view.settings)
    if view.settings.opened:
        st.info("This part compares the five checkpoints, which were trained on the same books. Choose one of them in "
                "the sidebar.")  # fmt: skip
        return
    st.markdown(f"## Layer {layer} in {count(len(members), 'model')}, coloured by KV head")
    trained = f" {TRAINING}" if _is_trained(view) else ""
    st.caption(f"The first {count(len(ids), 'token')} of the text. Each row of a map is a query.{trained}")
    for member in members:
        config, traced = models.config_of(member), models.trace_of(member, ids, min(view.n_padding, len(ids) - 1))
        st.markdown(f"**{attention_name(config)}**: {_sharing(config, head)}")
        head_grid(
            traced.weights[layer : layer + 1], traced.allowed[layer : layer + 1], view.labels[: len(ids)],
            config.layer.kv_head_of, key=f"family-{attention_name(config).lower()}", selected=(0, head),
            on_select=lambda _, chosen: select(layer, chosen), kv_names=kv_names(config), row_names=[f"Layer {layer}"],
        )  # fmt: skip


def kv_names(config: ModelConfig) -> list[str] | None:
    """Return names for MLA's expanded keys; None for the other types of attention."""
    return [f"Keys {head}" for head in range(config.n_heads)] if config.attention == "mla" else None


def _is_trained(view: View) -> bool:
    return view.settings.model != "own"


def _sharing(config: ModelConfig, head: int) -> str:
    """Return a phrase on the KV head that `head` reads, and the heads it shares it with."""
    if config.attention == "mla":
        return (
            f"each head has keys and values of its own, expanded from {config.kv_lora_rank} numbers per token; all "
            f"heads share one RoPE key of {config.qk_rope_head_dim}"
        )
    read = config.layer.kv_head_of
    others = [h for h in range(config.n_heads) if read[h] == read[head] and h != head]
    readers = f"with {'head' if len(others) == 1 else 'heads'} {listed(others)}" if others else "alone"
    return f"{count(config.n_kv_heads, 'KV head')}; head {head} reads KV head {read[head]} {readers}"


def rolled(view: View) -> None:
    """Attention rollout through the layers, and its limits as an explanation."""
    layer, _ = view.layer_and_head
    shares, reach = rollout(view.trace.weights), reachable(view.trace.allowed)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(rollout_figures.rollout_map(shares, reach, view.labels, layer, view.query), "rollout")
    with right:
        charts.show(rollout_figures.rollout_of_query(shares, view.labels, view.query), "rollout-query")
        st.markdown(
            "**Do attention weights explain a prediction?** Jain and Wallace (arXiv 1902.10186) found other weights "
            "that give nearly the same prediction. Wiegreffe and Pinter (arXiv 1908.04626) reply that this depends on "
            "what counts as an explanation, and propose tests of when weights can be one. “Ablate heads” measures what "
            "a head contributes to the prediction."
        )


def off(view: View) -> None:
    """The prediction and the loss with heads ablated, and how much each head alone lowers the loss on this text."""
    if len(view.ids) < 2:
        st.info("A single token has no next token to predict. Type a longer text.")
        return
    heads_by_name, (layer, head) = view.heads, view.layer_and_head
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(
            st.multiselect, "Ablated heads", "off", options=list(heads_by_name), format_func=head_name,
            shown=[name for name in view.settings.off if name in heads_by_name], max_selections=32,
            placeholder=f"the selected one, L{layer} H{head}",
        )  # fmt: skip
        state.control(
            st.segmented_control, "Type of ablation", "off_way", options=list(ABLATIONS),
            required=True, format_func=ABLATIONS.get,
        )  # fmt: skip
    ablated = [heads_by_name[name] for name in view.settings.off if name in heads_by_name] or [(layer, head)]
    ids = view.ids[: compute_heads.MAX_ABLATED]
    left, right = st.columns(2, gap="large")
    with left:
        title = st.empty()
        losses = _prediction(view, ids, ablated)
        title.markdown(_without(ablated, *losses))
    with right:
        effects = _effects(view, ids)
    after = effects.losses[ablated[0]] if len(ablated) == 1 and effects.complete else losses[1]
    title.markdown(_without(ablated, effects.before, after))  # the number of the chart on the right


def _without(ablated: list[tuple[int, int]], before: float, after: float) -> str:
    """Return the title of the prediction without these heads."""
    names = listed(f"L{layer} H{head}" for layer, head in ablated)
    return f"## Without {names}, the loss goes from {before:.3f} to {after:.3f} nats per token"


def _effects(view: View, ids: tuple[int, ...]) -> compute_heads.Effects:
    """Measure and draw how much each head alone lowers the loss; the measurement can be stopped and resumed."""
    key = view.settings.off_way, view.config, view.settings.model, view.settings.seed, ids
    stopped = st.session_state.get(STOPPED) == key
    above, chart = st.container(), st.empty()
    with above:
        place = st.empty()
        running = MeasurementProgress(
            "Ablating each head", "Stop ablating", place, chart, partial(_effect_map, view), partial(_set_stopped, key)
        )
        effects = compute_heads.effects_of(view.settings, ids, None if stopped else running)
        place.empty()
        if not effects.complete:
            left = effects.losses.size - effects.n_measured
            st.button(f"Ablate the other {count(left, 'head')}", on_click=_set_stopped, args=(None,))
    if effects.n_measured:
        with chart.container():
            charts.show(_effect_map(view, effects), "effects")
    return effects


def _effect_map(view: View, effects: compute_heads.Effects) -> Drawing:
    return ablation_figures.effect_map(effects.losses, effects.before, view.settings.off_way, *view.layer_and_head)


def _set_stopped(key: Hashable) -> None:
    st.session_state[STOPPED] = key
    state.rerun("closer")


def _prediction(view: View, ids: tuple[int, ...], ablated: list[tuple[int, int]]) -> tuple[float, ...]:
    """Draw the next tokens before and after ablation; return the loss before and after it, in nats per token."""
    query, means = min(view.query, len(ids) - 1), compute_heads.means_of(view.settings)
    before, after = (ablation.predict_without(view.model, ids, heads, means) for heads in ([], ablated))
    padding = " Padding tokens are not masked here." if view.n_padding else ""
    reference = (
        f" A head's output is replaced by its mean over "
        f"{count(len(compute_heads.reference(view.settings)), 'token')} of a fixed text, written for this project."
        if means is not None
        else ""
    )
    st.caption(
        f"Loss: mean over {count(len(ids) - 1, 'next-token prediction')} in the first {count(len(ids), 'token')} of "
        f"the text; {view.origin}.{reference}{padding}"
    )
    actual = ids[query + 1] if query + 1 < len(ids) else None
    words = compute_heads.vocabulary(view.settings)
    odds, odds_after = (np.exp(log_softmax(logits[query])) for logits in (before, after))
    charts.show(
        ablation_figures.next_tokens(odds, odds_after, words, view.labels[query], query, actual),
        "next-tokens",
    )
    return tuple(float(next_token_losses(logits, np.array(ids)).mean()) for logits in (before, after))


def crossed(view: View) -> None:
    """Cross-attention: the text's queries on a second text's keys, in all layers and heads."""
    if view.config.attention == "mla":
        st.info("Cross-attention is not implemented for MLA. Choose MHA, GQA or MQA in the sidebar.")
        return
    _second_text("Second text, whose tokens become keys and values")
    reader = models.tokenizer_of(view.settings.model)
    context = tuple(reader.encode(view.settings.second_text))[: compute_heads.MAX_COMPARED]
    if not context:
        st.info("The second text is empty. Type one above.")
        return
    key_labels = reader.labels(list(context))
    if problem := models.beyond_embeddings(context, key_labels, view.config.vocab_size):
        st.error(f"In the second text {escaped(problem)}; leave it out.")
        return
    (layer, head), ids = view.layer_and_head, view.ids[: compute_heads.MAX_COMPARED]
    weights = compute_heads.crossed_of(view.settings, ids, context)  # (L, H, T, S)
    labels = view.labels[: len(ids)]
    allowed = np.ones(weights[:, 0].shape, bool)  # (L, T, S)
    query, key = np.unravel_index(int(weights[layer, head].argmax()), weights.shape[2:])
    st.markdown(
        f"## Layer {layer}, head {head}: {quoted(labels[query])} reads {quoted(key_labels[key])} of the second text "
        f"with weight {printed(weights[layer, head, query, key])}"
    )
    st.caption(
        f"{count(len(ids), 'query token')} of the text, {count(len(context), 'key token')} of the second text (at most "
        f"{compute_heads.MAX_COMPARED} of each); the weights of each row sum to 1. Each text runs through the model "
        "separately; then each layer takes queries from the first text's hidden states and keys and values from the "
        "second's, without a mask and without RoPE, since positions in two texts have no distance. "
        f"{_training_note(view)}"
    )
    read = view.config.layer.kv_head_of
    head_grid(
        weights, allowed, labels, read, key="crossed", selected=(layer, head), on_select=select, key_labels=key_labels
    )
    line_view(
        weights[[layer], [head]], allowed[[layer]], labels, [f"L{layer} H{head}"], [read[head]],
        view.config.n_kv_heads, key="crossed-lines", key_labels=key_labels,
    )  # fmt: skip


def _training_note(view: View) -> str:
    return "The model was not trained for cross-attention." if _is_trained(view) else f"{view.origin.capitalize()}."


def two_models(view: View) -> None:
    """The selected head beside a head of another model, on the same text, each with its own tokenizer."""
    names = [name for name in (*MODELS, *offered(view.settings.model, MODELS)) if name != view.settings.model]
    shown = view.settings.other_model if view.settings.other_model in names else names[0]
    state.control(
        st.selectbox, "Other model", "other_model", options=names, shown=shown,
        format_func=lambda name: MODEL_NAMES.get(name) or short_name(name),
    )  # fmt: skip
    other = view.but(model=shown, padding=0, theta=OWN_THETA)
    if other.problem:
        st.error(escaped(other.problem), icon=":material/error:")
        return
    (layer, head), heads_by_name = view.layer_and_head, other.heads
    ranked = compute_heads.most_similar(view.settings, layer, head, other.settings)
    best = f"{ranked[0][0]}.{ranked[0][1]}" if ranked else ""
    chosen = next(name for name in (view.settings.other_head, best, *heads_by_name) if name in heads_by_name)
    state.control(
        st.selectbox, "Its head", "other_head", options=list(heads_by_name), shown=chosen,
        format_func=lambda name: f"{head_name(name)}{' · most similar on the probes' * (name == best)}",
    )  # fmt: skip
    query = min(other.query, len(other.ids) - 1) if view.settings.query < 0 else min(view.query, len(other.ids) - 1)
    maps = (view, layer, head, view.query), (other, *heads_by_name[chosen], query)
    for i, (column, (each, at, one, row)) in enumerate(zip(st.columns(2, gap="large"), maps, strict=True)):
        with column:
            st.markdown(f"**{each.settings.model_name}**: {count(len(each.ids), 'token')}, {each.origin}")
            scale, ground = view.settings.colour, st.context.theme.type
            drawing = heads.head_map(each.trace, each.labels, at, one, scale=scale, query=row, ground=ground)
            charts.show(drawing, f"model-{i}")
    st.markdown(f"## Heads of {other.settings.model_name} most similar to L{layer} H{head}")
    if not ranked:
        st.info("With this mask each query may attend to one key only, so there are no scores to compare.")
        return
    st.caption(
        "Mean absolute difference of the role scores (shares of weight) and of the entropy, on repeated random tokens "
        "of each model's own vocabulary; 0 means equal."
    )
    roles = compute_heads.roles_of(other.settings)
    st.dataframe(
        {"head": [f"L{i} H{h}" for i, h, _ in ranked[:MAX_SIMILAR]],
         "difference": [round(difference, 4) for _, _, difference in ranked[:MAX_SIMILAR]],
         "role": [roles[i][h].name for i, h, _ in ranked[:MAX_SIMILAR]]}, hide_index=True,
    )  # fmt: skip
