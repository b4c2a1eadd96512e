"""The person's progress: this session's copy, and the component that keeps it in their browser's local storage.

The server stores nothing beyond the session. A page draws what the session has and never waits for the browser: a
browser that has something sends it once per session, and the parts that called `get` are then drawn again. A tab sends
what another one has written, and both merge it; a browser writes only what extends all that it has sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from secrets import token_hex
from typing import Any

import streamlit as st

from attnviz import phrases
from attnviz.compute.view import View, always
from attnviz.exercises import CardState
from attnviz.session import progress
from attnviz.session.progress import LessonState, MistakeState, Progress, RouteState, TaskState
from attnviz.session.stored import utc
from attnviz.session.unfinished import Unfinished
from attnviz.ui import own_day, state, this_tab
from attnviz.ui.components.progress_store import progress_store

_PROGRESS, _STORE = "progress", "progress store"  # session keys
UNREADABLE = "The progress stored in this browser could not be read, so a new one was begun. "
BLOCKED = "This browser does not let AttnViz store anything, so progress ends when this page is closed or loaded again."


class _Store:
    """What this session knows of the browser's storage.

    heard: how many messages the browser has sent. stored: the JSON that it holds, as far as is known. forgets: how
    often the person has deleted it here. problem: what is to be said about it.
    """

    def __init__(self) -> None:
        self.session, self.heard, self.stored, self.forgets, self.problem = token_hex(8), 0, "", 0, ""


def get() -> Progress:
    """Return this session's progress; the part that is being drawn is drawn again when it changes in the browser."""
    state.follow_progress()
    return _own()


def is_awaited() -> bool:
    """Check whether there is none because the browser, which may have some, has not sent any yet."""
    return get().is_empty and not _store().heard


def today() -> date:
    """Return the day where the person is."""
    return own_day.today()


def when(on: str) -> str:
    """Say when a day (an ISO date) is, as one would on this one: "today", "tomorrow", "on 29 November"."""
    near = {(today() + timedelta(days=n)).isoformat(): word for n, word in enumerate(("today", "tomorrow"))}
    return near.get(on) or f"on {phrases.day(on)}"


def due() -> list[str]:
    """Return the ids of what is due today, in the order in which it is asked."""
    kept, day = get(), today().isoformat()
    if not kept.due(day):
        return []
    from attnviz.compute import due as compute  # imported late: torch would delay pages where nothing is due

    return compute.queue(kept, day)


def now() -> str:
    """Return the time as progress has it."""
    return utc(datetime.now(UTC))


# ---- changes


def record(**changes: Any) -> None:
    """Replace fields of the progress, here and in the browser."""
    _take(replace(_own(), **changes))


def reached(lesson: str, step: int, *, last: bool) -> None:
    """Record a lesson's step, and that it is the last one."""
    day = today().isoformat() if last else ""
    _put("lessons", lesson, LessonState(step, day))


def found_mistake(name: str, at_once: bool) -> None:
    """Record that the person found a mistake, and whether they did at the first try."""
    _put("mistakes", name, MistakeState(at_once, now()))


def predicted_mistake(name: str) -> None:
    """Record that the person said what a mistake does, whose line they had found."""
    if before := _own().mistakes.get(name):
        _put("mistakes", name, replace(before, predicted=now()))


def judged(task: str, mistake: str | None) -> None:
    """Record the verdict on a file: None if it passed, else the id of its mistake, "" for one that is not known."""
    day = today().isoformat() if mistake is None else ""
    before = _own().tasks.get(task, TaskState())
    if (mistake is None and before.passed and not before.last) or (mistake == before.last and before.at):
        return  # the same file is judged again
    _put("tasks", task, TaskState(day, mistake or "", now()))


def set_card(id: str, card: CardState) -> None:
    """Record when a spoken question comes back."""
    record(cards={**_own().cards, id: card})


def keep_mock(id: str, card: dict[str, Any]) -> None:
    """Record the score card of a mock interview, before the others; one with its id is replaced, and keeps its time."""
    before = next((each for each in _own().mocks if each.get("id") == id), None)
    since = {"edits": before.get("edits", 0) + 1, "at": before["at"]} if before else {"at": now()}
    record(mocks=({**card, "id": id, **since}, *other_mocks(id))[: progress.MAX_MOCKS])


def drop_mock(id: str) -> None:
    """Remove the score card with this id, also from the tabs that have it."""
    _take(progress.merge(_own(), Progress(dropped={id: now()})))


def other_mocks(id: str) -> tuple[Mapping[str, Any], ...]:
    """Return the score cards of all other mock interviews, the newest first."""
    return tuple(each for each in _own().mocks if each.get("id") != id)


