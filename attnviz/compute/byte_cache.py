"""An LRU cache with a limit in bytes, shared by all sessions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
from cachetools import LRUCache

from attnviz.compute.queue import QueueSemaphore


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


class ArrayList(list[np.ndarray]):
    """Arrays, such as one for each layer, with their size in bytes."""

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)


class ByteCache:
    """Thread-safe LRU cache; concurrent requests for one key compute it once, and one computation runs at a time.

    A value larger than the limit is cached alone: recomputing it for each access would cost more.
    """

    def __init__(self, max_bytes: int) -> None:
        self._entries: LRUCache = LRUCache(max_bytes, getsizeof=lambda value: min(value.nbytes, max_bytes))
        self._lock, self._semaphore = Lock(), QueueSemaphore()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value cached under key, or compute and cache it."""
        if (found := self.find(key)) is not None:
            return found
        with self._semaphore.slot():  # two computations at once would double the memory and save no time
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
        """Size of the cached values in bytes."""
        with self._lock:
            return int(self._entries.currsize)
