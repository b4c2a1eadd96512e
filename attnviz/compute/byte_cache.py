"""A cache bounded by the bytes of what it holds, shared by all sessions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Protocol, TypeVar

from cachetools import LRUCache

from attnviz.compute.queue import Turns


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


class ByteCache:
    """Least recently used out first; what several ask for is computed once, and one computation runs at a time.

    What is larger than the bound is held alone: computed again at each look it would cost more.
    """

    def __init__(self, max_bytes: int) -> None:
        self._entries: LRUCache = LRUCache(max_bytes, getsizeof=lambda value: min(value.nbytes, max_bytes))
        self._lock, self._turns = Lock(), Turns()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value cached under key, or compute and cache it."""
        if (found := self.find(key)) is not None:
            return found
        with self._turns.turn():  # two at once would take twice the memory and no less time
            if (found := self.find(key)) is not None:
                return found
            value = compute()
            with self._lock:
                self._entries[key] = value
            return value

    def find(self, key: Hashable) -> Any:
        """Return the value cached under key, or None."""
        with self._lock:
            return self._entries.get(key)

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        with self._lock:
            return int(self._entries.currsize)