def keep_unfinished(found: Unfinished) -> None:
    """Record what is begun and not finished, or a mark that it has ended; of its kind, the one begun last stays."""
    _put("unfinished", found.kind, found)


def keep_draft(task: str, code: str) -> None:
    """Record the code that was typed for a task; nothing of it if it is too long."""
    if (before := _own().draft) != progress.Draft.of(task, code, before.at):
        record(draft=progress.Draft.of(task, code, now()))


def unfinished() -> list[Unfinished]:
    """Return what is unfinished in this browser and can be offered, mock interviews first, with the time used."""
    kept = [this_tab.with_time(each) for _, each in sorted(get().unfinished.items())]
    return [each for each in kept if each.goes_on]


def did_item(route: str, item: str) -> None:
    """Record an item of a route as done, whether or not something else shows that it is."""
    before = _own().routes.get(route, RouteState(now(), now()))
    _put("routes", route, replace(before, at=now(), done=tuple(sorted({*before.done, item}))))


def skipped_item(route: str, item: str) -> None:
    """Record an item of a route as skipped; one that is done stays done."""
    before = _own().routes.get(route, RouteState(now(), now()))
    _put("routes", route, replace(before, at=now(), skipped=tuple(sorted({*before.skipped, item}))))


def _put(field: str, name: str, entry: Any) -> None:
    """Merge one entry into a field."""
    entries: dict[str, Any] = {field: {name: entry}}
    _take(progress.merge(_own(), Progress(**entries)))


def _take(changed: Progress) -> None:
    if changed.routes:
        from attnviz.compute import routes  # imported late: it would delay pages without a route

        changed = routes.with_done_items(changed, today().isoformat())
    if changed != _own():
        st.session_state[_PROGRESS] = changed
        state.progress_changed()


# ---- all of it


def take_file(raw: bytes) -> str:
    """Merge a file of progress; return why it cannot be read, or ""."""
    read, problem = progress.parsed(raw.decode("utf-8", "replace"))
    if not problem:
        _take(progress.merge(_own(), read.for_file()))
    return problem


def forget() -> None:
    """Delete the progress, here and in the browser."""
    _store().forgets += 1
    _store().stored = _store().problem = ""
    st.session_state[_PROGRESS] = Progress()
    state.progress_changed()


def stays() -> bool:
    """Check whether what is done here stays: the browser stores it, and the page is not one drawing alone."""
    return _store().problem != BLOCKED and not state.current().only


def where_kept() -> str:
    """Say where what a person does is kept, after a verb: in the browser, or not for long where that stores nothing."""
    return "in this browser" if stays() else "until this page is closed or loaded again"


def problem() -> str:
    """Return what has to be said about the browser's storage, or ""."""
    return _store().problem


def _own() -> Progress:
    return st.session_state.get(_PROGRESS) or Progress()


def _store() -> _Store:
    return st.session_state.setdefault(_STORE, _Store())


# ---- the browser


@state.part(state.STORE, always)
def store(view: View) -> None:
    """Mount the component, after everything else: what the browser sends must not interrupt the page's computation."""
    own, known = _own().json(), _store()
    unsaved = own != known.stored and not (_own().is_empty and not known.stored)
    progress_store(
        {"session": known.session, "heard": known.heard, "forgets": known.forgets, "text": own if unsaved else None,
         "day": today().isoformat(), **this_tab.for_browser()},
        on_stored=_take_stored, on_blocked=_say_blocked, on_day=_take_day,
    )  # fmt: skip
    lost = known.problem and not (known.problem == BLOCKED and _own().is_empty)
    if lost and not st.session_state.get("progress problem said"):
        st.session_state["progress problem said"] = True
        st.toast(known.problem, icon=":material/save:")


def _take_stored(number: int, text: str | None, here: str, left: str, day: str) -> None:
    """Merge what the browser holds. text: None if another tab has deleted it. here, left: see `this_tab.take`.

    The day is taken without drawing anything again, which would end this callback.
    """
    own_day.take(day)
    known = _store()
    first = not known.heard
    known.heard, known.stored = number, text or ""
    if text is None:
        st.session_state[_PROGRESS] = Progress()
    else:
        read, wrong = progress.parsed(text)
        if wrong:
            known.problem = UNREADABLE + wrong
        st.session_state[_PROGRESS] = progress.merge(_own(), read)
    this_tab.take(here, left, _own().unfinished, first=first)
    state.redraw_progress()


def _take_day(sent: str) -> None:
    if own_day.take(sent):
        state.redraw_progress()


def _say_blocked() -> None:
    _store().problem = BLOCKED
    state.redraw_progress()
