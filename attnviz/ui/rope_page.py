"""The parts of the RoPE page, in the order they are walked. What a control changes is drawn again alone."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attnviz.analysis import rope as analysis
from attnviz.cost import attention_name
from attnviz.experiments import rope_equalities as rope_proofs
from attnviz.figures import rope as figures
from attnviz.figures import rope_scores
from attnviz.figures.drawing import escaped, quoted
from attnviz.ui import charts, rope_runs, state
from attnviz.ui.components.one_of import one_of
from attnviz.ui.components.rope_clocks import rope_clocks
from attnviz.ui.frame import View
from attnviz.ui.selection import key_of, layer_and_head, query_of
from attnviz.ui.settings import Settings
from attnviz.ui.words import headline

PARTS = {
    "distance": "Only distance counts",
    "values": "Why not v",
    "layouts": "Two layouts",
    "longer": "Longer texts",
    "without": "Without RoPE, and partly",
    "latent": "MLA's rotated key",
}
LAYOUTS = {"half": "half-split", "interleaved": "interleaved"}  # the settings' names, and those of the field
STEPS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
THETAS = tuple(round(step * 10.0**power) for power in range(2, 7) for step in STEPS) + (10_000_000,)
ALMOST_ALL = 0.995  # of the weights get a shade of their own, the rest the full colour
FARTHEST = 255  # distance up to which a query and a key are moved apart, at least
PASTE = '{"rope_type": "longrope", "short_factor": [1, …], "long_factor": [2, …], "factor": 2, …}'


def show(view: View) -> None:
    """The whole page, from the top."""
    with state.place():
        introduction(view)
        controls(view)
        clocks(view)
        frequencies(view)
    closer(view)


def introduction(view: View) -> None:
    """The page in one sentence, with this text's numbers in it."""
    frequencies, last = np.degrees(rope_runs.frequencies(view)), len(view.labels) - 1
    turned = [figures.three_digits(last * frequency) for frequency in (frequencies[0], frequencies[-1])]
    st.markdown(
        f"{headline(view)} Each pair of a head's dimensions is a clock hand. Position **{last}** "
        f"({quoted(view.labels[last])}) turns pair 0 by **{turned[0]}°** and pair {len(frequencies) - 1} by "
        f"**{turned[1]}°**. Queries and keys turn, values do not."
    )
    if not view.settings.rope:
        st.info("RoPE is switched off: what follows shows how this model would turn.", icon=":material/rotate_right:")


def controls(view: View) -> None:
    """What the whole page follows: how fast pairs turn, and which head's queries and keys."""
    layer, head = layer_and_head(view)
    with st.container(horizontal=True):
        state.control(
            st.select_slider, "θ, the base of the frequencies", "theta", options=_thetas(), format_func=_theta_name,
            help="Every map on every page is run with this θ.",
        )  # fmt: skip
        state.control(st.selectbox, "Layer", "layer", shown=layer, options=range(view.config.n_layers), width=110)
        state.control(st.selectbox, "Head", "head", shown=head, options=range(view.config.n_heads), width=110)
    if view.settings.theta != Settings().theta and view.settings.model != "own":
        st.caption(
            f"Trained with θ = {Settings().theta:,.0f} and run with {view.settings.theta:,.0f}: its maps and losses "
            "are not what it learnt."
        )


def _thetas() -> list[float]:
    return sorted({*map(float, THETAS), state.current().theta})


def _theta_name(theta: float) -> str:
    return f"{theta:,.0f}"


def clocks(view: View) -> None:
    """Every pair as a clock with the text's tokens on it; slider and play run in the browser."""
    layer, head = layer_and_head(view)
    st.subheader("Every token is a point on every clock", divider="gray")
    frequencies = rope_runs.frequencies(view)
    q, _ = rope_runs.unturned(view, layer, head)
    pairs = analysis.as_pairs(q, len(frequencies), view.config.rope_layout)  # complex (T, n_pairs)
    rope_clocks(
        frequencies, np.stack((pairs.real, pairs.imag), axis=-1), view.labels, query_of(view),
        _head(view).colour, key="rope-clocks",
    )  # fmt: skip


def frequencies(view: View) -> None:
    """Wavelengths, and the tables of cos and sin."""
    st.subheader("Fast pairs and slow pairs", divider="gray")
    turning, values, n = rope_runs.turning(view), rope_runs.frequencies(view), len(view.labels)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.wavelengths(values, n, turning.max_context, turning.rope_theta), "wavelengths")
    with right:
        charts.show(figures.rotation_maps(values, n), "rotations")


