"""Queues for work that is done one at a time, in the order of coming or in that in which it is due."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, local
from time import monotonic, sleep
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 0.3  # seconds that nobody notices
FAIR = 3.0  # times as long as it takes, while others work too, is what everybody may wait
FORGETS = 0.2  # share of what a kind of work usually takes that its last time decides
GLANCE = 0.005  # seconds from one look whether others still work to the next


class Place(Event):
    """A place in a line, set when its turn has come."""

    def __init__(self, due: float) -> None:
        super().__init__()
        self.due = due


class Queue:
    """The first in it work, one or `at_once`; the others wait, and know how many are before them."""

    def __init__(self, at_once: int = 1) -> None:
        self._lock, self._at_once = Lock(), at_once
        self._line: list[Place] = []  # those who work, then the others as they are due

    @contextmanager
    def turn(self, tell: Callable[[int], object] = lambda before: None) -> Iterator[None]:
        """Run the block when it is our turn; tell as for `enter`."""
        place = self.enter(tell)
        try:
            yield
        finally:
            self.leave(place)

    def enter(self, tell: Callable[[int], object] = lambda before: None, due: float = 0.0) -> Place:
        """Wait for our turn; the place that is to be left afterwards.

        Who is due first goes first, and among those due at the same time who came first. Where that takes longer than
        PATIENCE, tell(how many are before us) is called, again every PATIENCE, and tell(0) at last. Whatever tell
        raises gives up the place: who has left keeps nobody waiting.
        """
        place, waited = self._join(due), False
        try:
            while not place.wait(PATIENCE):
                tell(self._line.index(place) + 1 - self._at_once)
                waited = True
            if waited:
                tell(0)
        except BaseException:  # Streamlit ends a run with exceptions that are none of Exception
            self.leave(place)
            raise
        return place

    def leave(self, place: Place) -> None:
        """Let the next one work."""
        with self._lock:
            self._line.remove(place)
            self._call()

    @property
    def taken(self) -> bool:
        """Whether it is anybody's turn."""
        return bool(self._line)

    @property
    def awaited(self) -> bool:
        """Whether anybody waits behind those whose turn it is."""
        return len(self._line) > self._at_once

    def _join(self, due: float) -> Place:
        place = Place(due)
        with self._lock:
            behind = (i for i, other in enumerate(self._line) if other.due > due and not other.is_set())
            self._line.insert(next(behind, len(self._line)), place)
            self._call()
        return place

    def _call(self) -> None:
        for place in self._line[: self._at_once]:
            if not place.is_set():
                place.set()


class Turns:
    """Threads of a process of which a few work at once, instead of all interrupting each other at every step.

    Python runs one thread at a time. A model gives that right away at each of its operations, and to have it back waits
    for as long as other threads care to run: among forty, a trace of 10 ms takes a second.

    What is quickly done is due sooner: everybody's work is due FAIR times as long after its coming as its kind usually
    takes. So one slow part of a page does not keep twenty quick ones waiting, and is overtaken only by what comes
    before it has waited FAIR times its own time.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._queue, self._here = Queue(at_once), local()
        self._usual: dict[Hashable, float] = {}  # seconds of work by its kind

    @contextmanager
    def mine(self, kind: Hashable = None, later: float = 0.0) -> Iterator[None]:
        """Run the block when it is this thread's turn; a block inside another belongs to the same turn.

        kind: what takes about as long each time. There are to be few of them: each is remembered.
        later: seconds by which it is due later than others of its kind.
        """
        if self._place:
            yield
            return
        self._here.worked, self._here.due = 0.0, monotonic() + FAIR * self._usual.get(kind, 0.0) + later
        self._begin()
        try:
            yield
        finally:
            self._end()
            usual = self._usual.get(kind, self._here.worked)
            self._usual[kind] = usual + FORGETS * (self._here.worked - usual)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Give up the turn for the block, and take another after it: nobody should wait for what takes so long."""
        if not self._place:
            yield
            return
        self._end()
        try:
            yield
        finally:
            self._begin()

    def steps(self) -> Callable[[], None]:
        """For what stands aside and begins now: a function to call after each of its steps.

        It leaves the processor to those whose turn it is, for no longer than FAIR times what the step took.
        """
        began = monotonic()

        def give_way() -> None:
            nonlocal began
            until = monotonic() + FAIR * (monotonic() - began)
            while self._queue.taken and not self._place and monotonic() < until:
                sleep(GLANCE)
            began = monotonic()

        return give_way

    def in_steps(self, parts: Iterable[T]) -> Iterator[T]:
        """The parts of what stands aside, one after the other; what is done with each is a step."""
        give_way = self.steps()
        for part in parts:
            yield part
            give_way()

    def pause(self, seconds: float) -> None:
        """Do nothing for so long, unless others wait for their turn."""
        if not self._queue.awaited:
            sleep(seconds)

    def _begin(self) -> None:
        self._here.place = self._queue.enter(due=self._here.due)
        self._here.since = monotonic()

    def _end(self) -> None:
        self._here.worked += monotonic() - self._here.since
        self._queue.leave(self._here.place)
        self._here.place = None

    @property
    def _place(self) -> Place | None:
        return getattr(self._here, "place", None)
