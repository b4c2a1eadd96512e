"""The Decode page: a text that the model writes, and what its cache changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import streamlit as st

from attnviz.compute import decode as compute
from attnviz.compute.heads import vocabulary
from attnviz.compute.view import View
from attnviz.decode import Round
from attnviz.figures import decode as figures
from attnviz.figures import decode_parts as part_figures
from attnviz.figures.drawing import escaped, quoted
from attnviz.ui import charts, state
from attnviz.ui.components.decode_player import Place, decode_player
from attnviz.ui.headline import sharing

BRANCHES = "decode branches"  # in the session: {text: continuations left for another, the newest last}
ASKED = (
    "decode asked"  # in the session, once: tokens beyond the link's, the browser's number for its wish, steps it has
)
CLOSER = "decode closer"  # in the session: what the part below was drawn for
MOST_BRANCHES = 6


def show() -> None:
    """The whole page."""
    sampling()
    player()
    closer()


@state.part("sampling")
def sampling(view: View) -> None:
    """How the next token is chosen, and the layer that is looked at."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="sampling"):
        _number("Temperature (0: greedy)", "temperature", 0.0, 5.0, 0.1, 140)
        _number("top-k (0: off)", "top_k", 0, view.config.vocab_size, 5)
        _number("top-p (1: off)", "top_p", 0.0, 1.0, 0.05)
        _number("min-p (0: off)", "min_p", 0.0, 1.0, 0.05)
        _number("Repetition penalty", "penalty", 0.1, 5.0, 0.1, 135)
        _number("Seed", "draw_seed", 0, 2**31 - 1, 1)
        state.control(
            st.selectbox, "Maps of layer", "layer", shown=view.layer_and_head[0], options=range(view.config.n_layers),
            width=100, reruns=("sampling", "player"),
        )  # fmt: skip


def _number(label: str, field: str, low: float, high: float, step: float, width: int = 115) -> None:
    state.control(
        st.number_input, label, field, min_value=low, max_value=high, step=step, width=width, then=_write_anew,
        reruns=("sampling", "player"),
    )  # fmt: skip


@state.part("player")
def player(view: View) -> None:
    """The text as it is written."""
    ahead, answer, first = st.session_state.pop(ASKED, (compute.AHEAD, 0, 0))
    written = compute.written_of(view, ahead)
    if not written.steps:
        st.info(f"The text fills the {len(view.ids)} tokens there is room for: shorten it to have more written.")
        return
    fixed, n, ids = compute.usable(view), len(view.ids), [step.id for step in written.steps]
    at = len(fixed) if view.settings.shown < 0 else min(view.settings.shown, len(fixed))
    st.markdown(f"{sharing(view)}. {figures.said_of(written.steps[0], n)}")
    if not view.config.causal:
        st.caption("Decoding is causal: the setting that lets tokens look ahead is not used on this page.")
    layer, head = view.layer_and_head
    late = _late(view)
    decode_player(
        written, view.config, view.labels, vocabulary(view.settings),
        Place(at, layer, head, compute.room(view), answer, first, late), key="decode-player",
        on_at=lambda reached: _take_at(ids, reached), on_choose=lambda count, token: _take_candidate(ids, count, token),
        on_more=lambda reached, number: _take_more(ids, reached, number), on_head=_take_head,
    )  # fmt: skip
    st.button("Walk this step line by line", icon=":material/code:", key="walk-step", on_click=_walk)
    _branches(view)
    if late:
        st.html(f"<style>.st-key-{st.session_state[CLOSER]} {{ opacity: 0.5 }}</style>")


def _write_anew() -> None:
    """Other sampling writes other tokens after the text; what was written is left as a branch."""
    s = state.current()
    _leave(s.text, s.written)
    state.change(written=(), shown=-1)


def _take_at(ids: list[int], reached: int) -> None:
    """The browser shows it already: only what stands below follows, and the links."""
    _keep(ids, reached)
    state.rerun("closer" if _late(View(state.current())) else state.LINKS)


