"""Tabs of the query-grouping page with numerical checks: equivalent formulations of a layer, and MLA's two forms."""

from __future__ import annotations

import streamlit as st

from attnviz.compute import query_groups as compute_groups
from attnviz.compute.view import View
from attnviz.experiments.equalities import ABSORBED, Comparison
from attnviz.figures import latent
from attnviz.phrases import count, written
from attnviz.ui import charts, state
from attnviz.ui.offer_checkpoint import offer


def text_used(view: View, most: int = compute_groups.MAX_COMPARED) -> str:
    """Return a phrase for the tokens that a comparison uses, at most `most`."""
    return "this text" if len(view.ids) <= most else f"the first {count(most, 'token')} of this text"


def equal(view: View) -> None:
    """Equivalent formulations of the selected layer, with the largest difference of each."""
    layer, _ = view.layer_and_head
    if why := view.mixer.cannot("kernel"):
        st.info(why)
        return
    checks = compute_groups.equalities_of(view.settings, view.ids, layer)
    if view.config.mixer.absorbed:  # the tab of MLA has the absorbed form
        checks = [each for each in checks if each[0].claim != ABSORBED]
    copied = (
        " Where a formulation needs another number of KV heads, the layer's own are copied to each query head, or "
        "averaged into one." * view.config.mixer.shares_kv_heads
    )
    on = f"Computed on this layer's input for {text_used(view, compute_groups.MAX_CHECKED)}.{copied}"
    charts.heading(f"Layer {layer}: {_agreement(checks)}", more=f"{on}\n\n{_tolerances(checks)}")
    st.markdown(_equalities(checks))
    if view.config.mixer.absorbed:
        st.caption("The absorbed form is compared in the tab “Multi-head latent attention”.")


def _agreement(checks: list[tuple[Comparison, Comparison]]) -> str:
    """Return a phrase on the result of the checks, with the largest difference in float32."""
    failed = sum(not (single.equal and double.equal) for single, double in checks)
    if failed:
        return f"{failed} of {count(len(checks), 'numerical check')} failed"
    largest = max((single for single, _ in checks), key=lambda c: c.difference)
    return f"equivalent formulations agree within {_difference(largest)} ({largest.dtype})"


def _equalities(found: list[tuple[Comparison, Comparison]]) -> str:
    """Format the checks in markdown, each with its largest difference in float32."""
    return "\n\n".join(_equality(single, double) for single, double in found)


def _equality(single: Comparison, double: Comparison) -> str:
    sign = ":material/check:" if single.equal and double.equal else ":material/close:"
    against = f"{single.left[0].upper()}{single.left[1:]}; compared with: {single.right}."
    return f"{sign} **{single.claim}**: largest difference {_difference(single)}  \n:small[{against}]"


def _tolerances(found: list[tuple[Comparison, Comparison]]) -> str:
    """Say how far the two sides of each check differ in both precisions, and how far they may: a list in markdown."""
    head = "Largest differences between the two outputs, and their tolerance for rounding:"
    numbers = (
        ", ".join(f"{_difference(c)} in {c.dtype} (tolerance {written(c.tolerance, '.1e')})" for c in pair)
        for pair in found
    )
    return "\n".join([f"{head}\n", *(f"- {pair[0].claim}: {of}" for pair, of in zip(found, numbers, strict=True))])


def _difference(c: Comparison) -> str:
    return written(c.difference, ".1e") if c.difference else "0"


def latent_forms(view: View) -> None:
    """MLA to scale, and its absorbed form beside the expanded one."""
    layer, _ = view.layer_and_head
    if view.settings.opened:
        offer("mla", why="This part shows the shipped MLA checkpoint, which has another tokenizer.")
        return
    config, found = compute_groups.latent_equalities(view.settings, view.ids, layer)
    left, right = st.columns(2, gap="large")
    with left:
        if view.config.mixer.shares_kv_heads or state.alone():
            charts.show(latent.latent(config), "latent")
        else:  # the top of the page draws it, and the first tab has the other checks
            found = [each for each in found if each[0].claim == ABSORBED]
        charts.show(latent.absorbing(config, len(view.ids)), "absorbing")
    with right, st.container(key="latent-checks"):
        charts.heading(
            f"MLA, layer {layer}: {_agreement(found)}",
            f"{_which_latent(view)}: {latent.shape(config)}. Absorbed: W_UK is applied "
            "to the query and W_UV after the weighted sum, so decoding expands no keys or values. RoPE between W_UK "
            "and the query would prevent this, so position is carried by a separate small key that all heads share.",
            f"MLA is that of DeepSeek-V2 (arXiv 2405.04434).\n\n{_tolerances(found)}",
        )
        st.markdown(_equalities(found))


def _which_latent(view: View) -> str:
    shipped = compute_groups.has_shipped_latent(view.settings)
    return "The shipped checkpoint" if shipped else "An untrained MLA in DeepSeek-V2's proportions"
