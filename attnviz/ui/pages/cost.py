"""Parts of the Cost page, from the top. A control reruns only the parts that depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from attnviz.compute import cost as compute_cost
from attnviz.compute.counting import BeingCounted
from attnviz.compute.view import View, countable
from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import (
    Answer,
    Serving,
    attention_name,
    comparison,
    count_parameters,
    load_accelerators,
    load_presets,
    what_if,
)
from attnviz.cost.hf_config import KNOWN, Description
from attnviz.cost.pairs import Pair, instructive_pairs
from attnviz.cost.placed import windowed
from attnviz.cost.two_forms import why_not_absorbed
from attnviz.cost.units import count_text
from attnviz.experiments.measurement import n_threads
from attnviz.facts import facts_of, published_facts
from attnviz.figures import cost as figures
from attnviz.figures.drawing import escaped
from attnviz.phrases import count, listed
from attnviz.session.pages import ELEMENTS
from attnviz.session.pages.cost import OWN_MEMORY, PASTED, SELECTED
from attnviz.session.settings import Settings
from attnviz.ui import charts, controls, state
from attnviz.ui.components.to_scale import to_scale
from attnviz.ui.pages.cost_lists import cards, models
from attnviz.ui.pages.cost_question import COUNT, PARTS, question

BY = {"parameters": "Parameters", "year": "Year"}
SEVERAL = 8  # accelerators, where one is chosen
WINDOWS = (
    "Off: their window alone, as transformers' sliding cache. vLLM's hybrid KV cache manager takes the pages in which "
    "the window lies; with `--disable-hybrid-kv-cache-manager` it takes pages for all tokens, as this switch counts."
)


def show() -> None:
    """Draw the page."""
    question()
    tabs()
    own_model()
    if (found := st.session_state.get("measurement")) and found.running:
        _progress()
    if (counts := st.session_state.get(COUNT)) and counts.running:
        _counting()


@state.part("own", countable)
def own_model(view: View) -> None:
    """Parameters and cache of the sidebar's model where it is asked for, on the tabs that compare or measure it."""
    s = view.settings
    asked = s.preset == SELECTED or (s.only and ELEMENTS[s.only].part == "own")
    if view.settings.recorded or not asked or state.page().open_tab(s.tab) not in ("published", "measured"):
        return
    n = count_parameters(view.config).total
    name = escaped(compute_cost.selected_model(view).name)
    st.header(f"{name}: the model selected in the sidebar, {count_text(n)} parameters", divider="gray")
    if view.config.mixed_layers:
        _by_layers(view.config, s)
        return
    full = comparison(view.config)[0]
    st.markdown(figures.saving_text(full, view.config, s.context, s.batch, s.precision))
    own(view)


def own(view: View) -> None:
    """The selected model with each type of attention."""
    _under_every_attention(view.config, view.settings, "")


def _under_every_attention(c: ModelConfig, s: Settings, key: str) -> None:
    """Draw one model's parameters and cache with each type of attention, and the counts in live tensors."""
    models, live = comparison(c), None
    try:
        live = compute_cost.counted(models, s)
        differing = compute_cost.differing(models, live, s)
        said = figures.counted_text(len(models), *differing, s.precision, windowed=windowed(c, s.context))
    except ConfigError as problem:
        said = f"By formula only, since {escaped(str(problem).partition(';')[0])}."
    attention, model, cache, precisions = compute_cost.own_drawings(
        tuple(models), c, live, s.context, s.batch, s.precision
    )
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(attention, f"attention{key}")
        charts.show(model, f"model{key}")
    with right:
        charts.show(cache, f"cache{key}")
        charts.show(precisions, f"precisions{key}")
    st.caption(said)


@state.part("tabs", countable)
def tabs(view: View) -> None:
    """The open tab; the others are not computed."""
    tab = controls.tabs(view, "Look closer", quiet=True, also=["own", "amounts"])
    if tab in ("facts", "measured"):
        {"facts": facts, "measured": measured}[tab](view)
        return
    show = {
        "published": published, "models": models, "cards": cards, "memory": memory, "holders": holders, "speed": speed,
    }  # fmt: skip
    with suppress(ConfigError):  # the question says what is wrong
        show[tab](view, compute_cost.answer(view))


