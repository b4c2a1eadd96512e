"""A queue for work that is done one at a time: in the order of coming, and everybody knows how many are before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

PATIENCE = 0.3  # seconds that nobody notices


class Queue:
    """Whoever is first in it works; the others wait."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._line: list[object] = []

    @contextmanager
    def turn(self, tell: Callable[[int], object] = lambda before: None) -> Iterator[None]:
        """Run the block when it is our turn.

        Where that takes longer than PATIENCE, tell(how many are before us) is called, again every PATIENCE, and
        tell(0) at last. Whatever tell raises gives up the place: who has left keeps nobody waiting.
        """
        place = object()
        with self._changed:
            self._line.append(place)
        try:
            waited = False
            while before := self._before(place):
                tell(before)
                waited = True
            if waited:
                tell(0)
            yield
        finally:
            with self._changed:
                self._line.remove(place)
                self._changed.notify_all()

    def _before(self, place: object) -> int:
        """How many are before this place, told at once when it is none, and otherwise after PATIENCE."""
        with self._changed:
            self._changed.wait_for(lambda: self._line[0] is place, PATIENCE)
            return self._line.index(place)
