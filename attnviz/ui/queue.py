"""Queues for work that is done one at a time, in the order of coming."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, local
from time import sleep

PATIENCE = 0.3  # seconds that nobody notices


class Queue:
    """Whoever is first in it works; the others wait, and know how many are before them."""

    def __init__(self) -> None:
        self._lock = Lock()
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
                tell(self._line.index(place))
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
            if self._line:
                self._line[0].set()

    @property
    def awaited(self) -> bool:
        """Whether anybody waits behind the one whose turn it is."""
        return len(self._line) > 1

    def _join(self) -> Event:
        place = Event()
        with self._lock:
            self._line.append(place)
            self._line[0].set()
        return place


class Turns:
    """Threads of a process that work one after the other instead of interrupting each other at every step.

    Python runs one thread at a time. A model gives that right away at each of its operations, and to have it back waits
    for as long as another thread cares to run: among forty, a trace of 10 ms takes a second.
    """

    def __init__(self) -> None:
        self._queue, self._here = Queue(), local()

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
