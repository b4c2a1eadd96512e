"""Tabs of the Heads page on roles, masks, ablation, a second text and other models; one tab at a time is shown."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np
import streamlit as st

from attnviz.compute import ablation as compute_ablation
from attnviz.compute import heads as compute_heads
from attnviz.compute import models
from attnviz.compute import query_groups as compute_groups
from attnviz.compute.compared import other_of
from attnviz.compute.recorded import title_of
from attnviz.compute.view import View, head_name
from attnviz.compute.vocabulary import vocabulary
from attnviz.config import ModelConfig
from attnviz.cost import attention_name
from attnviz.figures import ablation as ablation_figures
from attnviz.figures import head_studies, heads, role_captions
from attnviz.figures.drawing import Drawing, escaped, quoted
from attnviz.figures.group_quality import N_AS_MHA, N_TRAINED_ON
from attnviz.figures.numbers import printed, told_apart
from attnviz.figures.theme import kv_colour
from attnviz.phrases import count, first_of, listed
from attnviz.session.openable import MODEL_NAMES, MODELS, is_run, offered, other_run, short_name
from attnviz.session.shared import OWN_THETA
from attnviz.ui import charts, controls, state
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.components.line_view import line_view
from attnviz.ui.headline import grid_options
from attnviz.ui.measuring import MeasurementProgress
from attnviz.ui.offer_checkpoint import offer
from attnviz.ui.pages.heads_compared import beside
from attnviz.ui.pages.heads_tabs import SELECTED, kv_names, second_text, select
from attnviz.ui.problems import show_problem

TRAINING = (  # as in the model card, attnviz/checkpoints/README.md
    f"MHA, GQA and MQA share one training run up to {N_AS_MHA:,} of {N_TRAINED_ON:,} tokens; then the KV heads "
    "of this MHA were averaged into groups, and each model was trained separately. MLA had its own run."
)
OWN_RUN = "MLA's heads do not correspond to the others': it was trained by itself."
STOPPED = "ablation stopped"  # session key: the (ablation, model, text) whose measurement the user has stopped
CROSS = "cross"  # the kind of attention of a saved run
MAX_SIMILAR = 10  # heads of another model in the table
ABLATIONS = {"zero": "zero ablation", "mean": "mean ablation"}


def does(view: View) -> None:
    """Statistics of all heads on this text, and the selected head's role scores on the probes and on this text."""
    layer, head = view.layer_and_head
    if found := compute_heads.statistics_of(view):
        names = [name for name in head_studies.STATISTICS if name != "distance" or not view.two_texts]
        for place, name in zip(st.columns(len(names)), names, strict=True):
            with place:
                drawing = head_studies.statistic_map(found, name, layer, head)
                charts.show(drawing, f"statistic-{name.replace('_', '-')}")
    else:
        st.info("With this text, mask and window, no query can attend to more than one key. Nothing can be compared.")
    here, column = compute_heads.text_scores_of(view, layer, head)
    colour = kv_colour(view.mixer.kv_head_of[head], view.config.n_kv_heads)
    left, right = st.columns(2, gap="large")
    with left:
        _on_probes(view, layer, head, colour)
    with right:
        if here.n_queries:
            charts.show(head_studies.text_scores(here, column, view.key_labels, colour), "on-this-text")
    st.caption(f"{role_captions.DEFINITION} {view.mixer.shares_note}".rstrip())


def _on_probes(view: View, layer: int, head: int, colour: str) -> None:
    """The selected head's scores on the probes, or why there are none."""
    if why := view.mixer.cannot("probes"):
        st.info(why)
        return
    scores, role = (
        compute_heads.scores_of(view.settings).of(layer, head),
        compute_heads.roles_of(view.settings)[layer][head],
    )
    probes = compute_heads.probes_of(view.settings)
    if scores.n_queries:
        charts.show(head_studies.probe_scores(scores, role, probes, layer, head, colour), "role")
    else:
        st.info(role_captions.role_text(role, scores, probes))


