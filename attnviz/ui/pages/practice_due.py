"""The tab Due today of the page Practice: what comes back, one after the other, then what to go on with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from attnviz.compute import due as compute
from attnviz.compute import practice, spoken
from attnviz.compute.practice import Question
from attnviz.compute.view import View
from attnviz.phrases import count
from attnviz.practice.drills import LEVELS
from attnviz.session.route import TODAY
from attnviz.ui import interview_day, offer_unfinished, progress, route_bar, state
from attnviz.ui.components.focus_next import focus_next
from attnviz.ui.components.in_sight import in_sight
from attnviz.ui.pages import mistakes, practice_missed
from attnviz.ui.pages import practice_attempt as attempts
from attnviz.ui.pages import practice_question as one
from attnviz.ui.pages import practice_spoken as aloud

GIVEN = "due answers"  # session key: the day, and the ids of its queue that were answered in this session, in turn
ANSWERED = "due answered"  # session key: the drill or mistake whose answer is on screen, the answer, and its place
MINUTES = "15"  # of the mock interview that is suggested
END = "due-end"  # key of a container


def show(view: View) -> None:
    """Draw the question that comes next, the answer to the one before it, or what to go on with."""
    aloud.take_up()
    today = progress.today().isoformat()
    waiting = _in_turn(compute.queue(progress.get(), today))
    n = len({*_given()} - {*waiting})  # done; what could not be said is answered, and not done
    if ANSWERED in st.session_state:
        asked, given, place = st.session_state[ANSWERED]
        _answer(asked, given, place, bool(waiting))
    elif not waiting:
        _end(n)
    else:
        chosen = view.settings.card
        again = len({*_given()} & {*waiting})
        once_more = f", {again} of them once more" if again else ""
        id = chosen if chosen in waiting else waiting[0]
        aloud.noted(id)
        _ask(id, f"{n + 1} of {n + len(waiting)} due{once_more}")


def _ask(id: str, place: str) -> None:
    """Ask what is due: a question to answer aloud, or a drill or a mistake in its form."""
    state_ = progress.get().coming(progress.today().isoformat())[id]
    if card := spoken.deck().get(id):
        aloud.show_card(card, state_, then=_said, place=place)
        with st.container(horizontal=True):
            interview_day.choose()
        return
    asked = compute.question(id, state_)
    key = f"answer-due-{id.replace(':', '-')}-{state_.seen}"
    with st.container(key=attempts.QUESTION):
        st.caption(_about(asked, place))
        one.draw(asked)
    with st.container(key=attempts.ASKED):
        one.ask(asked, key, partial(_take, id, asked, place))


def _about(asked: Question, place: str) -> str:
    what = "Missed mistake" if asked.subject == "mistakes" else "Missed drill"
    return f"{place} · {what} · {practice.subject_name(asked.subject)} · {LEVELS[asked.level]}"


def _answer(asked: Question, given: str, place: str, more: bool) -> None:
    """Draw a drill or a mistake that was just answered."""
    with st.container(key=attempts.QUESTION):
        st.caption(_about(asked, place))
        one.draw(asked)
    with st.container(key=attempts.ANSWERED):
        one.feedback(asked, given, f"due-{asked.kind}")
        if not asked.grade(given).right:
            id = compute.id_of(asked)
            only = compute.queue(progress.get(), progress.today().isoformat()) == [id]
            st.caption(f"Noted: it comes back {aloud.comes_back(id, now=only)}.")
        st.button("Next" if more else "Go on", type="primary", on_click=_next, key="next")


def _end(n: int) -> None:
    """Say that nothing is left and when something is due again, and lead on."""
    kept, today = progress.get(), progress.today().isoformat()
    done = f"All {n} due today are done." if n > 1 else "What was due today is done." if n else "Nothing is due today."
    with st.container(key=END):
        st.success(" ".join(filter(None, (done, compute.when_next(kept, today)))), icon=":material/check_circle:")
        if route_bar.item() is None:  # in a route its bar leads on
            lead_on()


def lead_on() -> None:
    """Draw one button to what comes next: what is unfinished, a route's item, what was missed, a mock interview.

    On the day of the interview, to the numbers to remember, and to nothing more after them.
    """
    if offer_unfinished.offer(from_here=True) or (following := _following()) is None:
        return
    label, on_click, args = following
    with st.container(key="go-on", horizontal=True):
        st.button(f"**{label}**", key="due-next", type="primary", icon=":material/arrow_forward:", on_click=on_click,
                  args=args)  # fmt: skip


def _following() -> tuple[str, Callable[..., None], tuple[str | bool, ...]] | None:
    if item := route_bar.open_item():
        return item[1], route_bar.start, (item[0],)
    if progress.get().interview_on(today := progress.today().isoformat()) == today:
        return None if (on := route_bar.through_on(TODAY)) == today else _numbers(again=bool(on))
    if label := practice_missed.label():
        return label, practice_missed.repeat, ()
    if name := compute.missed_mistake(progress.get(), progress.today().isoformat()):
        return "Find the mistake that you missed", _find, (name,)
    return f"A mock interview of {MINUTES} minutes", _mock, ()


def _numbers(*, again: bool) -> tuple[str, Callable[..., None], tuple[str | bool, ...]]:
    minutes = count(route_bar.minutes_today(TODAY, again=again), "minute")
    return f"The numbers to remember: {minutes}", route_bar.start, (TODAY, again)


def _find(name: str) -> None:
    mistakes.ask_again(name)
    state.go("mistakes", state.changed(mistake=name, hunt="1"))


def _mock() -> None:
    state.go("practice", state.changed(tab="interview", interview=MINUTES, card=""))


# ---- what is pressed


def _given() -> tuple[str, ...]:
    """Return what of this day's queue was answered in this session, in turn."""
    day, ids = st.session_state.get(GIVEN, ("", ()))
    return ids if day == progress.today().isoformat() else ()


def _in_turn(waiting: list[str]) -> list[str]:
    """Return what is due with that which was answered here and not known last, the longest ago first."""
    last = {id: n for n, id in enumerate(_given())}
    return sorted(waiting, key=lambda id: last.get(id, -1))


def _counted(id: str) -> None:
    st.session_state[GIVEN] = progress.today().isoformat(), (*_given(), id)


def _said(card: spoken.Card) -> None:
    """Go on after a spoken question was graded."""
    _counted(card.id)
    aloud.close()
    state.change(card="")
    state.rerun("tabs")


def _take(id: str, asked: Question, place: str, key: str) -> None:
    given = one.given_answer(asked, key)
    if given is not None:
        attempts.record(asked, given)
        st.session_state.pop(aloud.NOTED, None)
        st.session_state[ANSWERED] = asked, given, place
        _counted(id)
    state.rerun("tabs")


def _next() -> None:
    st.session_state.pop(ANSWERED, None)
    state.rerun("tabs")


def move_on() -> None:
    """Move the keyboard's focus on, and bring what has appeared to sight."""
    answered, points = ANSWERED in st.session_state, aloud.appeared()
    at = f"due {len(_given())} {answered} {aloud.place()}"
    focus_next(at, [*attempts.NEXT, *attempts.SPOKEN], attempts.OR_ELSE)
    in_sight(at, *([attempts.ANSWERED] if answered else [END, attempts.QUESTION, attempts.ASKED, points]))