@state.part("turning")
def closer(view: View) -> None:
    """One of the parts below, as chosen; the others are not computed."""
    st.subheader("Look closer", divider="gray")
    chosen = state.current().turning
    one_of("Look closer", PARTS, chosen, key="turning", on_choose=lambda part: state.change(turning=part), quiet=True)
    show = {
        "distance": _distance, "values": _values, "layouts": _layouts, "longer": _longer, "without": _without,
        "latent": _latent,
    }  # fmt: skip
    show[chosen](view)


def _distance(view: View) -> None:
    """One score under shifts and against distance, the bound, and what the head makes of distance on this text."""
    config, values, head = rope_runs.turning(view), rope_runs.frequencies(view), _head(view)
    m, n = _query_and_key(view)
    all_q, all_k = rope_runs.unturned(view, head.layer, head.head)
    q, k, scale = all_q[m], all_k[n], view.config.head_dim**-0.5
    shifted = rope_proofs.shifted_scores(q, k, m, n, values, config.rope_layout)
    distances = np.arange(max(FARTHEST, len(view.labels)) + 1) * (1 if m >= n else -1)
    scores = analysis.score_parts(q, k, values, distances, config.rope_layout).sum(0) * scale
    bound = analysis.decay_bound(q, k, values, distances, config.rope_layout) * scale
    charts.show(rope_scores.shifts(shifted), "shifts")
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(rope_scores.moved_apart(scores, abs(m - n), view.labels[m], view.labels[n], head), "apart")
    with right:
        charts.show(rope_scores.decay(scores, bound, head), "decay")
    means = analysis.by_distance(view.trace.scores_of(head.layer, head.head), view.trace.allowed[head.layer])
    charts.show(rope_scores.by_distance(*means, head), "by-distance")


def _query_and_key(view: View) -> tuple[int, int]:
    """Two selects, and the positions they stand at."""
    last, query = len(view.labels) - 1, query_of(view)
    key = state.current().key
    with st.container(horizontal=True):
        state.control(
            st.selectbox, "Query token", "query", shown=query, options=range(last + 1),
            format_func=lambda i: f"{i} {view.labels[i]}",
        )  # fmt: skip
        state.control(
            st.selectbox, "Key token", "key", shown=key if key <= last else -1, options=[-1, *range(last + 1)],
            format_func=lambda i: f"{i} {view.labels[i]}" if i >= 0 else "the one the query gives most",
        )  # fmt: skip
    return query_of(view), key_of(view)


def _values(view: View) -> None:
    """Why queries and keys are turned, and values are not."""
    head, trace = _head(view), view.trace
    q, k = rope_runs.unturned(view, head.layer, head.head)
    v, allowed = trace.v[head.layer, head.kv_head], trace.allowed[head.layer]
    frequencies, layout = rope_runs.frequencies(view), view.config.rope_layout
    moved = rope_proofs.shifted_outputs(q, k, v, allowed, frequencies, query_of(view), layout)
    charts.show(rope_scores.values(moved, head), "values")


def _layouts(view: View) -> None:
    """The two ways to pair dimensions, the permutation between them, and weights of one run under the other."""
    head, values = _head(view), rope_runs.frequencies(view)
    compared = rope_proofs.compare_layouts(*rope_runs.unturned(view, head.layer, head.head), values)
    st.markdown(rope_scores.layout_finding(compared))
    charts.show(rope_scores.layout_pairs(compared.order, len(values)), "layout-pairs")
    own = view.config.rope_layout
    as_run, other = LAYOUTS[own], LAYOUTS[rope_proofs.OTHER_LAYOUT[own]]
    variants = {f"Run as {as_run}": "on", f"As {other}": "other layout", f"As {other}, reordered": "reordered"}
    maps = {name: rope_runs.weights_of(view, variant, head.layer, head.head) for name, variant in variants.items()}
    _maps(view, head, maps, "The same weights in the same shapes; last, with the rows of W_q and W_k put in order.")


def _without(view: View) -> None:
    """The same head with RoPE, without, and with a part of its dimensions turning."""
    head = _head(view)
    variants = {"With RoPE": "on", "Without": "off"}
    maps = {name: rope_runs.weights_of(view, variant, head.layer, head.head) for name, variant in variants.items()}
    note = "The same weights and the same text."
    if view.config.attention != "mla":
        fraction = state.control(
            st.slider, "Share of the dimensions that turn", "fraction", min_value=0.0, max_value=1.0, step=0.05,
            format="percent", help="GPT-NeoX turns a quarter, GPT-J 64 of 256, Phi-2 40 %; the rest is content only.",
        )  # fmt: skip
        turned = int(view.config.head_dim * fraction) // 2 * 2
        name = f"{turned} of {view.config.head_dim} dimensions turned"
        maps[name] = rope_runs.weights_of(view, "part", head.layer, head.head, fraction)
        note += " Only with all dimensions turned is this what it learnt." if view.settings.model != "own" else ""
    _maps(view, head, maps, note)


