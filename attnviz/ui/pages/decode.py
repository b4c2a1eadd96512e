"""Decode page: the model generates text token by token, with and without a KV cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from zlib import crc32

import streamlit as st

from attnviz.compute import decode as compute
from attnviz.compute.view import View
from attnviz.compute.vocabulary import vocabulary
from attnviz.config import FAMILY
from attnviz.decode.writing import Written
from attnviz.figures import decode as figures
from attnviz.figures import decode_caches, decode_roofline, speculation
from attnviz.figures.drawing import escaped, quoted
from attnviz.figures.speculation import acceptance
from attnviz.phrases import count
from attnviz.session import branches
from attnviz.session.branches import Branch
from attnviz.ui import charts, controls, state
from attnviz.ui.components.decode_player import Place, Text, decode_player
from attnviz.ui.headline import sharing
from attnviz.ui.measuring import progress
from attnviz.ui.offer_checkpoint import offer

# Session keys
BRANCHES = "decode branches"  # {text: earlier continuations, the newest last}
REQUEST = "decode asked"  # (tokens beyond the link's, the browser's request number, steps the browser has), read once
PLACED = "decode placed"  # names the settings for which the server last set the player's position
OPEN_TAB = "decode tab"  # container key of the open tab, which identifies what it was drawn for
# On the default text, of the five checkpoints' first 24 steps, 0 to 4 then leave only one token; by default 16 to 22.
VARIED = {"temperature": 1.0, "penalty": 1.2}
SAMPLING_HELP = {  # in the order in which they are applied
    "penalty": "Divides the positive logits of tokens in the text by this number and multiplies their negative ones by "
    "it. The penalty is applied first; then temperature, top-k, top-p and min-p, as in transformers. Other programs "
    "use another order: llama.cpp applies the temperature last.",
    "temperature": "Divides the logits before the softmax: below 1 the likely tokens gain, above 1 the unlikely ones.",
    "top_k": "Only the k most likely tokens can be drawn.",
    "top_p": "Only the smallest set of the most likely tokens whose probabilities, after temperature and top-k, add up "
    "to at least p can be drawn; it has at least one token.",
    "min_p": "Only tokens at least this fraction as likely as the most likely one can be drawn.",
    "draw_seed": "Seed of the random numbers. The same seed and settings draw the same tokens.",
}
VARY = f"Try temperature {VARIED['temperature']:g}, penalty {VARIED['penalty']:g}"


def show() -> None:
    """Draw the page."""
    st.session_state.pop(OPEN_TAB, None)  # what the tab was drawn for before: it is drawn here
    top()
    sampling()
    player()
    tabs()


@state.part("top")
def top(view: View) -> None:
    """What prefill and each step do."""
    if steps := compute.written_of(view, 1).steps:
        st.markdown(f"{sharing(view)}. {figures.prefill_sentence(steps[0], len(view.ids), view.config)}")
    if not view.config.causal:
        st.caption("Decoding is causal: this page ignores the setting that lets tokens attend to later ones.")


@state.part("sampling")
def sampling(view: View) -> None:
    """Sampling controls, and the layer whose maps are shown. On a phone a toggle shows the less used ones."""
    then = partial(_discard_written, branches.sampling_settings(view.settings))
    with st.container(horizontal=True, vertical_alignment="bottom", key="sampling"):
        _number("Temperature (0: greedy)", "temperature", then, 155, step=0.1)
        _number("top-k (0: off)", "top_k", then, step=5, max_value=view.config.vocab_size)
        _number("top-p (1: off)", "top_p", then, step=0.05)
        st.toggle("min-p, repetition penalty, seed, layer", key="sampling-more")
        _number("min-p (0: off)", "min_p", then, step=0.05)
        _number("Repetition penalty", "penalty", then, 145, step=0.1)
        _number("Seed", "draw_seed", then, 105)
        controls.control(
            st.selectbox, "Maps of layer", "layer", shown=view.layer_and_head[0], options=range(view.config.n_layers),
            width=95, reruns=("sampling", "player"),
        )  # fmt: skip


def _number(label: str, field: str, then: Callable[[], None], width: int = 115, **options: Any) -> None:
    controls.control(
        st.number_input, label, field, width=width, then=then, reruns=("sampling", "player"),
        help=SAMPLING_HELP[field], **options,
    )  # fmt: skip


@state.part("player")
def player(view: View) -> None:
    """The decode player: the text as it is generated."""
    ahead, answer, first = st.session_state.pop(REQUEST, (compute.AHEAD, 0, 0))
    written = compute.written_of(view, ahead)
    if not written.steps:
        st.info(f"The text already has {len(view.ids)} tokens, the maximum here. Shorten it to generate more.")
        return
    fixed, ids = compute.usable(view), [step.id for step in written.steps]
    at = len(fixed) if view.settings.shown < 0 else min(view.settings.shown, len(fixed))
    single = figures.single_text(written.steps[: compute.AHEAD])  # the same steps, however many are written
    with st.container(horizontal=True, vertical_alignment="center", key="continuations"):
        st.button("Lines of this step", icon=":material/code:", key="walk-step", on_click=_walk)
        if single and not VARIED.items() <= branches.sampling_settings(view.settings).items():
            st.button(VARY, key="vary", on_click=_vary)
        if single:
            st.caption(single, width="content")
        _branches(view)
    layer, head = view.layer_and_head
    if not answer:
        st.session_state[PLACED] = crc32(repr(view.settings).encode())
    stale, trained = _is_stale(view), view.trained_config
    decode_player(
        written, view.config, _text(view, written), vocabulary(view.settings),
        Place(
            at, layer, head, compute.room(view), st.session_state[PLACED], answer, first, stale,
            trained.max_context if trained else None, figures.ended_text(written, vocabulary(view.settings)[ids[-1]]),
        ),
        key="decode-player",
        on_at=partial(_take_at, view, ids), on_choose=partial(_take_candidate, ids),
        on_more=partial(_take_more, view, ids), on_head=_take_head,
    )  # fmt: skip
    if stale:
        st.html(f"<style>.st-key-{st.session_state[OPEN_TAB]} {{ opacity: 0.5 }}</style>")


def _text(view: View, written: Written) -> Text:
    return Text(view.ids, view.labels, compute.text_of(view, view.ids), compute.written_characters(view, written))


def _discard_written(sampling: dict[str, float]) -> None:
    """Discard the generated tokens after a change of sampling; they are stored as a branch with the sampling before."""
    _store_branch(sampling, ())
    state.change(written=(), shown=-1)


def _vary() -> None:
    """Sample with settings that let more tokens pass."""
    _discard_written(branches.sampling_settings(state.current()))
    state.change(**VARIED)
    state.rerun("sampling", "player")


def _is_current(view: View, ids: list[int]) -> bool:
    """Check that no other continuation has replaced these ids, which were generated for `view`."""
    now = View(state.current())
    fixed = compute.usable(now)
    return compute.continued(now) == compute.continued(view) and tuple(ids[: len(fixed)]) == fixed


def _take_at(view: View, ids: list[int], reached: int) -> None:
    """Rerun only the open tab, if it is stale, and the links: the browser already shows the position."""
    if not _is_current(view, ids):
        return
    _store_position(ids, reached)
    state.rerun("tabs" if _is_stale(View(state.current())) else state.LINKS)


def _store_position(ids: list[int], reached: int) -> None:
    """Store in the settings how many tokens the browser has shown."""
    longest = max(reached, len(compute.usable(View(state.current()))))
    state.change(written=tuple(ids[:longest]), shown=reached if reached < longest else -1)


def _take_candidate(ids: list[int], count: int, token: int) -> None:
    """Answer with the few tokens needed now; the open tab follows when the browser has shown them."""
    written = (*ids[:count], token)
    _store_branch(branches.sampling_settings(state.current()), written)
    state.change(written=written, shown=-1)
    st.session_state[REQUEST] = compute.AT_ONCE, 0, 0  # the player's fragment reruns anyway: no `state.rerun`


def _take_more(view: View, ids: list[int], reached: int, number: int, n_known: int) -> None:
    """Generate more tokens, and send those that the browser lacks: an earlier answer may not have reached it."""
    if not _is_current(view, ids):
        return
    _store_position(ids, reached)
    beyond = len(ids) - len(state.current().written)
    st.session_state[REQUEST] = beyond + compute.MORE, number, min(n_known, len(ids))


def _walk() -> None:
    """Open this decode step in Step by step, at its first line that makes something."""
    state.go("steps", replace(state.current(), tab="step", decode_step=-1, column=-1))


def _take_head(head: int) -> None:
    """Store the head; only the links rerun, since the browser already marks it."""
    state.change(head=head)
    state.rerun(state.LINKS)


# ---- branches


def _store_branch(sampling: dict[str, float], now: tuple[int, ...]) -> None:
    """Store the continuation that `now` is about to replace, to return to."""
    s, stored = state.current(), st.session_state.setdefault(BRANCHES, {})
    stored[s.text] = branches.with_branch(stored.get(s.text, []), Branch(s.written, sampling), now)


def _branches(view: View) -> None:
    """Pills with earlier continuations of this text."""
    stored = st.session_state.get(BRANCHES, {}).get(view.settings.text, [])
    offered = branches.leaving(stored, view.settings.written)
    if offered:
        controls.pick(
            "Earlier continuations", range(len(offered)), "branch", lambda i: _take_branch(*offered[i]),
            format_func=lambda i: _branch_label(view, offered[i]), label_visibility="collapsed",
        )  # fmt: skip


def _branch_label(view: View, branch: Branch) -> str:
    """Show the first tokens that the present text lacks, and the sampling settings that differ."""
    first = branches.departure(branch, view.settings.written)
    end = first + branches.N_SHOWN
    text = escaped(_text_of(view, branch.written[first:end]))
    other = branches.other_sampling(branch, view.settings)
    return f"Back to “{'… ' * (first > 0)}{text}{' …' * (end < len(branch.written))}”" + f", {other}" * bool(other)


def _take_branch(written: tuple[int, ...], sampling: dict[str, float]) -> None:
    """Return to a continuation, with the sampling that wrote it."""
    _store_branch(branches.sampling_settings(state.current()), written)
    state.change(written=written, shown=-1, **sampling)
    state.rerun("sampling", "player")


# ---- the tabs


@state.part("tabs")
def tabs(view: View) -> None:
    """The open tab; the others are not computed."""
    tab = controls.tabs(view, "Look closer")
    drawn_for = st.session_state[OPEN_TAB] = _drawn_for(view)
    with st.container(key=drawn_for):  # the key is a CSS class: `player` dims the tab while it is stale
        TABS[tab](view)
    with st.expander("Source of decoding: attnviz/decode", key="decode-source", on_change="rerun") as source:
        if charts.is_open(source):
            for file, text in zip(st.tabs(list(compute.sources())), compute.sources().values(), strict=True):
                file.code(text, language="python")


def _drawn_for(view: View) -> str:
    """Return a key for what the open tab depends on: text, sampling and, except for "models", the written tokens."""
    s = view.settings
    own = () if state.page().open_tab(s.tab) == "models" else compute.usable(view)
    return f"tabs-for-{crc32(repr((s.text, own, compute.sampling_of(s))).encode()):x}"


def _is_stale(view: View) -> bool:
    """Check whether the open tab was drawn for another text or other sampling."""
    return st.session_state.get(OPEN_TAB) not in (None, _drawn_for(view))


def _with_window(view: View, why: str) -> str:
    """Say why a tab is not drawn with a sliding window, and whose window it is; "" without one."""
    windows = view.config.windows
    if not windows:
        return ""
    if view.settings.window:
        return f"{why} Set the window to 0."
    return f"{why} That of {windows[0]} tokens is this model's own; choose another model."


def _refused(view: View, with_window: str) -> bool:
    """Say why the work of a step is not counted; False where it is."""
    layers = (layer.mixer.cannot("work") for _, layer in view.config.layer_counts)
    why = _with_window(view, with_window) or next(filter(None, layers), "")
    if why:
        st.info(why)
    return bool(why)


def _with(view: View) -> None:
    if _refused(view, "With a sliding window the cache does not need all tokens."):
        return
    _one_token(view)
    compared = compute.compared(view)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.work(compared), "step-work")
    with right:
        charts.show(figures.step_times(compared, compute.step_seconds(view)), "times")
        _measure_again()


def _one_token(view: View) -> None:
    if compute.is_read_twice(view):
        st.caption("The text has one token. It is read twice here, since a step with a cache needs an earlier token.")


def _models(view: View) -> None:
    if view.settings.opened:
        offer(why="This part compares the five checkpoints on the same tokens; an opened model has another tokenizer.")
        return
    members = compute.family(view)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.growth(members, len(view.ids)), "growth")
    with right:
        charts.show(figures.family_times(members), "family-times")
        _measure_again()
    for member in members:
        name, rate = FAMILY[member.model], figures.rate_text(member)
        st.markdown(f"**{name}**, {rate}: … {quoted(_text_of(view, member.ids))}")


def _bounded(view: View) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.control(st.slider, "Cache size, tokens", "bound", width=320)
        controls.control(
            st.slider, "Attention-sink tokens", "kept_first", width=220,
        )  # fmt: skip
    if why := _with_window(view, "A bounded cache is shown for models without a sliding window."):
        st.info(why)
        return
    with progress("Reading the text with four caches, token by token"):
        caches = compute.bounded(view)
    with progress("Reading it with keys and values in three precisions"):
        stored = compute.quantised(view)
    _, own = compute.running_text(view)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(decode_caches.losses(caches, view.settings.bound, own), "bounded-losses")
    with right:
        charts.show(decode_caches.held(caches), "held")
        charts.show(decode_caches.precisions(stored), "kept")


def _paged(view: View) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.control(st.slider, "Continuations of the text", "n_texts", width=260)
        controls.control(st.slider, "Tokens per block", "block_size", width=260)
    with st.spinner(f"Writing {count(view.settings.n_texts, 'continuation')} …"):
        shared = compute.shared(view)
    left, right = st.columns([3, 2], gap="large")
    with left:
        charts.show(decode_caches.blocks(shared), "blocks")
    with right:
        charts.show(decode_caches.waste(shared), "waste")
    st.caption(decode_caches.sampled(shared))
    for i, ids in enumerate(shared.ids):
        st.markdown(f"**Text {i + 1}**: … {quoted(_text_of(view, ids))}")


def _speculate(view: View) -> None:
    names = {**FAMILY, "n-grams": "the text's own 2-grams"}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        drafters = ["n-grams"] if view.settings.opened else list(names)  # the checkpoints use another tokenizer
        controls.control(
            st.selectbox, "Drafter", "drafter", options=drafters, format_func=names.__getitem__, width=260,
            shown="n-grams" if view.settings.opened else view.settings.drafter,
        )  # fmt: skip
        controls.control(st.slider, "Tokens proposed per pass", "proposed", width=260)
    if view.settings.opened:
        st.caption(
            "A drafter needs the same tokenizer as the model. The shipped checkpoints have another one, so an opened "
            "model can only use n-grams of the text."
        )
        view = view.but(drafter="n-grams")
    with st.spinner("Writing tokens with the drafter and without …"):
        speculated = compute.speculated(view)
        seconds = compute.speculation_seconds(view) if speculated.n_proposed else ()
    if not speculated.n_proposed:
        st.info(speculation.no_proposal(speculated))
        return
    charts.show(speculation.rounds(speculated, seconds, view.settings.drafter), "rounds")
    _measure_again()
    st.markdown(speculation.passes_text(speculated, partial(compute.text_of, view)))
    st.caption(speculation.PASSES_LEGEND)
    steps = compute.drafter_seconds(view)
    charts.show(acceptance(speculated, vocabulary(view.settings), view.settings.proposed, steps), "acceptance")


def _roofline(view: View) -> None:
    if _refused(view, "This formula does not count the bytes read with a sliding window."):
        return
    _one_token(view)
    charts.show(decode_roofline.roofline(compute.roofline(view)), "roofline")
    _measure_again()


def _measure_again() -> None:
    """Button that measures what the open tab shows once more: the part reruns after the click."""
    st.button("Measure again", icon=":material/timer:", key="measure-again", on_click=compute.measure_again)


def _text_of(view: View, ids: Sequence[int]) -> str:
    """Return the tokens as they are read."""
    return compute.text_of(view, ids).strip()


TABS = {
    "with": _with, "models": _models, "bounded": _bounded, "paged": _paged, "speculate": _speculate,
    "roofline": _roofline,
}  # fmt: skip
