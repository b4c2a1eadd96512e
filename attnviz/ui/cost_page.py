"""The parts of the Cost page, from the top. What a control changes is drawn again alone."""

from __future__ import annotations

from contextlib import closing
from functools import lru_cache

import streamlit as st

from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import (
    PRECISIONS,
    attention_name,
    count_parameters,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
    what_if,
)
from attnviz.cost.pairs import instructive_pairs
from attnviz.cost.units import bytes_text, tokens_text
from attnviz.experiments.measurement import n_threads
from attnviz.facts import published_facts
from attnviz.figures import cost as figures
from attnviz.figures.drawing import Drawing, escaped
from attnviz.figures.words import count, listed
from attnviz.ui import charts, cost_runs, runs, state
from attnviz.ui.components.one_of import one_of
from attnviz.ui.components.stop_button import stop_button
from attnviz.ui.frame import View
from attnviz.ui.settings import Settings

PARTS = {
    "published": "Published models",
    "facts": "Another model",
    "memory": "What fits in GPU memory",
    "speed": "Decode speed",
    "measured": "Measured here",
}
CONTEXTS = tuple(2**k for k in range(7, 21))  # 128 to 1 M tokens
BATCHES = tuple(2**k for k in range(11))  # 1 to 1,024 sequences


def show(view: View) -> None:
    """The whole page, from the top."""
    if problem := runs.problem_of(view.settings):
        st.error(f"{escaped(str(problem))} Choose another model on the left.", icon=":material/error:")
        return
    with state.place():
        controls(view)
        own(view)
    closer(view)


def controls(view: View) -> None:
    """The page in one sentence, and the controls for all of it: tokens, sequences, precision of the cache."""
    _introduction(cost_runs.compared(view.config), view.config, view.settings)
    contexts, batches = ({*CONTEXTS, view.settings.context}, {*BATCHES, view.settings.batch})
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(
            st.select_slider, "Context, tokens", "context", options=sorted(contexts), format_func=tokens_text, width=320
        )
        state.control(st.select_slider, "Sequences at once", "batch", options=sorted(batches), width=220)
        state.control(st.segmented_control, "Cache in", "precision", options=list(PRECISIONS), required=True)


def own(view: View) -> None:
    """The selected model with each type of attention."""
    _under_every_attention(view.config, view.settings, "")


def _under_every_attention(c: ModelConfig, s: Settings, key: str) -> None:
    """One model's parameters and cache with each type of attention, beside what live tensors hold."""
    models = cost_runs.compared(c)
    live = cost_runs.counted(models, s)
    attention, model, cache, precisions = _own_drawings(tuple(models), c, live, s.context, s.batch, s.precision)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(attention, f"attention{key}")
        charts.show(model, f"model{key}")
    with right:
        charts.show(cache, f"cache{key}")
        charts.show(precisions, f"precisions{key}")
    if live is None:
        st.caption("By formula only: the live modules run Llama-shaped models and MLA.")
    else:
        st.caption(_counted_words(models, live, s))


def _counted_words(models: list[ModelConfig], live: cost_runs.Counted, s: Settings) -> str:
    """What was counted in live tensors, and whether the formulas say the same."""
    counted = (
        f"{len(models)} live models were built, one layer of each, as its layers are alike; their parameters and the "
        "bytes of their bf16 caches were counted"
    )
    drawn = "" if s.precision == "bf16" else f" The {s.precision} bytes drawn are by formula and were not counted."
    apart = cost_runs.differing(models, live, s)
    if apart:
        return f"{counted}. Formula and count differ for {listed(apart)}: see the numbers under each figure.{drawn}"
    return f":material/check: {counted}; the formulas give the same.{drawn}"


@lru_cache(maxsize=16)  # drawn once for everybody
def _own_drawings(
    models: tuple[ModelConfig, ...], c: ModelConfig, live: cost_runs.Counted | None, context: int, batch: int, bits: str
) -> tuple[Drawing, ...]:
    return (
        figures.attention_parameters(models, c, live and live.attention),
        figures.model_parameters(models, c, live and live.model),
        figures.cache(models, c, live and live.cache, context, batch, bits),
        figures.precisions(c, context, batch),
    )


