"""The tab Aloud of the page Practice: a question, a timer, the points of a good answer, and a grade of one's own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from attnviz.compute import spoken as compute
from attnviz.compute.spoken import Card
from attnviz.compute.view import View
from attnviz.figures.drawing import as_label, escaped
from attnviz.phrases import count, day, listed
from attnviz.practice.drills import LEVELS
from attnviz.session.unfinished import ALOUD, Unfinished
from attnviz.ui import controls, interview_day, progress, route_bar, state, this_tab
from attnviz.ui.components.spoken_timer import spoken_timer

POINTS = "spoken points"  # session key: the id of the card whose points are shown
GRADED = "spoken graded"  # session key: the id of the card of a route's item that was graded and stays open
NOTED = "spoken noted"  # session key: the id of the card that was graded before the one on screen
ASKED, POINTS_SHOWN, SAVED = "spoken-question", "spoken-points", "spoken-saved"  # keys of containers
GRADES = ("Again", "Hard", "Good", "Easy")


def show(view: View) -> None:
    """Draw the question that the address names, or the one that comes next."""
    take_up()
    today, deck = progress.today(), compute.deck()
    states = progress.get().coming(today.isoformat())
    which = view.settings.deck
    chosen = compute.queue(compute.of(deck, which, states, today), states, today)
    _choose(len(compute.of(deck, compute.DUE, states, today)))
    card = deck.get(view.settings.card) or (chosen[0] if chosen else None)
    if card is None:
        st.success("No question to answer aloud is due today.", icon=":material/check_circle:")
        st.button("What is due, and what is next", type="primary", key="to-due", on_click=_open_due)
    else:
        noted(card.id)
        show_card(card, states.get(card.id), then=_next)
    with st.container(horizontal=True):
        interview_day.choose(suggest=route_bar.is_for_tomorrow())


def show_card(card: Card, known: compute.CardState | None, then: Callable[[Card], None], place: str = "") -> None:
    """Draw a question, and what follows it: a timer, then its points and the grades, then the answer.

    then: is called once it is graded. place: where it stands in a queue, which asks no other question in its place.
    """
    asked = (place, compute.SPOKEN[card.subject], LEVELS[card.level], _when(card, known))
    st.caption(" · ".join(filter(None, asked)))
    with st.container(key=ASKED):
        st.markdown(f"## {escaped(compute.filled(card.question, card))}")
    before = (known.seen if known else 0) - is_graded(card.id)  # answers, without the one that is on screen still
    spoken_timer(f"{card.id} {before}", over=st.session_state.get(POINTS) == card.id, key="spoken-timer")
    if st.session_state.get(POINTS) == card.id:
        with st.container(key=POINTS_SHOWN):
            ticked = _points(card)
            if not is_graded(card.id):
                _grades(card, then, ticked)
        with st.container(key=SAVED):  # empty before, so that what is open below it stays open
            if is_graded(card.id):
                _saved(card)
        _answer(card)
    with st.container(horizontal=True):
        if st.session_state.get(POINTS) != card.id:
            st.button("Show the points", key="points", on_click=_show_points, args=(card,))
        if not place and not is_graded(card.id) and not _is_item(card.id):
            st.button("Another question", key="next-card", on_click=_next, args=(card,), icon=":material/skip_next:")


def noted(shown: str) -> None:
    """Say that the grade of the question before is kept, and when it comes back. shown: the id of the one on screen."""
    last = str(st.session_state.get(NOTED, ""))
    if last in progress.get().cards and not st.session_state.get(POINTS):
        same = last == shown
        what, when = "it" if same else "the question before", comes_back(last, now=same)
        st.info(f"Noted: {what} comes back {when}.", icon=":material/check:")  # a screen reader says it


def comes_back(id: str, *, now: bool) -> str:
    """Say when what was just answered comes back. now: whether it is asked next if it is still due."""
    due = progress.get().coming(today := progress.today().isoformat())[id].due
    return progress.when(due) if due > today else f"once more {'now' if now else 'today'}"


def _is_item(card: str) -> bool:
    """Check whether the open route's item is this card: the route leads on from it, and no other card does."""
    item = route_bar.item()
    return item is not None and item.link.get("card") == card