def published(view: View, asked: Answer) -> None:
    """The model beside others to scale, all on one plot, totals over the context, other attention types."""
    s, presets = view.settings, load_presets()
    controls.control(
        st.multiselect, "Models to compare (at most six)", "compare", options=list(presets),
        format_func=lambda id: presets[id].name, max_selections=6,
    )  # fmt: skip
    chosen = list(dict.fromkeys([*(presets[id] for id in s.compare), asked.serving.model]))
    bars = figures.caches_panel(chosen, s.context, s.batch, s.precision)
    to_scale([bars], "compared", figures.kinds_of(chosen))
    _pairs(s)
    controls.control(
        st.segmented_control, "All models by", "by", options=list(BY), format_func=BY.__getitem__, required=True,
    )  # fmt: skip
    asked_id = compute_cost.asked_id(s)
    named = dict.fromkeys((*s.compare, *([asked_id] if asked_id in presets else [])))
    charts.show(compute_cost.published(tuple(named), s.by), "published")
    if s.compare:
        charts.show(compute_cost.totals(s.compare, s.context), "totals")
        _notes(s.compare, "compared")
    _alternatives(asked.serving.model, s)
    _sources(view)


def _alternatives(model: ModelConfig, s: Settings) -> None:
    """The model with other types of attention, or which layers it has where they differ."""
    if not model.mixed_layers:
        charts.show(compute_cost.alternatives(model, s.context), "alternatives")
        return
    st.info(
        f"{escaped(figures.short_name(model))} has layers of several kinds: {figures.layers_text(model)}. No other "
        "type of attention is compared, since there is no one type to replace.",
        icon=":material/info:",
    )
    for sentence in figures.only_costs(model):
        st.caption(sentence)


def _pairs(s: Settings) -> None:
    """Pills with instructive comparisons, and the sentence on the chosen one."""
    pairs = {pair.name: pair for pair in instructive_pairs()}
    controls.pick("Instructive comparisons", list(pairs), "pair", lambda name: _take_pair(pairs[name]))
    for pair in pairs.values():
        if s.compare == pair.ids:
            st.info(pair.sentence, icon=":material/lightbulb:")


def _take_pair(pair: Pair) -> None:
    state.change(compare=pair.ids, context=pair.n_tokens, preset=pair.ids[0])
    state.rerun()


def _notes(ids: Sequence[str], key: str) -> None:
    """Show the assumptions about these models, and the sources of their configurations."""
    facts = published_facts()
    for id in ids:
        if facts[id].get("notes"):
            st.caption(f"**{figures.short_name(load_presets()[id])}**: {facts[id]['notes']}")
    with st.expander("Sources of these configurations", key=f"sources-{key}", type="compact"):
        st.markdown("\n".join(f"- **{facts[id]['name']}**: {'; '.join(facts[id]['source'])}" for id in ids))


def facts(view: View) -> None:
    """Costs of a pasted config.json, or of a configuration in this page's own fields."""
    s = view.settings
    start = s.preset if s.preset in load_presets() else Settings.preset
    name = load_presets()[start].name
    controls.control(
        st.text_area, "A Hugging Face config.json, or this page's own fields (JSON)", "facts", height=160,
        reruns=PARTS, then=_ask_for_it,
        placeholder='{"model_type": "llama", "num_hidden_layers": 32, …}   or   {"n_layers": 32, "d_model": 4096, …}',
        help=f"Paste a model's config.json unchanged. Known architectures: {', '.join(f'`{k}`' for k in KNOWN)}.",
    )  # fmt: skip
    with st.container(horizontal=True):
        # The text area already applies its text on blur; the button makes that discoverable.
        st.button("Count this model", on_click=_count_again)
        st.button(f"Start from {name}", icon=":material/edit:", on_click=_take_facts, args=(start,))
    if not s.facts.strip():
        st.info(
            "Paste a model's configuration above and press “Count this model”: its parameters, its KV cache and those "
            "of the same model with MHA, GQA, MQA and MLA are then shown here.",
            icon=":material/content_paste:",
        )
        return
    try:
        model, description = compute_cost.pasted_model(s.facts)
    except BeingCounted:
        return  # the question says so
    except ConfigError as problem:
        st.error(escaped(str(problem)), icon=":material/error:")
        return
    if "facts" not in s.to_link():
        st.info(
            "Text and configuration together are too long for a link. A link, or this page loaded again, opens without "
            "the configuration."
        )
    growth = figures.growth_text(model, s.precision)
    if description:
        _describe(description, growth)
    else:
        st.markdown(growth)
    if model.mixed_layers:
        _by_layers(model, s, "-pasted")
    else:
        _under_every_attention(model, s, "-pasted")


