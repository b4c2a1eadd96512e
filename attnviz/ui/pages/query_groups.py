"""Parts of the query-grouping page, from the top."""

from __future__ import annotations

import streamlit as st

from attnviz.analysis import groups as analysis
from attnviz.compute import models
from attnviz.compute import query_groups as compute_groups
from attnviz.compute.view import View, drawable
from attnviz.config import ModelConfig
from attnviz.cost import attention_name
from attnviz.figures import group_quality, groups, groups_work, latent
from attnviz.figures.drawing import escaped
from attnviz.figures.numbers import percent, told_apart
from attnviz.figures.theme import kv_colour
from attnviz.phrases import count, written
from attnviz.ui import charts, controls, state
from attnviz.ui.components.group_diagram import group_diagram
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.components.to_scale import to_scale
from attnviz.ui.headline import grid_options, show_headline
from attnviz.ui.offer_checkpoint import offer
from attnviz.ui.pages.query_groups_checks import equal, latent_forms, text_used
from attnviz.ui.pages.query_groups_saved import saved

ONLY_CHECKPOINTS = "This part compares the five checkpoints, which were trained on the same books."
TOO_LARGE = "This model is too large to run in the wrong order here."
ROW_NAMES = {group_quality.FIRST: "first head"}  # short, beside a row of maps


def show() -> None:
    """Draw the page."""
    control()
    saved()
    left, right = st.columns([3, 2], gap="large")
    with left:
        sharing()
    with right:
        cached()
    with st.container(key="below-tabs"):  # on a phone, by server/page_style.css
        scale()
    maps()
    tabs()


def comparable(view: View) -> bool:
    """Check whether the page can be drawn, including the MHA model it compares with."""
    if not drawable(view) or view.config.mixed_layers or compute_groups.beside_family(view.settings):
        return False
    return not models.problem_of(compute_groups.base_of(view.settings))


@state.part("kv-heads")
def control(view: View) -> None:
    """A button per model; a choice reruns the whole page."""
    if problem := models.problem_of(compute_groups.base_of(view.settings)):
        st.error(
            f"{escaped(str(problem))} This page needs it for comparison. Choose “My own settings” in the sidebar.",
            icon=":material/error:",
        )
        return
    if view.settings.recorded:
        show_headline(view, "Losses, costs and merged heads need the model: the checkpoints show them.")
        return
    if compute_groups.beside_family(view.settings):
        show_headline(view)
        offer(why="This page compares MHA, GQA, MQA and MLA, and this checkpoint has more in its layers than one of "
              "these. The Heads page shows its maps.")  # fmt: skip
        return
    if view.config.mixed_layers:
        show_headline(view)
        st.info("This page compares one attention for all layers, and this model's layers differ in theirs. The Heads "
                "page shows the maps of each.")  # fmt: skip
        return
    show_headline(view, view.config.mixer.why_cached())
    variants = compute_groups.variants(view.settings)
    configs = [models.config_of(variant) for variant in variants]
    if view.settings.opened:
        st.caption("An opened model's number of KV heads is fixed. Choose a checkpoint in the sidebar to vary it.")
        return
    if len(variants) == 1:
        st.caption("With one query head there is one KV head. Choose more query heads in the sidebar.")
        return
    st.session_state["kv-heads"] = configs.index(view.config)
    st.segmented_control(
        "Attention",
        range(len(configs)),
        format_func=lambda i: _button(configs[i], view.settings.model == "own"),
        key="kv-heads",
        required=True,
        on_change=_take_variant,
        args=(variants,),
    )


def _button(config: ModelConfig, own: bool) -> str:
    """Return the attention's name; for an untrained model also its number of KV heads."""
    return attention_name(config) + f" (K={config.n_kv_heads})" * (own and config.mixer.shares_kv_heads)


def _take_variant(variants: list) -> None:
    chosen = variants[st.session_state["kv-heads"]]
    state.change(model=chosen.model, n_kv_heads=chosen.n_kv_heads, attention=chosen.attention)
    state.rerun()


@state.part("sharing", comparable)
def sharing(view: View) -> None:
    """Diagram of which query head reads which KV head, and the effect of the wrong order."""
    layer, head = view.layer_and_head
    c = view.config
    if not c.mixer.shares_kv_heads:
        group_diagram(latent.latent_sharing(c, head), key="diagram", on_head=_take_head)
        return
    tiled = view.settings.tiled
    read = analysis.kv_heads_read(c.n_heads, c.n_kv_heads, tiled=tiled)
    group_diagram(groups.sharing(c.n_heads, c.n_kv_heads, read, head), key="diagram", on_head=_take_head)
    controls.control(st.toggle, "Wrong order: repeat() instead of repeat_interleave()", "tiled")
    if tiled:
        st.markdown(_tiling(view, layer, read))