def is_graded(card: str) -> bool:
    """Check whether this card was just graded within a route."""
    return st.session_state.get(GRADED) == card and card in progress.get().cards and _is_item(card)


def still_to_do(card: str) -> str | None:
    """Say what is still to be done with the card of a route's item; None once it is graded, "" before its points."""
    take_up()
    if is_graded(card):
        return None
    return "Tick what you said, then choose how well you said it." if st.session_state.get(POINTS) == card else ""


def _saved(card: Card) -> None:
    """Say when the graded card comes back, and what the route's Next opens."""
    today = progress.today().isoformat()
    due = progress.get().coming(today)[card.id].due
    following = f" Next: {route_bar.next_title()}." if route_bar.next_title() else ""
    when = f"on {day(due)}" if due > today else "today"
    st.success(f"Saved: comes back {when}.{interview_day.said()}{following}", icon=":material/check_circle:")
    st.button("Answer it again", key="answer-again", on_click=_ask_again, icon=":material/replay:")


def _choose(n_due: int) -> None:
    names = {"": f"All {len(compute.deck())} questions", compute.DUE: f"Due today ({n_due})"} | compute.SPOKEN
    controls.control(
        st.selectbox, "Questions to answer aloud", "deck", options=list(names), format_func=names.__getitem__,
        width=330, then=lambda: state.change(card=""),
    )  # fmt: skip


def _when(card: Card, known: compute.CardState | None) -> str:
    """Say when a card comes back."""
    if known is None:
        return "new"
    days = compute.days_until(known, progress.today())
    times = "once" if known.seen == 1 else count(known.seen, "time")
    return f"answered {times}, comes back {compute.in_days(days)}" if days > 0 else "due today"


# ---- the answer


def _points(card: Card) -> int:
    """The points to tick; return how many are."""
    st.markdown("### What a good answer says", help=_sources(card))
    before, ticked = _ticked(card), []
    for i, point in enumerate(card.points):
        st.session_state.setdefault(_point(card.id, i), i in before)  # a box that was not drawn has lost its tick
        label = as_label(compute.filled(point.text, card))
        ticked.append(st.checkbox(label, key=_point(card.id, i), on_change=_keep, args=(card,)))
    st.caption(f"{sum(ticked)} of {count(len(ticked), 'point')} said")
    return sum(ticked)


def _answer(card: Card) -> None:
    """The model answer, the follow-ups, and the view that shows it."""
    with st.expander("A model answer of 90 seconds"):
        st.markdown(escaped(compute.filled(card.answer, card)))
    for each in card.follow_ups:
        with st.expander(f"Follow-up: {escaped(compute.filled(each.question, card))}"):
            st.markdown(escaped(compute.filled(each.answer, card)))
            if each.card:
                st.link_button("A question of its own", compute.address(each.card), icon=":material/open_in_new:")
    name, address = compute.place(card)
    st.link_button(f"See it on {name}", address, icon=":material/open_in_new:")


def _sources(card: Card) -> str:
    """Say where the points come from, one line per source, in markdown."""
    of: dict[str, list[str]] = {}
    for number, point in enumerate(card.points, 1):
        of.setdefault(point.source, []).append(str(number))
    lines = (f"- {'point' if len(n) == 1 else 'points'} {listed(n)}: {escaped(source)}" for source, n in of.items())
    return "\n".join(("Where they come from:\n", *lines))


def _grades(card: Card, then: Callable[[Card], None], ticked: int) -> None:
    """The four grades. ticked: how many of the points are, which does not decide the grade."""
    st.markdown("### How well did you say it?")
    today, kept = progress.today(), progress.get()
    interview = kept.interview_on(today.isoformat())
    days = compute.next_intervals(kept.cards.get(card.id), today, interview)
    times, comes_back = compute.offered(days, interview, today)
    with st.container(horizontal=True, key="spoken-grades"):
        for grade, (name, time) in enumerate(zip(GRADES, times, strict=True)):
            label = f"{name}: {time}" if time else name
            st.button(label, key=f"grade-{grade}", on_click=_take, args=(card, grade, then))
    none = "" if ticked else f"None of the {len(card.points)} points is ticked: Again? "
    st.caption(f"{none}{comes_back} Your grades are kept {progress.where_kept()}; nothing is stored on the server.")


