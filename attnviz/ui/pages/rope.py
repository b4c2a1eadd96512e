"""The parts of the RoPE page, in the order they are walked. What a control changes is drawn again alone."""

from __future__ import annotations

import numpy as np
import streamlit as st

from attnviz.analysis import rope as analysis
from attnviz.compute import rope as compute_rope
from attnviz.compute.view import View
from attnviz.cost import attention_name
from attnviz.experiments import rope_equalities
from attnviz.figures import rope as figures
from attnviz.figures import rope_scores
from attnviz.figures.drawing import escaped, quoted
from attnviz.ui import charts, state
from attnviz.ui.components.rope_clocks import rope_clocks
from attnviz.ui.headline import headline

LAYOUTS = {"half": "half-split", "interleaved": "interleaved"}  # the settings' names, and those of the field
STEPS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
THETAS = tuple(round(step * 10.0**power) for power in range(2, 7) for step in STEPS) + (10_000_000,)
ALMOST_ALL = 0.995  # share of the weights below full colour
FARTHEST = 255  # distances drawn, at least
PASTE = '{"rope_type": "longrope", "short_factor": [1, …], "long_factor": [2, …], "factor": 2, …}'


def show() -> None:
    """The whole page, from the top."""
    top()
    closer()


@state.part("top")
def top(view: View) -> None:
    """The rotations of this text's tokens."""
    introduction(view)
    controls(view)
    clocks(view)
    frequencies(view)


def introduction(view: View) -> None:
    """The page in one sentence, with this text's numbers in it."""
    frequencies, last = np.degrees(compute_rope.frequencies(view)), len(view.labels) - 1
    rotated = [figures.three_digits(last * frequency) for frequency in (frequencies[0], frequencies[-1])]
    st.markdown(
        f"{headline(view)} RoPE rotates queries and keys by position × frequency, one frequency per pair of "
        f"dimensions, and leaves values as they are. At position **{last}** ({quoted(view.labels[last])}) pair 0 is "
        f"rotated by **{rotated[0]}°** and pair {len(frequencies) - 1} by **{rotated[1]}°**."
    )
    if not view.settings.rope:
        st.info("RoPE is off: this page shows the rotations it would apply.", icon=":material/rotate_right:")


def controls(view: View) -> None:
    """What the whole page depends on: the base of the frequencies, and which head's queries and keys."""
    layer, head = view.layer_and_head
    with st.container(horizontal=True):
        state.control(
            st.select_slider, "θ, the base of the frequencies", "theta", options=_thetas(view.settings.theta),
            format_func=_theta_name, reruns=(),
            help="rope_theta. The other pages run the model with this θ too.",
        )  # fmt: skip
        state.control(
            st.selectbox, "Layer", "layer", shown=layer, options=range(view.config.n_layers), width=110, reruns=()
        )
        state.control(
            st.selectbox, "Head", "head", shown=head, options=range(view.config.n_heads), width=110, reruns=()
        )


def _thetas(theta: float) -> list[float]:
    return sorted({*map(float, THETAS), theta})


def _theta_name(theta: float) -> str:
    return f"{theta:,.0f}"


def clocks(view: View) -> None:
    """Each pair as a clock with the text's tokens on it; slider and play run in the browser."""
    layer, head = view.layer_and_head
    st.subheader("Each pair as a clock, each token a point on it", divider="gray")
    frequencies, theta = compute_rope.frequencies(view), compute_rope.rotated(view).rope_theta
    q, _ = compute_rope.pre_rope(view, layer, head)
    pairs = analysis.as_pairs(q, len(frequencies), view.config.rope_layout)  # complex (T, n_pairs)
    kv = "" if view.config.attention == "mla" else f", KV {_head(view).kv_head}"
    rope_clocks(
        frequencies, np.stack((pairs.real, pairs.imag), axis=-1), view.labels, view.query,
        _head(view).colour, figures.pair_in_numbers(len(frequencies), theta), key="rope-clocks",
        reads=f"L{layer} H{head}{kv}",
    )  # fmt: skip


def frequencies(view: View) -> None:
    """Wavelengths, and the tables of cos and sin."""
    st.subheader("Fast pairs and slow pairs", divider="gray")
    config, values, n = compute_rope.rotated(view), compute_rope.frequencies(view), len(view.labels)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.wavelengths(values, n, config.max_context, config.rope_theta), "wavelengths")
    with right:
        charts.show(figures.rotation_maps(values, n, view.query, config.rope_theta), "rotations")


@state.part("closer")
def closer(view: View) -> None:
    """One of the parts below, as chosen; the others are not computed."""
    st.subheader("Look closer", divider="gray")
    show = {
        "distance": _distance, "values": _values, "layouts": _layouts, "longer": _longer, "without": _without,
        "latent": _latent,
    }  # fmt: skip
    show[state.tabs(view, "Look closer", quiet=True)](view)