def _keep(ids: list[int], reached: int) -> None:
    """Write to the link what the browser has reached."""
    longest = max(reached, len(compute.usable(View(state.current()))))
    state.change(written=tuple(ids[:longest]), shown=reached if reached < longest else -1)


def _take_candidate(ids: list[int], count: int, token: int) -> None:
    """Answer with the few tokens that are needed; what stands below follows when the browser has shown them."""
    s = state.current()
    if ids[count : count + 1] != [token]:
        _leave(s.text, s.written)
    state.change(written=(*ids[:count], token), shown=-1)
    st.session_state[ASKED] = compute.AT_ONCE, 0, 0  # its own part runs now: a rerun of others would be a second run


def _take_more(ids: list[int], reached: int, number: int) -> None:
    _keep(ids, reached)
    beyond = len(ids) - len(state.current().written)
    st.session_state[ASKED] = beyond + compute.MORE, number, len(ids) if number else 0


def _walk() -> None:
    """Step by step, with the text as it is written, from the first line."""
    state.go("steps", replace(state.current(), tab="step", step=0, column=-1, only=""))


def _take_head(head: int) -> None:
    """The browser marks it already."""
    state.change(head=head)
    state.rerun(state.LINKS)


# ---- branches


def _leave(text: str, written: tuple[int, ...]) -> None:
    """Keep a continuation to go back to, in this session."""
    kept = st.session_state.setdefault(BRANCHES, {}).setdefault(text, [])
    if written and written not in kept:
        kept.append(written)
        del kept[:-MOST_BRANCHES]


def _branches(view: View) -> None:
    """The continuations that were left for another."""
    kept = [w for w in st.session_state.get(BRANCHES, {}).get(view.settings.text, []) if w != view.settings.written]
    if kept:
        st.pills(
            "Left for another continuation", range(len(kept)), key="branch", on_change=_take_branch, args=(kept,),
            format_func=lambda i: f"… {_said(view, kept[i][-6:])}",
        )  # fmt: skip


def _take_branch(kept: list[tuple[int, ...]]) -> None:
    chosen, s = st.session_state["branch"], state.current()
    st.session_state["branch"] = None
    if chosen is not None:
        _leave(s.text, s.written)
        state.change(written=kept[chosen], shown=-1)
        state.rerun("player")


# ---- the parts below


@state.part("closer")
def closer(view: View) -> None:
    """One of the other parts; only the open one is computed."""
    tab = state.tabs(view, "Look closer")
    drawn_for = st.session_state[CLOSER] = _drawn_for(view)
    with st.container(key=drawn_for):  # its class says what the part was drawn for, until it is drawn anew
        PARTS[tab](view)
    with st.expander("Source of what decodes: attnviz/decode", key="decode-source", on_change="rerun") as source:
        if charts.is_open(source):
            for file, text in zip(st.tabs(list(compute.sources())), compute.sources().values(), strict=True):
                file.code(text, language="python")


def _drawn_for(view: View) -> str:
    """A name for what the open part depends on: the text as written, except where the checkpoints write their own."""
    s = view.settings
    own = () if state.page().open_tab(s.tab) == "models" else compute.usable(view)
    return f"drawn-for-{crc32(repr((s.text, own, compute.sampling_of(s))).encode()):x}"


def _late(view: View) -> bool:
    """Whether the open part is there, and drawn for something else."""
    return st.session_state.get(CLOSER) not in (None, _drawn_for(view))


def _with(view: View) -> None:
    if view.config.sliding_window is not None:
        st.info("With a sliding window the cache need not hold every token; set the window to 0 to compare the two.")
        return
    found = compute.compared(view)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.work(found), "step-work")
    with right:
        charts.show(figures.step_times(found), "times")


def _models(view: View) -> None:
    if view.settings.opened:
        st.info("The five checkpoints go on with the same tokens here, and an opened model's tokens are others.")
        return
    found = compute.family(view.ids[: compute.MOST_TOKENS - compute.AHEAD], compute.sampling_of(view.settings))
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(figures.growth(found, len(view.ids)), "growth")
    with right:
        charts.show(figures.family_times(found), "family-times")
    for member in found:
        rate = f"{figures.rate_of(member)} tokens per second"
        st.markdown(f"**{figures.NAMES[member.model]}**, {rate}: … {quoted(_said(view, member.ids))}")


