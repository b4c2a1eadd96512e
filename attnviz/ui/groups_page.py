"""The parts of the query-groups page, in the order they are walked."""

from __future__ import annotations

import math

import streamlit as st

from attnviz.analysis import groups as analysis
from attnviz.config import ModelConfig
from attnviz.cost import attention_name
from attnviz.experiments.equalities import Comparison
from attnviz.figures import group_quality, groups, latent
from attnviz.figures.drawing import escaped
from attnviz.figures.words import count
from attnviz.ui import charts, groups_runs, runs, state
from attnviz.ui.components.group_diagram import group_diagram
from attnviz.ui.components.head_grid import head_grid
from attnviz.ui.components.one_of import one_of
from attnviz.ui.components.to_scale import to_scale
from attnviz.ui.frame import View
from attnviz.ui.selection import layer_and_head
from attnviz.ui.words import headline

PARTS = {
    "equal": "Equal, in numbers",
    "work": "Same work, less memory",
    "cost": "What sharing costs",
    "maps": "Maps before and after",
    "alike": "How alike heads are",
    "latent": "MLA beside it",
}


def show(view: View) -> None:
    """The whole page, from the top."""
    if problem := runs.problem_of(groups_runs.base_of(view.settings)):
        st.error(
            f"{escaped(str(problem))} All here is compared with it. Choose your own settings.", icon=":material/error:"
        )
        return
    with state.place():
        control(view)
    sharing(view)
    with state.place():
        scale(view)
        maps(view)
    closer(view)


def control(view: View) -> None:
    """One slider over the numbers of KV heads that there are; everything on the page follows it."""
    st.markdown(headline(view))
    variants = groups_runs.variants(view.settings)
    configs = [runs.config_of(variant) for variant in variants]
    if len(variants) == 1:
        st.caption("With one query head there is nothing to share. Choose more query heads on the left.")
        return
    st.session_state["kv-heads"] = configs.index(view.config)
    st.select_slider(
        "KV heads, from one for every query head to one for all",
        range(len(configs)),
        format_func=lambda i: _position(configs[i]),
        key="kv-heads",
        on_change=_take_variant,
        args=(variants,),
    )


def _position(config: ModelConfig) -> str:
    name = attention_name(config)
    return f"{config.n_kv_heads} · {name}" if config.attention in ("mha", "mqa") else name.removeprefix("GQA-")


def _take_variant(variants: list) -> None:
    chosen = variants[st.session_state["kv-heads"]]
    state.change(model=chosen.model, n_kv_heads=chosen.n_kv_heads)
    state.rerun(state.PAGE)


@state.part("sharing")
def sharing(view: View) -> None:
    """Who reads whom, and the order of KV heads that is a mistake."""
    layer, head = layer_and_head(view)
    c = view.config
    if c.attention == "mla":
        group_diagram(latent.latent_sharing(c, head), key="diagram", on_head=_take_head)
        return
    tiled = state.current().tiled
    read = analysis.kv_heads_read(c.n_heads, c.n_kv_heads, tiled=tiled)
    group_diagram(groups.sharing(c.n_heads, c.n_kv_heads, read, head), key="diagram", on_head=_take_head)
    state.control(st.toggle, "Tile the KV heads instead: every shape right, the partners wrong", "tiled")
    if tiled:
        st.markdown(_tiling(view, layer, read))


def _take_head(head: int) -> None:
    state.change(head=head)


def _tiling(view: View, layer: int, read: tuple[int, ...]) -> str:
    c = view.config
    wrong = sum(kv != right for kv, right in zip(read, c.layer.kv_head_of, strict=True))
    if not wrong:
        return f"With {count(c.n_kv_heads, 'KV head')} both orders are the same, and the mistake cannot show."
    found = groups_runs.tiling_of(view.settings, view.ids, layer)
    return (
        f"**Tiled, {wrong} of {count(c.n_heads, 'query head')} read a KV head that is not theirs.** No shape changes, "
        f"nothing fails, but the output of layer {layer} moves by up to {found.layer.difference:.2g} where rounding "
        f"explains {found.layer.tolerance:.0e} ({found.layer.dtype})." + _tiled_loss(found)
    )


def _tiled_loss(found: groups_runs.Tiling) -> str:
    if math.isnan(found.loss):
        return ""
    return f" The loss on this text goes from {found.loss:.2f} to **{found.tiled_loss:.2f}** nats a token."