# ---- what is pressed


def _show_points(card: Card) -> None:
    st.session_state[POINTS] = card.id
    st.session_state.pop(GRADED, None)
    _keep(card)
    state.change(card=card.id)
    state.rerun("tabs")


def _take(card: Card, grade: int, then: Callable[[Card], None]) -> None:
    progress.set_card(card.id, compute.after(progress.get().cards.get(card.id), grade, progress.today()))
    _end()
    if _is_item(card.id):
        route_bar.did_item()  # however it was said: what is due again is listed as due
        st.session_state[GRADED] = card.id
        state.rerun("tabs")
    else:
        st.session_state[NOTED] = card.id
        then(card)


def _ask_again() -> None:
    close()
    state.rerun("tabs")


def _open_due() -> None:
    state.change(tab="due", card="", deck="")
    state.rerun("tabs")


def close() -> None:
    """Show the points of no card."""
    _end()
    for name in (POINTS, GRADED):
        st.session_state.pop(name, None)


def _next(card: Card) -> None:
    """Open the question that comes after this one."""
    today = progress.today()
    states = progress.get().coming(today.isoformat())
    chosen = compute.queue(compute.of(compute.deck(), state.current().deck, states, today), states, today)
    after = compute.following(card, chosen)
    st.session_state.pop(POINTS, None)
    _end()
    state.change(card=after.id if after else "")
    state.rerun("tabs")


def place() -> str:
    """Name what is on screen, for the keyboard's focus."""
    return f"{state.current().card} {st.session_state.get(POINTS, '')} {st.session_state.get(GRADED, '')}"


def appeared() -> str:
    """Return the key of the container that the last action has made appear."""
    if not st.session_state.get(POINTS):
        return ASKED
    return SAVED if st.session_state.get(GRADED) else POINTS_SHOWN


# ---- a card whose points are shown, and that is not graded yet, as the browser keeps it


def _point(card: str, i: int) -> str:
    return f"point-{card}-{i}"


def _kept() -> Unfinished | None:
    """Return what the browser keeps of the card whose points are shown in this tab."""
    found = progress.get().unfinished.get(ALOUD)
    return found if found and not found.ended and this_tab.runs(ALOUD) == found.id else None


def _keep(card: Card) -> None:
    """Keep that the points of this card are shown, and which of them are ticked."""
    ticked = " ".join(str(i) for i in range(len(card.points)) if st.session_state.get(_point(card.id, i)))
    found = _kept()
    if found is None or found.asked != (card.id,):
        before = progress.get().unfinished.get(ALOUD)
        turn = before.turn + 1 if before else 0
        found = Unfinished(secrets.token_hex(6), turn, progress.now(), ALOUD, asked=(card.id,))
        this_tab.begin(ALOUD, found.id)
    progress.keep_unfinished(replace(found, edits=found.edits + 1, given=(ticked,)))


def _ticked(card: Card) -> set[int]:
    """Return the points of this card that are ticked, as the browser keeps them."""
    found = _kept()
    given = " ".join(found.given) if found and found.asked == (card.id,) else ""
    return {i for i in range(len(card.points)) if str(i) in given.split()}


def take_up() -> None:
    """Show the points that were shown in this tab before it was loaded again."""
    if POINTS not in st.session_state and (found := _kept()):
        st.session_state[POINTS] = found.asked[0]
    graded = st.session_state.get(GRADED)
    if graded and _is_item(graded) and not route_bar.is_done():  # graded in an earlier run of the route
        for name in (POINTS, GRADED):
            st.session_state.pop(name, None)


def _end() -> None:
    """Keep it no longer."""
    if found := _kept():
        this_tab.end(ALOUD)
        progress.keep_unfinished(found.closed())
