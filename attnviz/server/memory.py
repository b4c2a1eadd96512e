"""Return freed memory to the system: settings of glibc's malloc and Python's garbage collector for many sessions.

Without it: freed memory stays in up to eight arenas per core, and forty sessions take 770 MB instead of 630 (`make
soak` prints the peak). Since glibc 2.10; can be removed when the app runs with another malloc. No upstream issue: glibc
works as designed.
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
MMAP_BYTES = (
    16 << 20
)  # from here on by mmap; with 256 KB a trace takes twice as long: mapped pages are zeroed when used
TRIM_BYTES = 32 << 20  # freed memory that may stay at the end of the heap for the next run
LARGE = 420_000_000  # bytes of RSS above which free memory inside the heap is returned too
GC_THRESHOLD = 5000  # new objects between two collections; Python's default is 700, and a page creates thousands
SECONDS = 0.5  # between two checks of the process's size
MIN_GROWTH = 4_000_000  # bytes since the last trim before the next one

_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def start() -> None:
    """Configure malloc and the garbage collector, and trim the heap from a thread while the process is large."""
    gc.set_threshold(GC_THRESHOLD)
    if not hasattr(_libc, "mallopt"):  # not glibc
        return
    for option, value in ((M_ARENA_MAX, 2), (M_MMAP_THRESHOLD, MMAP_BYTES), (M_TRIM_THRESHOLD, TRIM_BYTES)):
        _libc.mallopt(option, value)
    Thread(target=_trim_while_large, name="trim", daemon=True).start()


def _trim_while_large() -> None:
    trimmed_at = 0
    while True:
        time.sleep(SECONDS)
        if not gc.get_freeze_count() and "attnviz.trace" in sys.modules:
            gc.freeze()  # the collector passes over what is imported, and frees figures, which contain cycles, sooner
        size = psutil.Process().memory_info().rss
        if size > max(LARGE, trimmed_at + MIN_GROWTH):
            _libc.malloc_trim(0)
            trimmed_at = psutil.Process().memory_info().rss
        trimmed_at = min(trimmed_at, size)