def _take_head(head: int) -> None:
    state.change(head=head)
    state.rerun("sharing", "maps", "tabs")


def _tiling(view: View, layer: int, read: tuple[int, ...]) -> str:
    c = view.config
    wrong = sum(kv != right for kv, right in zip(read, c.mixer.kv_head_of, strict=True))
    if not wrong:
        return f"With {count(c.n_kv_heads, 'KV head')} both orders are the same: the mistake changes nothing."
    if not compute_groups.can_convert(view.settings):
        return f"**With repeat(), {wrong} of {count(c.n_heads, 'query head')} read the wrong KV head.** {TOO_LARGE}"
    tiling = compute_groups.tiling_of(view.settings, view.ids, layer)
    return (
        f"**With repeat(), {wrong} of {count(c.n_heads, 'query head')} read the wrong KV head.** The shapes are the "
        f"same and no error is raised, but the output of layer {layer} differs by up to "
        f"{written(tiling.layer.difference, '.2g')} (tolerance for rounding: {written(tiling.layer.tolerance, '.1e')} "
        f"in {tiling.layer.dtype})." + _tiled_loss(tiling, text_used(view))
    )


def _tiled_loss(tiling: compute_groups.Tiling, text: str) -> str:
    if not len(tiling.losses):
        return ""
    before, after = told_apart(float(tiling.losses.mean()), float(tiling.tiled_losses.mean()), digits=2, change=2)
    return (
        f" The loss goes from {before} to **{after}** nats per token "
        f"({group_quality.signed(tiling.change)}, {count(tiling.change.n, 'predicted token')} of {text})."
    )


@state.part("cached", comparable)
def cached(view: View) -> None:
    """Bytes that each of the models caches per token, to scale."""
    to_scale([groups.cache_panel(compute_groups.cache_of_family(view.settings), view.config)], "cached")


@state.part("scale", comparable)
def scale(view: View) -> None:
    """The projections and one decode step, to scale."""
    config, measured = view.config, compute_groups.cache_of_family(view.settings)
    work = groups_work.work_panel(compute_groups.compared(view.settings), config, len(view.ids))
    if not config.mixer.shares_kv_heads:
        to_scale([work], "stored")
        charts.show(latent.latent(config), "latent-scale")
        charts.on_demand("Numbers and downloads", {"cache": lambda: groups.cache_caption(measured, config)})
        return
    legend = [(kv_colour(kv, config.n_kv_heads), f"KV {kv}") for kv in range(config.n_kv_heads)]
    to_scale([groups.projections_panel(config), work], "stored", legend)
    with charts.beside("stored"):
        charts.on_demand(
            "Numbers and downloads",
            {
                "projections": lambda: groups.projections_caption(config),
                "cache": lambda: groups.cache_caption(measured, config),
            },
        )


@state.part("maps", comparable)
def maps(view: View) -> None:
    """Maps of one layer, each in the hue of the KV head that its head reads."""
    layer, head = view.layer_and_head
    st.markdown(f"## Layer {layer}: {view.mixer.maps_finding()}")
    st.caption(f"Each row is a query; its weights sum to 1. Each column is a key. Weights: {escaped(view.origin)}.")
    if view.config.n_layers > 1:
        controls.control(
            st.segmented_control,
            "Layer",
            "layer",
            shown=layer,
            options=range(view.config.n_layers),
            required=True,
            reruns=(),
        )
    head_grid(
        [view.traced.weights],
        [view.traced.allowed],
        view.labels,
        key="layer-maps",
        selected=(0, head),
        on_select=lambda _, chosen: _take_head(chosen),
        row_names=[f"Layer {layer}"],
        **grid_options([view.mixer]),
    )


@state.part("tabs", comparable)
def tabs(view: View) -> None:
    """The open tab; the others are not computed."""
    show = {
        "equal": equal,
        "work": _work,
        "cost": _cost,
        "maps": _before_after,
        "alike": _similarity,
        "latent": latent_forms,
    }
    show[controls.tabs(view, "Look closer")](view)


def _work(view: View) -> None:
    charts.show(groups_work.work(compute_groups.compared(view.settings), view.config, len(view.ids)), "work")
    if view.settings.opened:
        st.caption(f"{escaped(view.settings.model_name)} was trained as {attention_name(view.config)}; what the others "
                   "would take is counted by formula.")  # fmt: skip