def masks(view: View) -> None:
    """One layer under several masks; a click selects a mask on all pages."""
    if why := view.refusal("masks"):
        st.info(why)
        return
    layer, head = view.layer_and_head
    with st.container(horizontal=True):
        controls.control(st.number_input, "Window, in tokens", "mask_window")
        controls.control(st.number_input, "Attention-sink tokens", "mask_sinks")
        controls.control(st.number_input, "Padding at the start, in tokens", "mask_padding")
    offered = compute_heads.masks_of(view.settings)
    masked = compute_heads.masked_of(view.settings, view.ids, layer)
    n = masked.weights.shape[-1]
    st.markdown(f"## Layer {layer} under {len(offered)} masks{_mask_losses(offered, masked.losses)}")
    st.caption(
        f"The same model on the {first_of(n, 'token')} of the text, one row of maps per mask. "
        + (f"Loss: mean over {count(n - 1, 'next-token prediction')}. " if n > 1 else "")
        + f"Masked keys get no weight; the weights of the others {view.mixer.summing}, and a query "
        "with all keys masked gets zeros. "
        "**Click a map to select its mask on all pages.**"
    )
    selected = [mask.selected(view.settings) for mask in offered]
    head_grid(
        masked.weights, masked.allowed, view.labels[: masked.weights.shape[-1]], view.mixer.kv_head_of,
        key="masks", selected=(selected.index(True) if any(selected) else 0, head), on_select=_take_mask,
        kv_names=kv_names(view.mixer), row_names=[mask.name for mask in offered],
    )  # fmt: skip
    if not any(selected):
        st.caption("The selected mask is none of these: see “Mask and position settings” in the sidebar.")


def _take_mask(row: int, head: int) -> None:
    state.change(head=head, **compute_heads.masks_of(state.current())[row].fields())
    state.rerun()


def _mask_losses(offered: list[compute_heads.Mask], losses: list[float]) -> str:
    """Return the losses under the first three masks, for a title: the others are not masks to predict with."""
    shown = told_apart(*losses, digits=3)
    parts = [f"{loss} ({mask.name.lower()})" for mask, loss in zip(offered, shown, strict=False)]
    return f": loss {', '.join(parts)} nats per token" if parts else ""


def family(view: View) -> None:
    """One layer on the same text under MHA, GQA, MQA and MLA; one hue is one KV head."""
    layer, head = view.layer_and_head
    ids = view.ids[: view.first(compute_heads.MAX_COMPARED)]
    if view.settings.opened or view.config.mixed_layers:
        offer(why="This part compares the five checkpoints whose layers all have one attention.")
        return
    if view.config.n_layers > 1:
        controls.control(
            st.segmented_control, "Layer", "layer", reruns=SELECTED, shown=layer,
            options=range(view.config.n_layers), required=True,
        )  # fmt: skip
    members, is_trained = compute_groups.variants(view.settings), _is_trained(view)
    charts.heading(
        f"Layer {layer} in {count(len(members), 'model')}, coloured by KV head",
        f"The {first_of(len(ids), 'token')} of the text. Each row of a map is a query. {OWN_RUN * is_trained}".rstrip(),
        TRAINING * is_trained,
    )
    for member in members:
        config, traced = models.config_of(member), models.trace_of(member, ids, min(view.n_padding, len(ids) - 1))
        st.markdown(f"**{attention_name(config)}**: {_sharing(config, head)}")
        head_grid(
            [traced.layers[layer].weights], [traced.masks[layer]], view.labels[: len(ids)],
            config.mixer.kv_head_of, key=f"family-{attention_name(config).lower()}", selected=(0, head),
            on_select=lambda _, chosen: select(layer, chosen), kv_names=kv_names(config.mixer),
            row_names=[f"Layer {layer}"],
        )  # fmt: skip


def _is_trained(view: View) -> bool:
    return view.settings.model != "own"


def _sharing(config: ModelConfig, head: int) -> str:
    """Return a phrase on the KV head that `head` reads, and the heads it shares it with."""
    if own := config.mixer.own_keys():
        return own
    read = config.mixer.kv_head_of
    others = [h for h in range(config.n_heads) if read[h] == read[head] and h != head]
    readers = f"with {'head' if len(others) == 1 else 'heads'} {listed(others)}" if others else "alone"
    return f"{count(config.n_kv_heads, 'KV head')}; head {head} reads KV head {read[head]} {readers}"