def _introduction(models, c, s) -> None:
    """What sharing KV heads saves of the cache, and of the parameters."""
    bits, block = PRECISIONS[s.precision]
    full, here = (kv_cache_bytes(m, s.context, s.batch, bits, block_size=block) for m in (models[0], c))
    share = count_parameters(c).total / count_parameters(models[0]).total
    first, name = attention_name(models[0]), attention_name(c)
    said = f"For **{figures.crowd_text(s.context, s.batch)}** in {s.precision}, {first} caches **{bytes_text(full)}**"
    if c != models[0]:
        said += (
            f" and the selected {name} **{bytes_text(here)}**: {here / full:.1%} of the cache, with {share:.1%} of the "
            "parameters"
        )
    st.markdown(f"{said}.")


def closer(view: View) -> None:
    """One of the page's other parts; only the open one is computed."""
    st.subheader("Other models and accelerators", divider="gray")
    part = state.current().part
    one_of("Part", PARTS, part, key="part", on_choose=lambda part: state.change(part=part), quiet=True)
    if part == "measured":
        measured(view)
    else:
        {"published": published, "facts": facts, "memory": memory, "speed": speed}[part]()


def published() -> None:
    """The published models on one plot, a few of them over the context, one of them with another attention."""
    pairs = {pair.name: pair for pair in instructive_pairs()}
    with state.place():
        st.pills("Instructive comparisons", list(pairs), key="pair", on_change=_take_pair, args=(pairs,))
        for pair in pairs.values():
            if state.current().compare == pair.ids:
                st.info(pair.sentence, icon=":material/lightbulb:")
    _compared()
    _alternatives()


@state.part("compared")
def _compared() -> None:
    presets = load_presets()
    state.control(
        st.multiselect, "Models to compare (at most six)", "compare", options=list(presets),
        format_func=lambda id: presets[id].name, max_selections=6,
    )  # fmt: skip
    s = state.current()
    charts.show(_all_published(s.compare), "published")
    if s.compare:
        charts.show(_totals(s.compare, s.context), "totals")
        _notes(s.compare, "compared")


@lru_cache(maxsize=16)
def _all_published(chosen: tuple[str, ...]) -> Drawing:
    presets = load_presets()
    return figures.published(list(presets.values()), [presets[id] for id in chosen])


@lru_cache(maxsize=16)
def _totals(chosen: tuple[str, ...], context: int) -> Drawing:
    return figures.totals([load_presets()[id] for id in chosen], context)


@state.part("alternatives")
def _alternatives() -> None:
    _preset("What if this model had another attention?")
    s = state.current()
    charts.show(_alternatives_of(s.preset, s.context), "alternatives")
    _notes([s.preset], "alternative")


@lru_cache(maxsize=16)
def _alternatives_of(preset: str, context: int) -> Drawing:
    return figures.alternatives(load_presets()[preset], context)


def _take_pair(pairs: dict) -> None:
    chosen = st.session_state["pair"]
    st.session_state["pair"] = None
    if chosen is not None:
        pair = pairs[chosen]
        state.change(compare=pair.ids, context=pair.n_tokens, preset=pair.ids[0])


def _notes(ids, key: str) -> None:
    """What was assumed about these models, and the sources of their configurations."""
    facts = published_facts()
    for id in ids:
        if facts[id].get("notes"):
            st.caption(f"**{figures.short_name(load_presets()[id])}**: {facts[id]['notes']}")
    with st.expander("Sources of these configurations", key=f"sources-{key}"):
        st.markdown("\n".join(f"- **{facts[id]['name']}**: {'; '.join(facts[id]['source'])}" for id in ids))


def _preset(label: str) -> None:
    presets = load_presets()
    state.control(
        st.selectbox, label, "preset", options=list(presets), format_func=lambda id: presets[id].name, width=420
    )


