"""Parts of the RoPE page, from the top. A control reruns only the parts that depend on it."""

from __future__ import annotations

from functools import partial

import numpy as np
import streamlit as st

from attnviz.analysis import rope as analysis
from attnviz.compute import rope as compute_rope
from attnviz.compute.view import View
from attnviz.cost import attention_name
from attnviz.experiments import rope_equalities
from attnviz.figures import rope as figures
from attnviz.figures import rope_layouts, rope_rotation, rope_scores
from attnviz.figures.drawing import escaped
from attnviz.figures.token_maps import bar_number
from attnviz.phrases import count
from attnviz.session.shared import NOT_CHOSEN, OWN_THETA
from attnviz.ui import charts, controls, state
from attnviz.ui.components import rope_pair
from attnviz.ui.components.rope_clocks import rope_clocks
from attnviz.ui.headline import show_headline
from attnviz.ui.offer_checkpoint import offer

SELECTED = ("rotation", "pairs", "tabs")  # parts that show the selected head, tokens and pair
LAYOUTS = {"half": "half-split", "interleaved": "interleaved"}  # {value in the config: name on the page}
STEPS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
THETAS = tuple(round(step * 10.0**power) for power in range(2, 7) for step in STEPS) + (10_000_000,)
PASTE = '{"rope_type": "longrope", "short_factor": [1, …], "long_factor": [2, …], "factor": 2, …}'


def show() -> None:
    """Draw the page."""
    top()
    rotation()
    with st.container(key="below-tabs"):  # on a phone, by server/page_style.css
        pairs()
    tabs()


@state.part("top")
def top(view: View) -> None:
    """One sentence on the page with this text's numbers, and notices on the model."""
    if not compute_rope.rotates(view):
        show_headline(view)
        why = f"Layer {view.layer_and_head[0]} rotates no queries and keys. Choose another layer or another model."
        if view.config.position == "learned":
            why = (
                "This model has no RoPE: it adds a learned position embedding to the token embedding. Choose another "
                "model in the sidebar."
            )
        st.info(why, icon=":material/rotate_right:")
        return
    rotated, dims = 2 * len(compute_rope.frequencies(view)), view.mixer.head_dim  # per query
    of_all = f", {rotated} of {dims} dimensions," if rotated < dims else ""
    show_headline(
        view,
        "By itself, a score q·k does not depend on where its tokens are. RoPE (rotary position "
        f"embedding) makes it depend on their distance: it rotates {count(rotated // 2, 'pair')} of dimensions of each "
        f"query and key{of_all} by position × frequency. Values are not rotated.",
    )
    if not view.settings.rope:
        st.info("RoPE is off: this page shows the rotations it would apply.", icon=":material/rotate_right:")
    if kind := compute_rope.scaled_by(view):
        st.info(f"This model runs with scaled RoPE ({kind}). This page draws the rotations without the scaling.")
    if view.mixer.score_root != view.mixer.head_dim or view.mixer.score_note:
        st.caption("The equations on this page divide q·k by √D; this model's own scores have another scale or a cap.")
    if view.config.rope_theta_windowed not in (None, view.config.rope_theta):
        st.caption("Layers with a sliding window have a base of their own; this page uses that of the selected layer.")


@state.part("rotation", compute_rope.rotates)
def rotation(view: View) -> None:
    """Rotation of one pair of a query and a key: in numbers, and as arrows that shift together."""
    st.header("The rotation of one pair", divider="gray")
    st.markdown(
        "Press Play to shift q and k by the same number of positions. Each rotates by its own position; the score "
        "depends only on their difference, so it does not change."
    )
    selection(view)
    rotation, values = compute_rope.rotated(view), compute_rope.frequencies(view)
    rotated = compute_rope.rotated_pair(view, compute_rope.pair_of(view))
    n_pairs, first = len(values), view.mixer.rotary_start
    dimensions = analysis.dimensions(rotated.pair, n_pairs, rotation.layout, first)
    caption = rope_rotation.rotation(rotated, dimensions, view.labels[rotated.m], n_pairs, rotation.rope_theta)
    st.markdown(f"## {caption.title}")
    st.caption(caption.note)
    unrotated = compute_rope.unrotated_part(view)
    data = rope_pair.pack(
        values, *compute_rope.selected_pairs(view), unrotated, rotation.head_dim, rotated.pair, dimensions,
        (rotated.m, rotated.n), view.labels, _head(view).colour, _reads(view),
    )  # fmt: skip
    rope_pair.rope_pair(data, key="rope-pair")
    with charts.beside("rope-pair"):
        charts.calculation(caption.formula, caption.legend, "rope-pair")


