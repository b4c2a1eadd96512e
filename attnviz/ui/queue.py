"""Queues for work that is done one at a time, in the order of coming."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, local
from time import sleep

PATIENCE = 0.3  # seconds that nobody notices


class Queue:
    """The first in it work, one or `at_once`; the others wait, and know how many are before them."""

    def __init__(self, at_once: int = 1) -> None:
        self._lock, self._at_once = Lock(), at_once
        self._line: list[Event] = []  # each set when its turn has come

    @contextmanager
    def turn(self, tell: Callable[[int], object] = lambda before: None) -> Iterator[None]:
        """Run the block when it is our turn; tell as for `enter`."""
        place = self.enter(tell)
        try:
            yield
        finally:
            self.leave(place)

    def enter(self, tell: Callable[[int], object] = lambda before: None) -> Event:
        """Wait for our turn; the place that is to be left afterwards.

        Where that takes longer than PATIENCE, tell(how many are before us) is called, again every PATIENCE, and
        tell(0) at last. Whatever tell raises gives up the place: who has left keeps nobody waiting.
        """
        place, waited = self._join(), False
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

    def leave(self, place: Event) -> None:
        """Let the next one work."""
        with self._lock:
            self._line.remove(place)
            self._call()

    @property
    def awaited(self) -> bool:
        """Whether anybody waits behind those whose turn it is."""
        return len(self._line) > self._at_once

    def _join(self) -> Event:
        place = Event()
        with self._lock:
            self._line.append(place)
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
    """

    def __init__(self, at_once: int = 1) -> None:
        self._queue, self._here = Queue(at_once), local()

    @contextmanager
    def mine(self) -> Iterator[None]:
        """Run the block when it is this thread's turn; a block inside another belongs to the same turn."""
        if self._place:
            yield
            return
        self._here.place = self._queue.enter()
        try:
            yield
        finally:
            self._queue.leave(self._here.place)
            self._here.place = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Give up the turn for the block, and take another after it: nobody should wait for what takes so long."""
        if not self._place:
            yield
            return
        self._queue.leave(self._here.place)
        self._here.place = None
        try:
            yield
        finally:
            self._here.place = self._queue.enter()

    def pause(self, seconds: float) -> None:
        """Do nothing for so long, unless others wait for their turn."""
        if not self._queue.awaited:
            sleep(seconds)

    @property
    def _place(self) -> Event | None:
        return getattr(self._here, "place", None)
