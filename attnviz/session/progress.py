"""A person's progress, as their browser keeps it: a value, its JSON, and how two of them are merged.

No streamlit here; `attnviz/ui/progress.py` keeps it in the session and in the browser. Times are ISO 8601 in UTC, days
ISO dates. Merging is commutative, associative and idempotent, so that tabs that merge each other's agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, TypeVar

from attnviz.exercises import CardState
from attnviz.session import unfinished
from attnviz.session.stored import NAME, count, day, ease, flag, name, state, text, time
from attnviz.session.unfinished import Unfinished

MAX_BYTES = 200_000  # of the JSON
MAX_ENTRIES = 1_000  # of each kind
MAX_MOCKS = 10
MAX_DROPPED = 100  # mock interviews of which it is known that they were removed
MAX_MOCK_BYTES = 4_000  # of one, as JSON
MAX_DRAFT = 16_000  # bytes of code that is not finished, as JSON
MARK = "attnviz progress"  # the key that tells it from other JSON; its value is the version of the format
BEFORE = "attnviz practice"  # of the files that the Practice page saved before: its counts and missed questions alone
_T = TypeVar("_T")


@dataclass(frozen=True)
class LessonState:
    """The last step of a lesson that was reached, and the day on which its last step was; "" before."""

    step: int
    done: str = ""

    def merged(self, other: Self) -> LessonState:
        return LessonState(max(self.step, other.step), max(self.done, other.done))


@dataclass(frozen=True)
class MistakeState:
    """A mistake that was found: whether at the first try, and when; and when the question what it does was answered
    right, "" before.
    """

    found: bool
    at: str
    predicted: str = ""

    def merged(self, other: Self) -> MistakeState:
        later = max(self, other, key=lambda state: (state.at, state.found))
        return MistakeState(later.found, later.at, max(self.predicted, other.predicted))


@dataclass(frozen=True)
class TaskState:
    """The day on which a file passed, "" before; the mistake of the last file that did not, and when it was judged."""

    passed: str = ""
    last: str = ""
    at: str = ""

    def merged(self, other: Self) -> TaskState:
        later = max(self, other, key=lambda state: (state.at, state.last))
        return TaskState(max(self.passed, other.passed), later.last, later.at)


@dataclass(frozen=True)
class RouteState:
    """When a route was begun and last opened, and those of its items that are done without a trace elsewhere.

    skipped: items that "Next" left undone; those that are done by now are among them.
    round: the run of the route, from 1; "Begin again" begins the next one. Opening a route does not, so that a tab that
    opens it before its browser has sent its progress stays in the run.
    through: the day on which its last item was done; "" before.
    """

    began: str
    at: str
    done: tuple[str, ...] = ()
    round: int = 1
    through: str = ""
    skipped: tuple[str, ...] = ()

    def merged(self, other: Self) -> RouteState:
        if self.round != other.round:
            return max(self, other, key=lambda state: state.round)
        began, at = min(self.began, other.began), max(self.at, other.at)
        through = max(self.through, other.through)
        done, skipped = ({*a, *b} for a, b in ((self.done, other.done), (self.skipped, other.skipped)))
        return RouteState(began, at, tuple(sorted(done)), self.round, through, tuple(sorted(skipped)))


@dataclass(frozen=True)
class Missed:
    """Missed questions to repeat, each as (id, gap, due), after this many answers in all."""

    answered: int = 0
    waiting: tuple[tuple[str, int, int], ...] = ()

    def merged(self, other: Self) -> Missed:
        return max(self, other, key=lambda state: (state.answered, state.waiting))


@dataclass(frozen=True)
class InterviewDay:
    """The day of the person's interview, "" for none, and when they said so."""

    day: str = ""
    at: str = ""

    def merged(self, other: Self) -> InterviewDay:
        return max(self, other, key=lambda said: (said.at, said.day))


@dataclass(frozen=True)
class Draft:
    """Code that was typed for a task, "" for none, and when."""

    task: str = ""
    code: str = ""
    at: str = ""

    @classmethod
    def of(cls, task: str, code: str, at: str) -> Self:
        """Return it as it is kept: without the code if that is too long."""
        return cls(task, code if fits(code) else "", at)

    def merged(self, other: Self) -> Self:
        return max(self, other, key=lambda draft: (draft.at, draft.task, draft.code))


def fits(code: str) -> bool:
    """Check whether code is short enough to be kept."""
    return len(_as_json(code)) <= MAX_DRAFT