def selection(view: View) -> None:
    """Controls for the query, key, layer, head and pair."""
    (layer, head), pair = view.layer_and_head, compute_rope.pair_of(view)
    last, key, strongest = len(view.labels) - 1, view.settings.key, view.key == view.strongest_key
    degrees = np.degrees(compute_rope.frequencies(view))
    with st.container(horizontal=True):
        controls.control(
            st.selectbox, "Query token", "query", shown=view.query, options=range(last + 1),
            format_func=lambda i: f"{i} {view.labels[i]}", reruns=SELECTED,
        )  # fmt: skip
        controls.control(
            st.selectbox, "Key token", "key", shown=-1 if strongest and not 0 <= key <= last else view.key,
            options=[-1, *range(last + 1)], format_func=lambda i: f"{i} {view.labels[i]}" if i >= 0 else "strongest",
            reruns=SELECTED, then=None if strongest else partial(_keep_query, view.query),
        )  # fmt: skip
        controls.control(
            st.selectbox, "Layer", "layer", shown=layer, options=range(view.config.n_layers), width=90, reruns=SELECTED
        )
        controls.control(
            st.selectbox, "Head", "head", shown=head, options=range(view.mixer.n_heads), width=90, reruns=SELECTED
        )
        controls.control(
            st.selectbox, "Pair", "pair", shown=pair, options=range(len(degrees)), width=190,
            format_func=lambda i: f"{i}: {figures.three_digits(degrees[i])}° per token", reruns=SELECTED,
        )  # fmt: skip


def _keep_query(query: int) -> None:
    """Keep the query where its strongest key was chosen instead of the one that an example is about."""
    if state.current().key == NOT_CHOSEN:
        state.change(query=query)


@state.part("pairs", compute_rope.rotates)
def pairs(view: View) -> None:
    """All pairs: their clocks, their frequencies, and the tables of cos and sin."""
    st.header("Each pair as a clock, each token a point on it", divider="gray")
    st.markdown("Look at the dots: the further they reach round a clock, the further that pair rotates in this text.")
    values, theta = compute_rope.frequencies(view), compute_rope.rotated(view).rope_theta
    rope_clocks(
        values, view.labels, view.query, compute_rope.pair_of(view), _head(view).colour,
        figures.pair_in_numbers(len(values), theta), key="rope-clocks", on_pair=_take_pair, reads=_reads(view),
    )  # fmt: skip
    frequencies(view)


def _take_pair(pair: int) -> None:
    state.change(pair=pair)
    state.rerun("rotation", "pairs")


def frequencies(view: View) -> None:
    """Wavelengths, and the tables of cos and sin."""
    st.header("Fast pairs and slow pairs", divider="gray")
    st.markdown("Move the base and watch the slow pairs. A larger base slows every pair but the first.")
    theta, values, n = compute_rope.rotated(view).rope_theta, compute_rope.frequencies(view), len(view.labels)
    _choose_theta(theta, compute_rope.own_theta(view))
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.wavelengths(values, n, view.config.max_context, theta), "wavelengths")
    with right:
        charts.show(figures.rotation_maps(values, n, view.query, theta), "rotations")


def _choose_theta(theta: float, own: float) -> None:
    """Draw the slider of the base. The layer's own is offered as OWN_THETA, so that another model keeps its own."""
    offered = [OWN_THETA if base == own else base for base in sorted({*map(float, THETAS), own, theta})]
    controls.control(
        st.select_slider, "Base of the frequencies (rope_theta)", "theta", shown=OWN_THETA if theta == own else theta,
        options=offered, format_func=lambda base: f"{base or own:,.0f}", reruns=(),
        help="All layers, and the other pages, run the model with this base too.",
    )  # fmt: skip


@state.part("tabs", compute_rope.rotates)
def tabs(view: View) -> None:
    """The open tab; the others are not computed."""
    st.header("Look closer", divider="gray")
    show = {
        "distance": _distance, "values": _values, "layouts": _layouts, "longer": _longer, "without": _without,
        "latent": _latent, "equal": _rounding,
    }  # fmt: skip
    show[controls.tabs(view, "Look closer", quiet=True)](view)


def _distance(view: View) -> None:
    """One score against distance, its decay bound, and the head's mean score by distance on this text."""
    st.markdown(
        "The marked point is the distance in this text; the line shows the same two vectors at other distances."
    )
    rotation, head, m, n = compute_rope.rotated(view), _head(view), view.query, view.key
    parts, scores, bound = compute_rope.moved_apart(view)
    head_dim, unrotated = rotation.head_dim, rotation.head_dim - rotation.rotary_dim
    left, right = st.columns(2, gap="large")
    with left:
        labels = view.labels[m], view.labels[n]
        charts.show(rope_scores.moved_apart(parts, m, n, *labels, head_dim, unrotated, head), "apart")
    with right:
        charts.show(rope_scores.decay(scores, bound, abs(m - n), head_dim, unrotated, head), "decay")
    charts.show(rope_scores.by_distance(*compute_rope.by_distance(view), head), "by-distance")