def _distance(view: View) -> None:
    """One score under shifts and against distance, the bound, and what the head makes of distance on this text."""
    config, values, head = compute_rope.rotated(view), compute_rope.frequencies(view), _head(view)
    m, n = _query_and_key(view)
    all_q, all_k = compute_rope.pre_rope(view, head.layer, head.head)
    q, k, head_dim, unrotated = all_q[m], all_k[n], config.head_dim, config.head_dim - config.rotary_dim
    shifted = rope_equalities.shifted_scores(q, k, m, n, values, config.rope_layout)
    distances = np.arange(max(FARTHEST, len(view.labels)) + 1) * (1 if m >= n else -1)
    parts = analysis.score_parts(q, k, values, distances, config.rope_layout)
    bound = analysis.decay_bound(q, k, values, distances, config.rope_layout)
    charts.show(rope_scores.shifts(shifted, m, n, head_dim), "shifts")
    left, right = st.columns(2, gap="large")
    with left:
        labels = view.labels[m], view.labels[n]
        charts.show(rope_scores.moved_apart(parts, m, n, *labels, head_dim, unrotated, head), "apart")
    with right:
        scores = parts.sum(0) / head_dim**0.5
        charts.show(rope_scores.decay(scores, bound, abs(m - n), head_dim, unrotated, head), "decay")
    allowed = view.trace.allowed[head.layer]
    means = analysis.by_distance(view.trace.scores_of(head.layer, head.head), allowed)
    charts.show(rope_scores.by_distance(*means, int(allowed.sum()), head), "by-distance")


def _query_and_key(view: View) -> tuple[int, int]:
    """Two selects, and the positions they stand at."""
    last, query = len(view.labels) - 1, view.query
    key = view.settings.key
    with st.container(horizontal=True):
        state.control(
            st.selectbox, "Query token", "query", shown=query, options=range(last + 1),
            format_func=lambda i: f"{i} {view.labels[i]}", reruns=("top", "closer"),
        )  # fmt: skip
        state.control(
            st.selectbox, "Key token", "key", shown=key if key <= last else -1, options=[-1, *range(last + 1)],
            format_func=lambda i: f"{i} {view.labels[i]}" if i >= 0 else "strongest key",
        )  # fmt: skip
    return view.query, view.key


def _values(view: View) -> None:
    """Why queries and keys are rotated, and values are not."""
    head, trace = _head(view), view.trace
    q, k = compute_rope.pre_rope(view, head.layer, head.head)
    v, allowed = trace.v[head.layer, head.kv_head], trace.allowed[head.layer]
    frequencies, layout = compute_rope.frequencies(view), view.config.rope_layout
    moved = rope_equalities.shifted_outputs(q, k, v, allowed, frequencies, view.query, layout)
    charts.show(rope_scores.values(moved, head), "values")


def _layouts(view: View) -> None:
    """The two ways to pair dimensions, the permutation between them, and weights of one run under the other."""
    head, values = _head(view), compute_rope.frequencies(view)
    compared = rope_equalities.compare_layouts(*compute_rope.pre_rope(view, head.layer, head.head), values)
    st.markdown(rope_scores.layout_finding(compared))
    first = view.config.qk_nope_head_dim if view.config.attention == "mla" else 0  # MLA rotates its last dimensions
    charts.show(rope_scores.layout_pairs(compared.order, len(values), first), "layout-pairs")
    own = view.config.rope_layout
    as_run, other = LAYOUTS[own], LAYOUTS[rope_equalities.OTHER_LAYOUT[own]]
    variants = {f"Run as {as_run}": "on", f"As {other}": "other layout", f"As {other}, reordered": "reordered"}
    maps = {name: compute_rope.weights_of(view, variant, head.layer, head.head) for name, variant in variants.items()}
    _maps(view, head, maps, "The same weights; in the last map the rows of W_q and W_k are reordered.")


def _without(view: View) -> None:
    """The same head with RoPE, without, and with some of its dimensions rotated."""
    head = _head(view)
    variants = {"With RoPE": "on", "Without": "off"}
    maps = {name: compute_rope.weights_of(view, variant, head.layer, head.head) for name, variant in variants.items()}
    note = "The same weights and the same text."
    if view.config.attention != "mla":
        fraction = state.control(
            st.slider, "Share of rotated dimensions", "fraction", min_value=0.0, max_value=1.0, step=0.05,
            format="percent",
            help="rotary_fraction: 25 % in GPT-NeoX, 64 of 256 dimensions in GPT-J, 40 % in Phi-2. The other "
            "dimensions do not depend on the position.",
        )  # fmt: skip
        rotary_dim = int(view.config.head_dim * fraction) // 2 * 2
        name = f"{rotary_dim} of {view.config.head_dim} dimensions rotated"
        maps[name] = compute_rope.weights_of(view, "part", head.layer, head.head, fraction)
        note += " The checkpoint was trained with all dimensions rotated." if view.settings.model != "own" else ""
    _maps(view, head, maps, note)


