"""Semaphores that limit concurrent work and report their queue position to callers that wait."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import BoundedSemaphore, Lock

REPORT_EVERY = 0.3  # seconds; shorter waits are not reported
WaitCallback = Callable[[int], object]  # called with the number of callers ahead; with 0 once the wait is over


def _ignore_wait(n_ahead: int) -> None:
    pass


ON_WAIT: ContextVar[WaitCallback] = ContextVar("on_wait", default=_ignore_wait)  # shows the wait on the page that runs


ProgressCallback = Callable[[float], object]  # called with the share of a computation that is done


def _ignore_progress(done: float) -> None:
    pass


# Shows how far a computation of seconds is.
ON_PROGRESS: ContextVar[ProgressCallback] = ContextVar("on_progress", default=_ignore_progress)


def counted(n: int) -> Callable[[], None]:
    """Return a function to call after each of n steps, which reports the share done to `ON_PROGRESS`.

    It raises Interrupted if the session has requested a rerun: the result is then not cached.
    """
    report, steps = ON_PROGRESS.get(), itertools.count(1)

    def step() -> None:
        report(next(steps) / n)
        if rerun_requested():
            raise Interrupted

    return step


class Interrupted(Exception):
    """A computation stopped early because its session has requested a rerun."""


def _never() -> bool:
    return False


rerun_requested: Callable[[], bool] = _never  # replaced by attnviz.server.preempt


class QueueSemaphore:
    """A semaphore that counts its waiting callers."""

    def __init__(self, at_once: int = 1) -> None:
        self._free, self._lock, self._waiting = BoundedSemaphore(at_once), Lock(), 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Acquire the semaphore for the block; a wait longer than REPORT_EVERY is reported to `ON_WAIT`."""
        self._enter(ON_WAIT.get())
        try:
            yield
        finally:
            self._free.release()

    def _enter(self, on_wait: WaitCallback) -> None:
        if self._free.acquire(blocking=False):
            return
        with self._lock:
            ahead, self._waiting = self._waiting + 1, self._waiting + 1  # the waiting callers and one that works
        try:
            waited = False
            while not self._free.acquire(timeout=REPORT_EVERY):
                on_wait(min(ahead, self._waiting))
                waited = True
        finally:
            with self._lock:
                self._waiting -= 1
        if waited:
            on_wait(0)


# Fragments of all sessions: one thread computes while another runs Python.
FRAGMENT_SEMAPHORE = QueueSemaphore(at_once=2)