def _rounding(view: View) -> None:
    """Rounding error in a score that would not change under a shift in exact arithmetic."""
    st.markdown(
        "Compare the lines: in exact arithmetic no shift would change the score, so every change is rounding error."
    )
    shifted = compute_rope.shifted_scores(view)
    charts.show(rope_scores.shifts(shifted, view.query, view.key, view.mixer.head_dim), "shifts")


def _values(view: View) -> None:
    """Reason why queries and keys are rotated, and values are not."""
    st.markdown("Compare the lines: with v rotated too, the output depends on the absolute positions of its tokens.")
    moved = compute_rope.shifted_outputs(view)
    charts.show(rope_scores.values(moved, view.query, view.mixer.head_dim, _head(view)), "values")


def _layouts(view: View) -> None:
    """The two RoPE layouts, the permutation between them, and maps of the weights run with the other layout."""
    st.markdown(
        "Compare the maps: in the model's layout, in the other one, and in that one with reordered rows of W_q and W_k."
    )
    head, compared, n_pairs = _head(view), compute_rope.compared_layouts(view), len(compute_rope.frequencies(view))
    st.markdown(rope_layouts.layout_finding(compared), help=rope_layouts.reordered_text(compared))
    charts.show(rope_layouts.layout_pairs(compared.order, n_pairs, view.mixer.rotary_start), "layout-pairs")
    own = view.config.rope_layout
    as_run, other = LAYOUTS[own], LAYOUTS[rope_equalities.OTHER_LAYOUT[own]]
    variants = {
        f"Run as {as_run}": "on",
        f"As {other}": "other layout",
        "Reordered": "reordered",
    }
    notes = "The layout that the model runs with.", "The same weights.", "The same, rows of W_q and W_k reordered."
    maps = {name: compute_rope.weights_of(view, variant, head.layer, head.head) for name, variant in variants.items()}
    _maps(view, head, maps, dict(zip(variants, notes, strict=True)))


def _without(view: View) -> None:
    """The same head with RoPE, without RoPE, and with partial RoPE."""
    st.markdown("Compare the maps: the same head with RoPE, without it, and with some of its dimensions rotated.")
    head = _head(view)
    variants = {"With RoPE": "on", "Without RoPE": "off"}
    maps = {name: compute_rope.weights_of(view, variant, head.layer, head.head) for name, variant in variants.items()}
    notes = {"With RoPE": "Each pair rotated.", "Without RoPE": "The same weights and text, nothing rotated."}
    if not (view.mixer.cannot("partial rotation") or view.config.mixed_layers):
        fraction = controls.control(
            st.slider, "Share of rotated dimensions", "fraction", step=0.05, format="percent",
            help="rotary_fraction: 25% in GPT-NeoX, 64 of 256 dimensions in GPT-J, 40% in Phi-2. The other "
            "dimensions do not depend on the position.",
        )  # fmt: skip
        rotary_dim = int(view.mixer.head_dim * fraction) // 2 * 2
        name = f"{rotary_dim} of {view.mixer.head_dim} dimensions rotated"
        maps[name] = compute_rope.weights_of(view, "part", head.layer, head.head, fraction)
        trained = "Trained with all of them rotated." if view.settings.model != "own" else "The same weights and text."
        notes[name] = trained
    _maps(view, head, maps, notes)


def _maps(view: View, head: rope_scores.Head, maps: dict[str, np.ndarray], notes: dict[str, str]) -> None:
    """Draw attention maps side by side, each with its largest difference from the first and its own note."""
    allowed, ground = view.trace.masks[head.layer], st.context.theme.type
    top, changes = compute_rope.compared_weights(list(maps.values()), allowed)
    st.caption(
        f"{head.caption}. Each row is a query; its weights {view.mixer.summing}. Each column is a key. The "
        f"colour scale ends at {bar_number(top)}."
    )
    columns = st.columns(len(maps))
    for i, (name, weights) in enumerate(maps.items()):
        title = name if i == 0 else f"{name}: weights change by up to {changes[i]:.2g}"
        with columns[i]:
            drawing = rope_scores.weight_map(weights, allowed, view.labels, top, head, title, notes[name], ground)
            charts.show(drawing, f"map-{view.settings.tab}-{i}")