@dataclass(frozen=True)
class Progress:
    """All of it: what was done, found, answered and passed, by name.

    drills: {kind of question: (right, asked)}. mocks: score cards of mock interviews, the newest first, each with its
    time as "at". unfinished: what was begun and not finished, by its kind. draft: the code typed last for a task.
    dropped: {id of a removed mock interview: when}, so that a tab that has it does not bring it back.
    """

    lessons: Mapping[str, LessonState] = field(default_factory=dict)
    mistakes: Mapping[str, MistakeState] = field(default_factory=dict)
    drills: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    missed: Missed = Missed()
    cards: Mapping[str, CardState] = field(default_factory=dict)
    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    mocks: tuple[Mapping[str, Any], ...] = ()
    routes: Mapping[str, RouteState] = field(default_factory=dict)
    interview: InterviewDay = InterviewDay()
    dropped: Mapping[str, str] = field(default_factory=dict)
    unfinished: Mapping[str, Unfinished] = field(default_factory=dict)
    draft: Draft = Draft()

    def json(self) -> str:
        """Serialise; equal values give equal texts."""
        empty = asdict(_EMPTY)
        written = {name: value for name, value in asdict(self).items() if value and value != empty[name]}
        return json.dumps({MARK: 1, **written}, sort_keys=True, separators=(",", ":"))

    def for_file(self) -> Progress:
        """Return it without what is unfinished, which stays in its browser: an older file would bring it back."""
        return replace(self, unfinished={}, draft=Draft())

    @property
    def is_empty(self) -> bool:
        return self == _EMPTY

    def route(self) -> tuple[str, RouteState] | None:
        """Return the route that was opened last, with its name."""
        return max(self.routes.items(), key=lambda each: (each[1].at, each[0]), default=None)

    def due(self, today: str) -> list[str]:
        """Return the ids of the cards that are due on this day (an ISO date).

        This version may not have all of them: it asks the queue of `attnviz/compute/due.py`.
        """
        return sorted(id for id, card in self.coming(today).items() if card.due <= today)

    def interview_on(self, today: str) -> str:
        """Return the day of the interview (an ISO date); "" for none, and once it is past."""
        return self.interview.day if self.interview.day >= today else ""

    def coming(self, today: str) -> dict[str, CardState]:
        """Return the cards, each due on the day on which it comes back, which may be before an interview."""
        on = self.interview_on(today)
        return {id: replace(card, due=card.comes_back(on)) for id, card in self.cards.items()}


_EMPTY = Progress()


def merge(a: Progress, b: Progress) -> Progress:
    """Return the progress of both; of two states of one thing, the later one."""
    dropped = _newest(_joined(a.dropped, b.dropped, max))
    mocks = [each for each in _latest(a.mocks, b.mocks) if each.get("id") not in dropped]
    newest = sorted(mocks, key=lambda each: (each["at"], _as_json(each)), reverse=True)[:MAX_MOCKS]
    return Progress(
        _joined(a.lessons, b.lessons, LessonState.merged),
        _joined(a.mistakes, b.mistakes, MistakeState.merged),
        _joined(a.drills, b.drills, lambda one, other: max(one, other, key=lambda pair: (pair[1], pair[0]))),
        a.missed.merged(b.missed),
        _joined(a.cards, b.cards, lambda one, other: max(one, other, key=_how_often)),
        _joined(a.tasks, b.tasks, TaskState.merged),
        tuple(newest),
        _joined(a.routes, b.routes, RouteState.merged),
        a.interview.merged(b.interview),
        dropped,
        _joined(a.unfinished, b.unfinished, Unfinished.merged),
        a.draft.merged(b.draft),
    )


def _newest(dropped: Mapping[str, str]) -> dict[str, str]:
    """Return those that were removed last, as many as are kept."""
    return dict(sorted(dropped.items(), key=lambda each: (each[1], each[0]))[-MAX_DROPPED:])