def _ask_for_it() -> None:
    """Let the whole page answer for the pasted configuration, as long as there is one."""
    state.change(preset=PASTED if state.current().facts.strip() else Settings.preset)


def _count_again() -> None:
    """Count the pasted configuration; again, where transformers could not."""
    compute_cost.count_again(state.current().facts)
    state.rerun(*PARTS)


@st.fragment(run_every=1)
def _counting() -> None:
    """Progress of the count by transformers, and a button that cancels it."""
    counts = st.session_state[COUNT]
    if not counts.running:
        st.rerun()
    st.progress(counts.share, f"Counting with transformers: {counts.stage} … (at most {counts.seconds:g} s)")
    st.button("Cancel the count", on_click=counts.stop)


def _by_layers(model: ModelConfig, s: Settings, key: str = "") -> None:
    """Draw parameters, cache and state of a model whose layers differ, and say what cannot be shown of it."""
    st.markdown(f"Layers: {figures.layers_text(model)}.")
    for sentence in figures.only_costs(model):
        st.info(sentence, icon=":material/info:")
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.parts_of_layers(model), f"model{key}")
    with right:
        charts.show(figures.memory_of_layers(model, s.context, s.batch, s.precision), f"cache{key}")


def _describe(described: Description, growth: str) -> None:
    """Show how its cache grows, the fields used from a config.json, and what is assumed or not counted."""
    n = count_parameters(described.model)
    left_out = " (of the embedding table, the one row read)" if n.unread_embeddings else ""
    active = f", {n.used_per_token:,} active per token{left_out}" if described.model.experts else ""
    st.markdown(f"## {escaped(described.architecture)}: {n.total:,} parameters{active}")
    st.markdown(growth)
    if not described.known:
        st.warning(
            f"AttnViz does not know the architecture “{escaped(described.architecture)}”. It has the fields of a "
            "Llama, so it is counted like one: RMSNorm, SwiGLU, no window. This is an assumption; check the fields "
            "that are not used.",
            icon=":material/help:",
        )
    st.markdown("\n\n".join(figures.description_texts(described)))


def _take_facts(preset: str) -> None:
    state.change(facts=facts_of(preset))
    _ask_for_it()
    state.rerun(*PARTS)