def _maps(view: View, head: rope_scores.Head, maps: dict[str, np.ndarray], note: str) -> None:
    """Attention maps side by side, each with how far it is from the first."""
    allowed, first = view.trace.allowed[head.layer], next(iter(maps.values()))
    top = max(float(np.quantile(weights[allowed], ALMOST_ALL)) for weights in maps.values())
    for i, (column, (name, weights)) in enumerate(zip(st.columns(len(maps)), maps.items(), strict=True)):
        title = name if i == 0 else f"{name}: off by up to {np.abs(weights - first).max():.2g}"
        with column:
            drawing = rope_scores.weight_map(weights, allowed, view.labels, top, head, title, note)
            charts.show(drawing, f"map-{state.current().turning}-{i}")


def _longer(view: View) -> None:
    """Texts longer than any in training: what each method does to the pairs, and to the loss."""
    trained, config = rope_runs.trained_on(view), rope_runs.turning(view)
    factor = state.control(
        st.slider, "Factor: how many times longer than in training texts may be", "factor", min_value=1.0,
        max_value=32.0, step=0.5, format="%g ×",
    )  # fmt: skip
    methods, problem = rope_runs.scalings(view, factor, _pasted(config.rotary_dim // 2))
    if problem:
        st.error(escaped(problem), icon=":material/error:")
    ids, which = rope_runs.long_ids(view, trained)
    by_method = rope_proofs.scaled_frequencies(config.rotary_dim, config.rope_theta, methods, len(ids))
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.slowed(by_method, factor, trained, len(ids)), "slowed")
    with right:
        if view.settings.model == "own":
            st.info(
                "What each method does to the loss stands here for a checkpoint. Untrained weights predict nothing, "
                "at any position: choose another model on the left."
            )
        else:
            with st.spinner("Reading a long text under each method …"):
                losses = rope_runs.losses(view, ids, methods)
            charts.show(figures.loss_by_position(losses, trained, attention_name(config), view.origin), "loss")
            st.caption(f"The text: {which}.")
    for name, scaling in methods.items():
        if scaling and scaling.attention_factor != 1:
            value = scaling.attention_factor
            st.markdown(f"{name} also multiplies cos and sin by **{value:.4f}**, and so every score by {value**2:.4f}.")


def _pasted(n_pairs: int) -> str:
    return st.text_input(
        "rope_scaling out of a published configuration, as JSON", placeholder=PASTE, key="pasted-scaling",
        help="Its training context is replaced by this model's. LongRoPE needs this: its factors are searched for each "
        f"model, {n_pairs} short and {n_pairs} long ones here.",
    )  # fmt: skip


def _latent(view: View) -> None:
    """MLA: content scores from the latent, position from one key that all heads share."""
    st.markdown(
        "A rotated key cannot be expanded from a latent, since the rotation would stand between the two. So MLA turns "
        "one extra key, shared by all heads, and leaves the rest unturned."
    )
    if view.config.attention != "mla":
        st.button("Show it with the MLA checkpoint", on_click=_take_mla)
        return
    head, trace = _head(view), view.trace
    q, k = trace.q[head.layer, head.head], trace.k[head.layer, head.kv_head]
    content, position = analysis.split_scores(q, k, view.config.qk_rope_head_dim)
    whole, allowed = trace.scores_of(head.layer, head.head), trace.allowed[head.layer]
    limit = float(max(np.abs(part[allowed]).max() for part in (content, position, whole)))
    parts = (
        ("Content", content, f"{view.config.qk_nope_head_dim} dimensions from the latent, unturned."),
        ("Position", position, f"{view.config.qk_rope_head_dim} dimensions against the one rotated key."),
        ("Both", whole, "Their sum, which the softmax gets."),
    )
    for column, (name, scores, note) in zip(st.columns(3), parts, strict=True):
        title = f"{name}: scores spread by {scores[allowed].std():.2f}"
        with column:
            drawing = rope_scores.score_map(scores, allowed, view.labels, limit, head, title, note)
            charts.show(drawing, f"mla-{name.lower()}")


def _take_mla() -> None:
    state.change(model="mla")
    state.rerun(state.PAGE)


def _head(view: View) -> rope_scores.Head:
    layer, head = layer_and_head(view)
    return rope_scores.Head(layer, head, view.config.layer.kv_head_of[head], view.config.n_kv_heads, view.origin)