def _latest(a: Iterable[Mapping[str, Any]], b: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Return all score cards; of several with one id, as ticks change it, the one that was changed most often."""
    found: dict[str, Mapping[str, Any]] = {}

    def age(card: Mapping[str, Any]) -> tuple[int, str]:
        return card["edits"] if isinstance(card.get("edits"), int) else 0, _as_json(card)

    for each in (*a, *b):
        key = each["id"] if isinstance(each.get("id"), str) else _as_json(each)
        found[key] = max(found.get(key, each), each, key=age)
    return found.values()


def _joined(a: Mapping[str, _T], b: Mapping[str, _T], merged: Callable[[_T, _T], _T]) -> dict[str, _T]:
    return {**a, **{name: merged(a[name], state) if name in a else state for name, state in b.items()}}


def _how_often(card: CardState) -> tuple[int, str, int, float, str]:
    return card.seen, card.due, card.interval_days, card.ease, card.missed


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


# ---- what a browser or a file holds: it can be anything


def parsed(text: str) -> tuple[Progress, str]:
    """Parse JSON, also the files saved before; with a sentence where it cannot be read, and the empty progress then.

    Single entries that cannot be read are left out.
    """
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return _EMPTY, f"It has more than {MAX_BYTES:,} bytes, the most that is read."
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return _EMPTY, "It is not valid JSON."
    if not isinstance(record, dict) or (record.get(MARK) != 1 and record.get(BEFORE) != 1):
        return _EMPTY, "It is not progress that AttnViz has written."
    if record.get(BEFORE) == 1:
        record = _of_before(record)
    begun = _entries(record, "unfinished", unfinished.read)
    return Progress(
        _entries(record, "lessons", state(LessonState, step=count, done=day)),
        _entries(record, "mistakes", state(MistakeState, found=flag, at=time, predicted=time)),
        _entries(record, "drills", _pair),
        _missed(record.get("missed")),
        _entries(record, "cards", state(CardState, due=day, interval_days=count, ease=ease, seen=count, missed=name)),
        _entries(record, "tasks", state(TaskState, passed=day, last=name, at=time)),
        tuple(_mocks(record.get("mocks"))),
        _entries(record, "routes", _route_state),
        state(InterviewDay, day=day, at=time)(record.get("interview")) or InterviewDay(),
        _newest(_entries(record, "dropped", _removed)),
        {found.kind: found for kind, found in begun.items() if found.kind == kind},
        state(Draft, task=name, code=_code, at=time)(record.get("draft")) or Draft(),
    ), ""


def _of_before(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file of the Practice page of before in today's form."""
    counts = record.get("counts")
    asked = [pair[1] for pair in counts.values() if _pair(pair)] if isinstance(counts, dict) else []
    return {"drills": counts, "missed": {"answered": sum(asked), "waiting": record.get("missed")}}


def _entries(record: Mapping[str, Any], name: str, read: Callable[[Any], _T | None]) -> dict[str, _T]:
    """Return the entries of this name that can be read."""
    written = record.get(name)
    if not isinstance(written, dict):
        return {}
    states = {key: read(state) for key, state in list(written.items())[:MAX_ENTRIES] if NAME.fullmatch(key)}
    return {key: state for key, state in states.items() if state is not None}


def _removed(written: Any) -> str | None:
    try:
        return time(written) or None
    except (TypeError, ValueError, OverflowError):
        return None


def _code(written: Any) -> str:
    if not fits(code := text(MAX_DRAFT)(written)):
        raise ValueError(written)
    return code


def _names(written: Any) -> tuple[str, ...]:
    if not isinstance(written, list) or len(written) > MAX_ENTRIES:
        raise ValueError(written)
    return tuple(sorted({name(each) for each in written}))


_route_state = state(
    RouteState, began=time, at=time, done=_names, round=count, through=day, skipped=_names
)  # fmt: skip


def _pair(written: Any) -> tuple[int, int] | None:
    match written:
        case [int() as right, int() as asked] if not isinstance(right, bool) and not isinstance(asked, bool):
            return (right, asked) if 0 <= right <= asked <= 10**6 else None
    return None


def _missed(written: Any) -> Missed:
    if not isinstance(written, dict) or not isinstance(written.get("waiting"), list | tuple):
        return Missed()
    waiting = {each[0]: each for each in map(_waiting, written["waiting"][:MAX_ENTRIES]) if each}
    try:
        return Missed(count(written.get("answered")), tuple(waiting.values()))
    except ValueError:
        return Missed()


def _waiting(written: Any) -> tuple[str, int, int] | None:
    match written:
        case [str() as id, int() as gap, int() as due] if NAME.fullmatch(id):
            return id, min(max(int(gap), 0), 100), min(max(int(due), 0), 10**6)
    return None


def _mocks(written: Any) -> Iterable[Mapping[str, Any]]:
    for each in written[:MAX_MOCKS] if isinstance(written, list) else ():
        try:
            if isinstance(each, dict) and time(each["at"]) == each["at"] and len(_as_json(each)) <= MAX_MOCK_BYTES:
                yield each
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
