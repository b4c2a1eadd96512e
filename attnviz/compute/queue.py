"""Work of which little runs at once: who waits learns how many are before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import BoundedSemaphore, Lock

PATIENCE = 0.3  # seconds that nobody notices
Tell = Callable[[int], object]  # is given how many are before; 0 once the wait is over


def _say_nothing(before: int) -> None:
    pass


TELL: ContextVar[Tell] = ContextVar("tell", default=_say_nothing)  # what the page that runs says while it waits


class Interrupted(Exception):
    """A computation was ended early, since its session has asked for something else."""


def _never() -> bool:
    return False


wanted_elsewhere: Callable[[], bool] = _never  # replaced where the server can tell


class Turns:
    """A semaphore that counts who waits."""

    def __init__(self, at_once: int = 1) -> None:
        self._free, self._lock, self._waiting = BoundedSemaphore(at_once), Lock(), 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Run the block when one of the places is free; `TELL` hears of a wait longer than PATIENCE."""
        self._enter(TELL.get())
        try:
            yield
        finally:
            self._free.release()

    def _enter(self, tell: Tell) -> None:
        if self._free.acquire(blocking=False):
            return
        with self._lock:
            before, self._waiting = self._waiting + 1, self._waiting + 1  # those who wait, and one who works
        try:
            waited = False
            while not self._free.acquire(timeout=PATIENCE):
                tell(min(before, self._waiting))
                waited = True
        finally:
            with self._lock:
                self._waiting -= 1
        if waited:
            tell(0)


PARTS = Turns(at_once=2)  # parts of pages, of all sessions: one thread computes while another runs Python