def _bounded(view: View) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(st.slider, "Tokens that a cache holds", "bound", min_value=8, max_value=128, width=320)
        state.control(
            st.slider, "First tokens kept", "kept_first", min_value=1, max_value=7, width=220,
        )  # fmt: skip
    if view.config.sliding_window is not None:
        st.info("The model's own window is on: set the window to 0 to see what a cache of limited size does.")
        return
    with st.spinner("Reading the text with each cache, token by token …"):
        found, stored = compute.bounded(view), compute.kept(view)
    ids, own = compute.running_text(view)
    left, right = st.columns(2, gap="large")
    with left:
        charts.show(part_figures.losses(found, view.settings.bound, own), "bounded-losses")
    with right:
        charts.show(part_figures.held(found, len(ids)), "held")
        charts.show(part_figures.precisions(stored), "kept")


def _paged(view: View) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.control(st.slider, "Continuations of the text", "n_texts", min_value=2, max_value=8, width=260)
        state.control(st.slider, "Tokens in a block", "block_size", min_value=1, max_value=64, width=260)
    found = compute.shared(view)
    left, right = st.columns([3, 2], gap="large")
    with left:
        charts.show(part_figures.blocks(found), "blocks")
    with right:
        charts.show(part_figures.waste(found), "waste")
    drawn = compute.shared_sampling(view.settings)
    st.caption(
        f"Drawn at temperature {drawn.temperature:g} without filters, so that the texts can differ: seed {drawn.seed} "
        f"for the first, {drawn.seed + len(found.ids) - 1} for the last."
    )
    for i, ids in enumerate(found.ids):
        st.markdown(f"**Text {i + 1}**: … {quoted(_said(view, ids))}")


def _speculate(view: View) -> None:
    names = {**figures.NAMES, "n-grams": "the text's own 2-grams"}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        drafters = ["n-grams"] if view.settings.opened else list(names)  # the checkpoints read other tokens
        state.control(
            st.selectbox, "Drafter", "drafter", options=drafters, format_func=names.__getitem__, width=260,
            shown="n-grams" if view.settings.opened else view.settings.drafter,
        )  # fmt: skip
        state.control(st.slider, "Tokens proposed at a time", "proposed", min_value=1, max_value=8, width=260)
    if view.settings.opened:
        st.caption(
            "A drafter must read the same tokens as the model. The shipped checkpoints read others, so only n-grams of "
            "the text are offered for an opened model."
        )
        view = view.but(drafter="n-grams")
    found = compute.speculated(view)
    charts.show(part_figures.rounds(found, view.settings.drafter), "rounds")
    st.markdown(" ".join(_round(view, each) for each in found.rounds))
    st.caption("Blue: proposed and accepted. Struck out: refused. Bold: the model's own.")


def _round(view: View, each: Round) -> str:
    """What one pass wrote and what it refused, in markdown."""
    accepted, refused = each.proposed[: each.n_accepted], each.proposed[each.n_accepted :]
    pieces = [
        f":blue-background[{escaped(_said(view, accepted))}]" if accepted else "",
        f"**{escaped(_said(view, each.ids[-1:]))}**",
    ]
    if refused:
        pieces.append(f"~~{escaped(_said(view, refused))}~~")
    return " ".join(piece for piece in pieces if piece)


def _roofline(view: View) -> None:
    if view.config.sliding_window is not None:
        st.info("With a sliding window the bytes read are not counted by this formula: set the window to 0.")
        return
    charts.show(part_figures.roofline(compute.roofline(view)), "roofline")


def _said(view: View, ids: Sequence[int]) -> str:
    """The tokens as they would be read."""
    return "".join(vocabulary(view.settings)[token] for token in ids).replace("·", " ").strip()


PARTS = {
    "with": _with, "models": _models, "bounded": _bounded, "paged": _paged, "speculate": _speculate,
    "roofline": _roofline,
}  # fmt: skip