def off(view: View) -> None:
    """The prediction and the loss with heads ablated, and how much each head alone lowers the loss on this text."""
    if why := view.refusal("ablation"):
        st.info(why)
        return
    if len(view.ids) < 2:
        st.info("A single token has no next token to predict. Type a longer text.")
        return
    heads_by_name, (layer, head) = view.heads, view.layer_and_head
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.control(
            st.multiselect, "Ablated heads", "off", options=list(heads_by_name), format_func=head_name,
            shown=[name for name in view.settings.off if name in heads_by_name], max_selections=32,
            placeholder=f"the selected one, L{layer} H{head}",
        )  # fmt: skip
        controls.control(
            st.segmented_control, "Type of ablation", "off_way", options=list(ABLATIONS),
            required=True, format_func=ABLATIONS.get,
        )  # fmt: skip
    ablated = [heads_by_name[name] for name in view.settings.off if name in heads_by_name] or [(layer, head)]
    ids = view.ids[: compute_ablation.MAX_ABLATED]
    left, right = st.columns(2, gap="large")
    with left:
        title = st.empty()
        before, after = _prediction(view, ids, ablated)
        title.markdown(_without(ablated, before, after))
    with right:
        effects = _effects(view, ids)
    if len(ablated) == 1 and effects.complete:
        after = effects.losses[ablated[0]]
    title.markdown(_without(ablated, effects.before, after))  # the number of the chart on the right


def _without(ablated: list[tuple[int, int]], before: float, after: float) -> str:
    """Return the title of the prediction without these heads."""
    names = listed(f"L{layer} H{head}" for layer, head in ablated)
    from_, to = told_apart(before, after, digits=3, change=3)  # the chart of all heads prints the change
    return f"## Without {names}, the loss goes from {from_} to {to} nats per token"


def _effects(view: View, ids: tuple[int, ...]) -> compute_ablation.Effects:
    """Measure and draw how much each head alone lowers the loss; the measurement can be stopped and resumed."""
    key = view.settings.off_way, view.config, view.settings.model, view.settings.seed, ids
    stopped = st.session_state.get(STOPPED) == key
    above, chart = st.container(), st.empty()
    with above:
        place = st.empty()
        running = MeasurementProgress(
            "Ablating each head", "Stop ablating", place, chart, partial(_effect_map, view), partial(_set_stopped, key)
        )
        effects = compute_ablation.effects_of(view.settings, ids, None if stopped else running)
        place.empty()
        if not effects.complete:
            left = effects.losses.size - effects.n_measured
            st.button(f"Ablate the other {count(left, 'head')}", on_click=_set_stopped, args=(None,))
    if effects.n_measured:
        with chart.container():
            charts.show(_effect_map(view, effects), "effects")
    return effects


def _effect_map(view: View, effects: compute_ablation.Effects) -> Drawing:
    return ablation_figures.effect_map(effects.losses, effects.before, view.settings.off_way, *view.layer_and_head)


def _set_stopped(key: Hashable) -> None:
    st.session_state[STOPPED] = key
    state.rerun("tabs")


def _prediction(view: View, ids: tuple[int, ...], ablated: list[tuple[int, int]]) -> tuple[float, float]:
    """Draw the next tokens before and after ablation; return the loss before and after it, in nats per token."""
    s, query = view.settings, min(view.query, len(ids) - 1)
    before, after = (compute_ablation.prediction_of(s, ids, off, query) for off in ((), ablated))
    padding = " Padding tokens are not masked here." if view.n_padding else ""
    reference = (
        f" A head's output is replaced by its mean over "
        f"{count(len(compute_ablation.reference(s)), 'token')} of a fixed text, written for this project."
        if s.off_way == "mean"
        else ""
    )
    st.caption(
        f"Loss: mean over {count(len(ids) - 1, 'next-token prediction')} in the {first_of(len(ids), 'token')} of "
        f"the text; {view.origin}.{reference}{padding}"
    )
    actual = ids[query + 1] if query + 1 < len(ids) else None
    words = vocabulary(s).after(ids[: query + 1])
    drawing = ablation_figures.next_tokens(before.odds, after.odds, words, view.labels[query], query, actual)
    charts.show(drawing, "next-tokens")
    return before.loss, after.loss