@state.part("facts")
def facts() -> None:
    """A model configuration as JSON, counted like the others."""
    s = state.current()
    name = load_presets()[s.preset].name
    state.control(
        st.text_area, "Model configuration (JSON)", "facts", height=260, placeholder='{"n_layers": 32, "d_model": …}',
        help="Fields as in a published model's configuration. Unknown fields and impossible values are named.",
    )  # fmt: skip
    st.button(
        f"Start from {name}", icon=":material/edit:", on_click=state.change,
        kwargs={"facts": cost_runs.facts_of(s.preset)},
    )  # fmt: skip
    if not s.facts.strip():
        return
    try:
        model = cost_runs.pasted_model(s.facts)
    except ConfigError as problem:
        st.error(escaped(str(problem)), icon=":material/error:")
        return
    _under_every_attention(model, s, "-pasted")


@state.part("memory")
def memory() -> None:
    """How many sequences fit beside the weights, and how long one can be."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _preset("Model")
        _machine()
        state.control(st.number_input, "How many", "n_machines", min_value=1, max_value=64, width=110)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _weights()
        _reserve()
    s = state.current()
    charts.show(figures.filling(cost_runs.serving(s)), "filling")
    _notes([s.preset], "held")


def _weights() -> None:
    state.control(st.segmented_control, "Weights in", "weights", options=list(PRECISIONS), required=True)


def _reserve() -> None:
    state.control(st.slider, "Reserve, % of the memory", "reserve", min_value=0, max_value=90, width=220)


def _machine() -> None:
    cards = load_accelerators()
    state.control(
        st.selectbox, "Accelerator", "machine", options=list(cards), width=300,
        format_func=lambda id: f"{cards[id].name} · {cards[id].data_sheet_gb} GB",
    )  # fmt: skip


@state.part("speed")
def speed() -> None:
    """The roofline bound on decoding."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _preset("Model")
        _machine()
        state.control(st.number_input, "How many", "n_machines", min_value=1, max_value=64, width=110)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _weights()
        _reserve()
    s = state.current()
    serving = cost_runs.serving(s)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.speed(serving), "speed")
    with right:
        charts.show(figures.roof(serving), "roof")
    cards = [card.times(s.n_machines) for card in load_accelerators().values()]
    charts.show(figures.machines(cards, serving, s.batch), "machines")


@state.part("measured")
def measured(view: View) -> None:
    """Decode steps of the live modules, timed on this server."""
    c = view.config
    st.markdown(
        f"One decode step of the selected model ({count(c.n_layers, 'layer')}, d_model {c.d_model}, random weights, no "
        f"window) as {listed(dict.fromkeys(map(attention_name, what_if(c))))}, after {cost_runs.CONTEXTS[0]} to "
        f"{cost_runs.CONTEXTS[-1]:,} tokens, on this server's CPU. It ends after about {cost_runs.MOST_SECONDS} "
        "seconds; other people's requests slow it down."
    )
    with st.container(horizontal=True):
        start = st.button("Measure", type="primary", icon=":material/timer:")
        stop_button("stop-measuring")
    if start:
        _measure(view)
    kept = st.session_state.get("timings")
    if kept and kept[0] == view.config and kept[1]:
        charts.show(figures.measured(kept[1], n_threads()), "measured")
        st.caption("Measured on this server, for these settings. A link does not carry the measurement.")


def _measure(view: View) -> None:
    """Measure, storing each result as it comes, so that stopping loses none."""
    results: list = []
    st.session_state["timings"] = (view.config, results)
    bar = st.progress(0.0, "Warming up …")
    try:
        # whoever stops it gives the turn to measure back; that to draw is for others meanwhile
        with state.TURNS.aside(), closing(cost_runs.timings(view.config)) as steps:
            for share, timing in steps:
                results.append(timing)
                name = attention_name(timing.config)
                bar.progress(share, f"{name} after {timing.n_tokens:,} tokens: {timing.median * 1000:.2f} ms")
    except RuntimeError as busy:
        st.warning(str(busy), icon=":material/hourglass:")
    bar.empty()