def _cost(view: View) -> None:
    if view.settings.model == "own":
        offer(why="This part compares losses; untrained weights predict nothing.")
        return
    if view.settings.opened:
        offer(why=ONLY_CHECKPOINTS)
        return
    if not _comparable(view):
        return
    left, right = st.columns(2, gap="large")
    selected, text = attention_name(view.config), text_used(view)
    with left:
        losses = compute_groups.losses_of_sharing(view.settings, view.ids)
        latent_selected = not view.config.mixer.shares_kv_heads
        charts.show(group_quality.losses(losses, view.config.n_kv_heads, text, latent_selected), "losses")
    with right:
        members = compute_groups.members_of(view.settings, view.ids)
        charts.show(group_quality.quality(members, selected, compute_groups.held_out_characters()), "quality")
        characters = compute_groups.predicted_characters(view.settings, view.ids)
        charts.show(group_quality.this_text(members, selected, characters, text), "this-text")


def _comparable(view: View) -> bool:
    """Check whether other models can be compared on this text; show a message if they cannot."""
    if len(view.ids) < 2:
        st.info("A single token has no next token to predict. Type a longer text.")
    elif not compute_groups.can_convert(view.settings):
        st.info("This model is too large to convert several times here. Choose fewer layers or a smaller d_model.")
    else:
        if view.settings.model == "own":
            st.caption(
                f"Converted from your own settings with {count(view.config.n_heads, 'KV head')} and the same seed. "
                "Untrained heads have learnt nothing: choose a checkpoint to see what averaging loses."
            )
        return True
    return False


def _before_after(view: View) -> None:
    c, (layer, head) = view.config, view.layer_and_head
    if view.settings.opened:
        offer(why=ONLY_CHECKPOINTS)
        return
    if not _comparable(view):
        return
    n_kv_heads = compute_groups.merged_kv_heads(view.settings)
    if n_kv_heads == c.n_heads:
        st.info("Each query head has a KV head, so nothing is merged. Choose a model with fewer KV heads above.")
        return
    _beside_latent(view, n_kv_heads)
    maps = compute_groups.maps_of(view.settings, view.ids, n_kv_heads, layer)
    n_tokens = maps.weights.shape[-1]
    moved = dict(zip(maps.names, maps.moved[:, head], strict=True))
    shares = ", ".join(f"{name} {percent(share, 0)}" for name, share in moved.items() if name != "MHA")
    st.markdown(
        f"## Layer {layer}, head {head}: averaging moves {percent(moved[group_quality.AVERAGED], 0)} of its attention"
    )
    st.caption(
        f"Share moved compared with MHA, at {count(n_kv_heads, 'KV head')}: {shares}. The share is the total variation "
        f"distance ½ Σ|before − after| of a row, averaged over the queries of "
        f"{text_used(view, compute_groups.MAX_MAPPED)}. All layers are merged, so from layer 1 on, a layer's input "
        "differs too. The hue is that of the KV head after merging. Pointing at a cell or tapping it marks the "
        "same query and key in all of these models."
    )
    read = analysis.kv_heads_read(c.n_heads, n_kv_heads)
    head_grid(
        maps.weights,
        maps.allowed[None].repeat(len(maps.names), axis=0),
        view.labels[:n_tokens],
        read,
        key="before-after",
        selected=(0, head),
        on_select=lambda _, chosen: _take_head(chosen),
        kv_names=[f"KV {j} after merging" for j in range(n_kv_heads)],
        row_names=[ROW_NAMES.get(name, name) for name in maps.names],
        reads=[[f"KV {h}, its own" for h in range(c.n_heads)], *([f"KV {kv}" for kv in read] for _ in maps.names[1:])],
    )
    drifts = compute_groups.drifts_of(view.settings, view.ids, n_kv_heads)
    n_tokens = len(next(iter(drifts.values())))
    charts.show(group_quality.drift(drifts, view.labels[:n_tokens], n_kv_heads), "drift")


def _beside_latent(view: View, n_kv_heads: int) -> None:
    """Say for MLA that MHA's heads are merged here, and why into this many KV heads."""
    if not view.config.mixer.shares_kv_heads:
        merged = compute_groups.merged_config(view.settings, n_kv_heads)
        st.markdown(latent.merged_beside(view.config, merged))


def _similarity(view: View) -> None:
    (layer, _), c = view.layer_and_head, view.config
    if view.settings.opened and c.n_kv_heads < c.n_heads:
        offer(why="This part compares heads before they share KV heads; this model has shared them from the start.")
        return
    if c.n_heads > analysis.MAX_HEADS:
        offer(why=f"Groupings are compared for up to {analysis.MAX_HEADS} heads; this model has {c.n_heads}.")
        return
    controls.control(st.segmented_control, "Compare", "alike", options=("keys", "values"), required=True)
    part = view.settings.alike
    n_kv_heads = compute_groups.merged_kv_heads(view.settings)
    _beside_latent(view, n_kv_heads)
    grouping = compute_groups.grouping_of(view.settings, view.ids, layer, part, n_kv_heads)
    drawing = group_quality.similarity(
        grouping.cosines, grouping.neighbours, grouping.best, grouping.lost, grouping.total, part, layer
    )
    charts.show(drawing, "similarity")