def crossed(view: View) -> None:
    """Cross-attention: the text's queries on a second text's keys, in all layers and heads."""
    if view.saved and view.saved.kind != CROSS and view.saved.has(CROSS):
        st.info("This run has cross-attention of its own: the queries of its second text on the keys of its first.")
        st.button("Show its cross-attention", on_click=_show_crossed)
        return
    if why := view.refusal("cross-attention"):
        st.info(why)
        return
    second_text("Second text, whose tokens become keys and values")
    context, key_labels = compute_heads.second_text_of(view)
    if not context:
        st.info("The second text is empty. Type one above.")
        return
    if problem := models.beyond_embeddings(context, key_labels, view.config.vocab_size):
        st.error(f"In the second text {escaped(problem)}; leave it out.")
        return
    (layer, head), ids = view.layer_and_head, view.ids[: view.first(compute_heads.MAX_COMPARED)]
    weights = compute_heads.crossed_of(view.settings, ids, context)
    one, labels = weights[layer][head], view.labels[: len(ids)]  # (T, S)
    allowed = np.ones(one.shape, bool)
    query, key = np.unravel_index(int(one.argmax()), one.shape)
    st.markdown(
        f"## Layer {layer}, head {head}: {quoted(labels[query])} reads {quoted(key_labels[key])} of the second text "
        f"with weight {printed(one[query, key])}"
    )
    st.caption(
        f"{count(len(ids), 'query token')} of the text, {count(len(context), 'key token')} of the second text (at most "
        f"{compute_heads.MAX_COMPARED} of each); the weights of each row {view.mixer.summing}. Each text runs "
        "through the model separately; then each layer takes queries from the first text's hidden states and keys and "
        "values from the second's, without a mask and without RoPE, since positions in two texts have no distance. "
        f"{_training_note(view)}"
    )
    head_grid(
        weights, [allowed] * len(weights), labels, key="crossed", selected=(layer, head), on_select=select,
        key_labels=key_labels, **grid_options([layer.mixer for layer in view.config.layers]),
    )  # fmt: skip
    line_view(
        one[None], allowed[None], labels, [f"L{layer} H{head}"], [view.mixer.kv_head_of[head]],
        view.config.n_kv_heads, key="crossed-lines", key_labels=key_labels,
    )  # fmt: skip


def _show_crossed() -> None:
    state.change(run_kind=CROSS)
    state.rerun()


def _training_note(view: View) -> str:
    return "The model was not trained for cross-attention." if _is_trained(view) else f"{view.origin.capitalize()}."


def two_models(view: View) -> None:
    """The selected head beside a head of another model, on the same text, each with its own tokenizer."""
    others = dict.fromkeys((*MODELS, *offered(view.settings.model, MODELS), view.settings.other_model))
    names = [name for name in others if name != view.settings.model]
    first = (other_run(view.settings.model) if view.settings.recorded else "") or names[0]
    shown = view.settings.other_model if view.settings.other_model in names else first
    controls.control(
        st.selectbox, "Other model", "other_model", options=names, shown=shown,
        format_func=lambda name: title_of(name) if is_run(name) else MODEL_NAMES.get(name) or short_name(name),
    )  # fmt: skip
    recorded = view.settings.recorded or is_run(shown)
    other = other_of(view, shown) if recorded else view.but(model=shown, padding=0, theta=OWN_THETA)
    if other.problem:
        show_problem(other.problem)
        return
    if recorded:
        beside(view, other)
        return
    (layer, head), heads_by_name = view.layer_and_head, other.heads
    ranked = compute_heads.most_similar(view.settings, layer, head, other.settings)
    best = f"{ranked[0][0]}.{ranked[0][1]}" if ranked else ""
    chosen = next(name for name in (view.settings.other_head, best, *heads_by_name) if name in heads_by_name)
    controls.control(
        st.selectbox, "Its head", "other_head", options=list(heads_by_name), shown=chosen,
        format_func=lambda name: f"{head_name(name)}{' · most similar on the probes' * (name == best)}",
    )  # fmt: skip
    query = min(other.query, len(other.ids) - 1) if view.settings.query < 0 else min(view.query, len(other.ids) - 1)
    maps = (view, layer, head, view.query), (other, *heads_by_name[chosen], query)
    for i, (column, (each, at, one, row)) in enumerate(zip(st.columns(2, gap="large"), maps, strict=True)):
        with column:
            name, n_tokens = escaped(each.settings.model_name), count(len(each.ids), "token")
            st.markdown(f"**{name}**: {n_tokens}{each.origin_after_name}")
            scale, ground = view.settings.colour, st.context.theme.type
            drawing = heads.head_map(each.trace, each.labels, at, one, scale=scale, query=row, ground=ground)
            charts.show(drawing, f"model-{i}")
    _most_similar(view, other, ranked)


def _most_similar(view: View, other: View, ranked: list[tuple[int, int, float]]) -> None:
    """Table of the other model's heads that resemble the selected one. ranked: (layer, head, difference)."""
    layer, head = view.layer_and_head
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