def _longer(view: View) -> None:
    """Context extension: effect of each scaling method on the pairs and on the loss of a long text."""
    st.markdown(
        "Compare the methods: how much each slows the slow pairs, and what that does to the loss of a long text."
    )
    trained, rotation = compute_rope.trained_on(view), compute_rope.rotated(view)
    if view.settings.opened and (view.config.rope_scaling or not compute_rope.can_be_longer(view)):
        offer(
            why=f"This model was made for texts of {trained:,} tokens, and at most {view.max_tokens} are traced here, "
            "so no token is beyond its training length."
        )
        return
    factor = controls.control(
        st.slider, "Scaling factor: extended context ÷ training context", "factor", step=0.5, format="%g ×",
    )  # fmt: skip
    pasted = _pasted(rotation.rotary_dim // 2)
    methods, problem = compute_rope.scalings(view, factor, pasted)
    if "original_max_position_embeddings" in pasted and not problem:
        st.caption(f"“pasted” uses {trained:,} tokens, this model's training context, in place of the one it names.")
    if problem:
        st.error(escaped(problem), icon=":material/error:")
    ids, which = compute_rope.long_ids(view, trained)
    by_method = compute_rope.scaled_frequencies(view, methods, len(ids))
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.slowed(by_method, compute_rope.learned_frequencies(view), trained, len(ids)), "slowed")
    with right:
        if view.settings.model == "own":
            st.info(
                "For a trained checkpoint, this part shows the loss with each method. These weights are untrained. "
                "Choose another model in the sidebar."
            )
        else:
            with st.spinner("Reading a long text under each method …"):
                losses = compute_rope.losses(view, ids, methods)
            charts.show(figures.loss_by_position(losses, trained, attention_name(view.config), view.origin), "loss")
            st.caption(f"Text: {which}.")
    latent = view.mixer.absorbed
    for name, scaling in methods.items():
        sizes = rotation.rotary_dim, rotation.head_dim
        if scaling and (sentence := figures.scores_scaled(name, scaling, *sizes, latent)):
            st.markdown(sentence)


def _pasted(n_pairs: int) -> str:
    return st.text_input(
        "rope_scaling of a model's config.json", placeholder=PASTE, key="pasted-scaling",
        help="JSON. Its original_max_position_embeddings is replaced by this model's training context. LongRoPE can "
        f"only be entered here, since its factors differ between models: this one needs {n_pairs} short and {n_pairs} "
        "long ones.",
    )  # fmt: skip


def _latent(view: View) -> None:
    """Decoupled RoPE of MLA: the scores' content part from the latent, their RoPE part from one key of all heads."""
    st.markdown(
        "MLA absorbs W_UK, which expands keys from the latent, into W_q, so that scores are computed from the latent "
        "itself. RoPE on the expanded keys would put a rotation between W_q and W_UK, a different one for each "
        "distance, so they could not be multiplied in advance. So RoPE is decoupled: it rotates extra query dimensions "
        "and one extra key shared by all heads."
    )
    if not view.mixer.absorbed:
        offer("mla")
        return
    head = _head(view)
    (content, rotated, whole), limit, spreads = compute_rope.latent_scores(view)
    allowed = view.trace.masks[head.layer]
    n_rotated, off = view.mixer.rotary_dim, "" if view.settings.rope else " (RoPE is off)"
    parts = {  # notes of about the same length, so that the maps beside each other start at the same height
        "content": (
            "Content part",
            content,
            f"{view.mixer.rotary_start} dimensions from the latent, without RoPE",
        ),
        "position": ("RoPE part", rotated, f"{n_rotated} rotated dimensions, one key for all heads{off}"),
        "sum": ("Their sum", whole, "Both parts added, before mask and softmax"),
    }
    st.markdown("Compare the maps: the content part and the RoPE part add up to the scores.")
    st.caption(
        f"{head.caption}. Each row is a query, each column a key. The three maps share one colour scale, to "
        f"±{limit:.1f}: a pale map adds little to the scores."
    )
    for column, (key, (name, scores, note)), spread in zip(st.columns(3), parts.items(), spreads, strict=True):
        title = f"{name}: standard deviation {spread:.2f}"
        with column:
            charts.show(rope_scores.score_map(scores, allowed, view.labels, limit, title, note), f"mla-{key}")


def _reads(view: View) -> str:
    """Return the head and the KV head it reads, for the legend of a saved picture."""
    head = _head(view)
    return f"L{head.layer} H{head.head}" + ("" if head.latent else f", KV {head.kv_head}")


def _head(view: View) -> rope_scores.Head:
    (layer, head), mixer = view.layer_and_head, view.mixer
    own_keys = not mixer.shares_kv_heads
    return rope_scores.Head(layer, head, mixer.kv_head_of[head], view.config.n_kv_heads, view.origin, own_keys)
