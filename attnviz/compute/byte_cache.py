"""A cache bounded by the bytes of what it keeps, shared by all sessions.

Streamlit's own bounds the number of entries, and one trace can take a thousand times the memory of another; its
data cache bounds bytes, but copies every value on every read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Protocol

from attnviz.compute.queue import Queue


class Sized(Protocol):
    nbytes: int


class ByteCache:
    """Least recently used out first. What is being computed is computed once, however many ask.

    The newest stays even if it is larger than the bound, alone, or every look at it would compute it again.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, Sized] = OrderedDict()
        self._lock, self._queue = Lock(), Queue()

    def get(
        self, key: Hashable, compute: Callable[[], Sized], tell: Callable[[int], object] = lambda before: None
    ) -> Sized:
        """The value kept under key, or what compute() gives, kept from now on.

        tell is told how many computations are before this one where it has to wait for them.
        """
        if (found := self.find(key)) is not None:
            return found
        with self._queue.turn(tell):  # one at a time: two at once would take twice the memory and no less time
            if (found := self.find(key)) is not None:
                return found
            value = compute()
            self._keep(key, value)
            return value

    def find(self, key: Hashable) -> Sized | None:
        """What is kept under key, if anything is."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    @property
    def nbytes(self) -> int:
        """Bytes kept now."""
        with self._lock:
            return sum(entry.nbytes for entry in self._entries.values())

    def _keep(self, key: Hashable, value: Sized) -> None:
        with self._lock:
            self._entries[key] = value
            total = sum(entry.nbytes for entry in self._entries.values())
            while total > self.max_bytes and len(self._entries) > 1:
                total -= self._entries.popitem(last=False)[1].nbytes