def scale(view: View) -> None:
    """What is stored of the projections and of every token, to scale."""
    config, measured = view.config, groups_runs.cache_of_family(view.settings)
    beside = [groups.cache_panel(measured, config), groups.work_panel(_compared(view), config, len(view.ids))]
    if config.attention == "mla":
        to_scale(beside, "stored")
        charts.show(latent.latent(config), "latent-scale")
        charts.on_demand("Zoom, numbers and downloads", {"cache": lambda: groups.cache(measured, config)})
        return
    to_scale([groups.projections_panel(config), *beside], "stored")
    charts.on_demand(
        "Zoom, numbers and downloads",
        {"projections": lambda: groups.projections(config), "cache": lambda: groups.cache(measured, config)},
    )


def maps(view: View) -> None:
    """Every head's map in one layer, in the hue of the KV head it reads."""
    layer, head = layer_and_head(view)
    st.markdown(f"#### Layer {layer}: {_maps_finding(view)}")
    st.caption(f"A row is a query and sums to 1, a column is a key. {view.origin.capitalize()}.")
    if view.config.n_layers > 1:
        state.control(
            st.segmented_control, "Layer", "layer", shown=layer, options=range(view.config.n_layers), required=True
        )
    head_grid(
        view.trace.weights[layer : layer + 1],
        view.trace.allowed[layer : layer + 1],
        view.labels,
        view.config.layer.kv_head_of,
        key="layer-maps",
        selected=(0, head),
        on_select=_take_map,
        row_names=[f"Layer {layer}"],
    )


def _maps_finding(view: View) -> str:
    c = view.config
    if c.attention == "mla":
        return f"{count(c.n_heads, 'head')} with keys and values of their own, all out of one latent"
    if c.n_kv_heads == c.n_heads:
        return f"{count(c.n_heads, 'head')}, each with keys and values of its own"
    return "heads of one hue share their keys and values, and still attend differently"


def _take_map(_: int, head: int) -> None:
    state.change(head=head)


@state.part("closer")
def closer(view: View) -> None:
    """One of several parts, chosen by the person; the others are not computed."""
    chosen = state.current().closer
    one_of("Look closer", PARTS, chosen, key="closer", on_choose=lambda part: state.change(closer=part))
    show = {"equal": _equal, "work": _work, "cost": _cost, "maps": _before_after, "alike": _alike, "latent": _latent}
    show[chosen](view)


def _equal(view: View) -> None:
    layer, _ = layer_and_head(view)
    found = groups_runs.equalities_of(view.settings, view.ids, layer)
    st.markdown(
        f"#### The same thing, said in several ways: largest difference in layer {layer}\n\n"
        f"Computed now, on this layer's real input for {_proven_on(view)}. Where a claim needs another number of KV "
        "heads, the layer's own are copied to every query head, or averaged into one.\n\n" + _equalities(found)
    )


def _proven_on(view: View) -> str:
    whole = len(view.ids) <= groups_runs.MAX_PROVEN
    return "this text" if whole else f"the first {count(groups_runs.MAX_PROVEN, 'token')} of this text"


def _work(view: View) -> None:
    charts.show(groups.work(_compared(view), view.config, len(view.ids)), "work")


def _compared(view: View) -> list[ModelConfig]:
    """The models along the slider, from MHA on; MLA only where it is the one looked at."""
    configs = [c for c in map(runs.config_of, groups_runs.variants(view.settings)) if c.attention != "mla"]
    return configs + ([view.config] if view.config.attention == "mla" else [])


def _equalities(found: list[tuple[Comparison, Comparison]]) -> str:
    """A list in markdown: every claim with its difference in both precisions."""
    return "\n\n".join(_equality(single, double) for single, double in found)


def _equality(single: Comparison, double: Comparison) -> str:
    sign = ":material/check:" if single.equal and double.equal else ":material/close:"
    numbers = ", ".join(f"**{_difference(c)}** in {c.dtype} (tolerance {c.tolerance:.0e})" for c in (single, double))
    against = f"{single.left[0].upper()}{single.left[1:]}, against {single.right}."
    return f"{sign} **{single.claim}**: {numbers}  \n:small[{against}]"


def _difference(c: Comparison) -> str:
    return f"{c.difference:.1e}" if c.difference else "0"