def memory(view: View, asked: Answer) -> None:
    """Number of sequences that fit beside the weights, and the longest context of one."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.control(st.slider, "Reserve, % of the memory", "reserve", width=260, reruns=PARTS)
        controls.control(
            st.number_input, "Tokens per page of the cache", "page_tokens", width=200, reruns=PARTS,
            help="Engines with a paged cache take whole pages for each sequence: of 16 tokens by default in vLLM, of "
            "more with some kernels. 1: not rounded up.",
        )  # fmt: skip
        if windowed(asked.serving.model, asked.serving.n_tokens):
            controls.control(st.toggle, "Windowed layers hold all tokens", "full_windows", reruns=PARTS, help=WINDOWS)
    charts.show(figures.filling(asked.serving), "filling")
    _sources(view)


def _sources(view: View) -> None:
    """Notes and sources of the model of the question, if it is a published one."""
    if (id := compute_cost.asked_id(view.settings)) in load_presets():
        _notes([id], "asked")


def holders(view: View, asked: Answer) -> None:
    """What each of several accelerators holds, with both ways to divide it side by side."""
    if asked.serving.count == 1:
        st.info("One accelerator holds everything. Choose a “Number of them” above 1 to see which holds which part.")
        st.button(f"Divide it by {SEVERAL}", on_click=_divide)
        return
    for column, parallel in zip(st.columns(2, gap="large"), figures.PARALLEL, strict=True):
        with column:
            charts.show(figures.holders(asked.serving, asked.n_sequences, parallel), parallel)


def _divide() -> None:
    state.change(n_machines=SEVERAL)
    state.rerun(*PARTS)


def speed(view: View, asked: Answer) -> None:
    """Roofline bounds on decoding speed and on the time to the first token; MLA's two forms."""
    serving, s = asked.serving, view.settings
    if s.machine == OWN_MEMORY:
        st.info("Peak arithmetic of a memory that is typed in is not known: choose an accelerator for these figures.")
    elif not serving.work_known:
        st.info(figures.only_costs(serving.model)[0])
        return
    else:
        _bounds(serving, s)
    if why_not := why_not_absorbed(serving.model):
        st.info(f"Decoding in an absorbed form, as MLA does, is not drawn for this model. {why_not}")
    else:
        charts.show(figures.two_forms(serving), "forms")


def _bounds(serving: Serving, s: Settings) -> None:
    """Draw the bounds of an accelerator whose arithmetic is known."""
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.speed(serving), "speed")
    with right:
        charts.show(figures.roof(serving), "roof")
    charts.show(figures.first_token(serving), "first-token")
    every = [card.times(s.n_machines) for card in load_accelerators().values()]
    charts.show(figures.machines(every, serving, s.batch), "machines")


def measured(view: View) -> None:
    """Decode steps of the live modules, timed on this server."""
    c = view.config
    if view.settings.recorded:
        st.info(view.refusal("cost"))
        return
    if c.mixed_layers:
        st.info("This part times one attention in all layers beside others, and this model's layers differ or have "
                "more than such an attention. Choose MHA, GQA, MQA or MLA in the sidebar.")  # fmt: skip
        return
    st.markdown(
        f"Time one decode step of the selected model ({count(c.n_layers, 'layer')}, d_model {c.d_model}, random "
        f"weights, no window) as {listed(dict.fromkeys(map(attention_name, what_if(c))))}, after "
        f"{compute_cost.MEASURED_CONTEXTS[0]} to {compute_cost.MEASURED_CONTEXTS[-1]:,} tokens, on this server's CPU. "
        f"The measurement ends after about {compute_cost.MAX_SECONDS} seconds; other users' requests slow it down."
    )
    measurement = st.session_state.get("measurement")
    current = measurement if measurement and measurement.config == c else None
    if not (current and current.running):
        st.button("Measure", type="primary", icon=":material/timer:", on_click=_start_measuring, args=(c,))
    if current and current.problem:
        st.warning(current.problem, icon=":material/hourglass:")
    elif current and current.results and not current.running:
        charts.show(figures.measured(current.results, n_threads()), "measured")
        st.caption("Measured on this server, for these settings. A link does not contain the measurement.")


def _start_measuring(config: ModelConfig) -> None:
    if before := st.session_state.get("measurement"):
        before.stop()  # of another configuration
    st.session_state["measurement"] = compute_cost.Measurement(config)
    st.rerun()  # of the whole page, which then draws the polling fragment


@st.fragment(run_every=1)  # each poll draws the chart anew, which takes time from what is being measured
def _progress() -> None:
    """Progress of the measurement, the results so far, and a stop button."""
    measurement = st.session_state["measurement"]
    if not measurement.running:
        st.rerun()
    last = measurement.results[-1] if measurement.results else None
    text = f"{attention_name(last.config)} after {last.n_tokens:,} tokens: {last.median * 1000:.2f} ms" if last else ""
    st.progress(measurement.share, text or "Warming up …")
    st.button("Stop measuring", on_click=measurement.stop)
    if measurement.results:
        charts.show(figures.measured(list(measurement.results), n_threads()), "measured-so-far")