def _maps(view: View, head: rope_scores.Head, maps: dict[str, np.ndarray], note: str) -> None:
    """Attention maps side by side, each with its largest difference from the first."""
    allowed, first = view.trace.allowed[head.layer], next(iter(maps.values()))
    top = max(float(np.quantile(weights[allowed], ALMOST_ALL)) for weights in maps.values())
    for i, (column, (name, weights)) in enumerate(zip(st.columns(len(maps)), maps.items(), strict=True)):
        title = name if i == 0 else f"{name}: off by up to {np.abs(weights - first).max():.2g}"
        with column:
            drawing = rope_scores.weight_map(weights, allowed, view.labels, top, head, title, note)
            charts.show(drawing, f"map-{view.settings.tab}-{i}")


def _longer(view: View) -> None:
    """Texts longer than any training row: what each scaling method does to the pairs, and to the loss."""
    trained, config = compute_rope.trained_on(view), compute_rope.rotated(view)
    factor = state.control(
        st.slider, "Scaling factor: extended context ÷ training context", "factor", min_value=1.0, max_value=32.0,
        step=0.5, format="%g ×",
    )  # fmt: skip
    methods, problem = compute_rope.scalings(view, factor, _pasted(config.rotary_dim // 2))
    if problem:
        st.error(escaped(problem), icon=":material/error:")
    ids, which = compute_rope.long_ids(view, trained)
    by_method = rope_equalities.scaled_frequencies(config.rotary_dim, config.rope_theta, methods, len(ids))
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.slowed(by_method, trained, len(ids)), "slowed")
    with right:
        if view.settings.model == "own":
            st.info(
                "With a trained checkpoint, the loss under each method is shown here. These weights are untrained: "
                "choose another model on the left."
            )
        else:
            with st.spinner("Reading a long text under each method …"):
                losses = compute_rope.losses(view, ids, methods)
            charts.show(figures.loss_by_position(losses, trained, attention_name(config), view.origin), "loss")
            st.caption(f"Text: {which}.")
    latent = config.attention == "mla"
    for name, scaling in methods.items():
        sizes = config.rotary_dim, config.head_dim
        if scaling and (said := figures.scores_scaled(name, scaling, *sizes, latent)):
            st.markdown(said)


def _pasted(n_pairs: int) -> str:
    return st.text_input(
        "rope_scaling of a model's config.json", placeholder=PASTE, key="pasted-scaling",
        help="JSON. Its original_max_position_embeddings is replaced by this model's training context. LongRoPE can "
        f"only be given here: its factors differ from model to model, {n_pairs} short and {n_pairs} long ones for this "
        "one.",
    )  # fmt: skip


def _latent(view: View) -> None:
    """MLA: content scores from the latent, position from one key that all heads share."""
    st.markdown(
        "MLA absorbs W_UK, which expands keys from the latent, into W_Q, so that scores are computed from the latent "
        "itself. RoPE on the expanded keys would put a rotation, another one for each distance, between W_Q and "
        "W_UK, which could then not be multiplied in advance. So RoPE is decoupled: it rotates extra query dimensions "
        "and one extra key shared by all heads."
    )
    if view.config.attention != "mla":
        st.button("Show it with the MLA checkpoint", on_click=_take_mla)
        return
    head, trace = _head(view), view.trace
    q, k = trace.q[head.layer, head.head], trace.k[head.layer, head.kv_head]
    content, position = analysis.split_scores(q, k, view.config.qk_rope_head_dim, trace.scale)
    whole, allowed = trace.scores_of(head.layer, head.head), trace.allowed[head.layer]
    limit = float(max(np.abs(part[allowed]).max() for part in (content, position, whole)))
    rotated = "rotated" if view.settings.rope else "not rotated, since RoPE is off"
    parts = (
        ("Content", content, f"{view.config.qk_nope_head_dim} dimensions, keys expanded from the latent, no RoPE."),
        ("Position", position, f"{view.config.qk_rope_head_dim} dimensions, one key for all heads, {rotated}."),
        ("Sum", whole, "Content and position added: the scores before mask and softmax."),
    )
    for column, (name, scores, note) in zip(st.columns(3), parts, strict=True):
        title = f"{name}: scores have a standard deviation of {scores[allowed].std():.2f}"
        with column:
            drawing = rope_scores.score_map(scores, allowed, view.labels, limit, head, title, note)
            charts.show(drawing, f"mla-{name.lower()}")


def _take_mla() -> None:
    state.change(model="mla")
    state.rerun()


def _head(view: View) -> rope_scores.Head:
    layer, head = view.layer_and_head
    c = view.config
    latent = c.attention == "mla"
    return rope_scores.Head(layer, head, c.layer.kv_head_of[head], c.n_kv_heads, view.origin, latent)
