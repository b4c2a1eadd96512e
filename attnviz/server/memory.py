"""Give freed memory back to the system: glibc's malloc and Python's collector, set for a server of many.

Without it: freed memory stays in up to eight arenas per core, and forty people take 770 MB instead of 630 (`make soak`
says the peak). Since glibc 2.10; may go when the app runs with another malloc. No issue upstream: this is how glibc is
meant to work.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from threading import Thread
from typing import Any

import psutil

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # <malloc.h> of glibc
MAPPED = 16 << 20  # bytes: an array of this size is mapped for itself. With 256 KB a trace takes twice as long: what is
# mapped is cleared page by page at its first touch
SPARE = 32 << 20  # bytes of freed memory that may wait at the end of the heap for the next run
LARGE = 420_000_000  # bytes: above, what lies free in the middle of the heap goes back too
NEW_OBJECTS = 5000  # that Python makes before it looks for garbage among them
SECONDS = 0.5  # from one look at the process's size to the next
GROWN = 4_000_000  # bytes since the last trim that make another worth its milliseconds

_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def start() -> None:
    """Set malloc and the collector, and trim the heap from a thread while the process is large.

    What has been imported is looked through no more, so that figures, which refer to themselves, are freed soon after
    they were drawn; and the collector runs less often than after every 700 new objects, of which a page makes tens of
    thousands.
    """
    gc.set_threshold(NEW_OBJECTS)
    if not hasattr(_libc, "mallopt"):  # not every libc has it
        return
    for option, value in ((M_ARENA_MAX, 2), (M_MMAP_THRESHOLD, MAPPED), (M_TRIM_THRESHOLD, SPARE)):
        _libc.mallopt(option, value)
    Thread(target=_trim_while_large, name="trim", daemon=True).start()


def _trim_while_large() -> None:
    trimmed_at, frozen = 0, False
    while True:
        time.sleep(SECONDS)
        if not frozen and "attnviz.trace" in sys.modules:
            gc.freeze()
            frozen = True
        size = psutil.Process().memory_info().rss
        if size > max(LARGE, trimmed_at + GROWN):
            _libc.malloc_trim(0)
            trimmed_at = psutil.Process().memory_info().rss
        trimmed_at = min(trimmed_at, size)