def _cost(view: View) -> None:
    if view.settings.model == "own":
        st.info(
            "What sharing costs is measured in loss, and untrained weights predict nothing before any sharing: choose "
            "another model on the left."
        )
        return
    if not _comparable(view):
        return
    left, right = st.columns(2, gap="large")
    with left:
        losses = groups_runs.losses_of_sharing(view.settings, view.ids)
        charts.show(group_quality.losses(losses, view.config.n_kv_heads), "losses")
    with right:
        members = groups_runs.members_of(view.settings, view.ids)
        charts.show(group_quality.quality(members, attention_name(view.config)), "quality")


def _comparable(view: View) -> bool:
    """Whether other models can be compared on this text; a sentence where they cannot."""
    if len(view.ids) < 2:
        st.info("A single token has no next token to predict. Type a longer text.")
    elif not groups_runs.can_convert(view.settings):
        st.info("This model is too large to be converted several times here: choose fewer layers or a smaller d_model.")
    else:
        if view.settings.model == "own":
            st.caption(
                f"Converted from your own settings with {count(view.config.n_heads, 'KV head')} and the same seed. "
                "Untrained heads have learnt nothing that averaging could destroy; choose a checkpoint to see it."
            )
        return True
    return False


def _before_after(view: View) -> None:
    c, (layer, head) = view.config, layer_and_head(view)
    if not _comparable(view):
        return
    n_kv_heads = c.n_kv_heads
    if n_kv_heads == c.n_heads:
        st.info("Nothing is merged here. Move the slider to fewer KV heads to see what averaging does to the maps.")
        return
    found = groups_runs.maps_of(view.settings, view.ids, n_kv_heads, layer)
    n_tokens = found.weights.shape[-1]
    shares = zip(found.names[1:], found.moved[1:, head], strict=True)
    moved = ", ".join(f"{name} {share:.0%}" for name, share in shares)
    st.markdown(f"#### Layer {layer}, head {head}: the share of its attention that has moved since MHA: {moved}")
    st.caption(
        f"With {count(n_kv_heads, 'KV head')}, on the first {count(n_tokens, 'token')}. The share is ½ Σ|before − "
        "after| of a row, averaged over the queries. Point at a cell to see the same pair in every model."
    )
    read = c.layer.kv_head_of
    head_grid(
        found.weights,
        found.allowed[None].repeat(len(found.names), axis=0),
        view.labels[:n_tokens],
        read,
        key="before-after",
        selected=(0, head),
        on_select=_take_map,
        kv_names=[f"keys of group {j}" for j in range(n_kv_heads)],
        row_names=found.names,
    )
    drifts = groups_runs.drifts_of(view.settings, view.ids, n_kv_heads)
    n_tokens = len(next(iter(drifts.values())))
    charts.show(group_quality.drift(drifts, view.labels[:n_tokens], n_kv_heads), "drift")


def _alike(view: View) -> None:
    layer, _ = layer_and_head(view)
    state.control(st.segmented_control, "Compare", "alike", options=("keys", "values"), required=True)
    part, c = state.current().alike, view.config
    before = runs.trace_of(groups_runs.base_of(view.settings), view.ids)
    inner = groups_runs.grams(before, layer)[part]
    plain, best = analysis.neighbours(c.n_heads, c.n_kv_heads), analysis.best_grouping(inner, c.n_kv_heads)
    lost = analysis.lost_share(inner, plain), analysis.lost_share(inner, best)
    charts.show(group_quality.likeness(analysis.cosines(inner), plain, best, lost, part), "likeness")


def _latent(view: View) -> None:
    layer, _ = layer_and_head(view)
    config, found = groups_runs.latent_equalities(view.settings, view.ids, layer)
    beside, numbers = st.columns(2, gap="large")
    if view.config.attention != "mla":  # there it stands at the top of the page
        with beside:
            charts.show(latent.latent(config), "latent")
    with numbers if view.config.attention != "mla" else beside:
        st.markdown("#### One latent instead of KV heads: what is absorbed equals what is expanded")
        st.caption(
            "DeepSeek-V2's attention (arXiv 2405.04434). Absorbed: W_uk moves to the query's side and W_uv behind the "
            "weights, so that keys and values never have to be expanded while decoding."
        )
        st.markdown(_equalities(found))
