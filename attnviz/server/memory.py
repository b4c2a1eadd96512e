"""Memory of a server of many: what a run has freed goes back to the system, and does not add up over threads."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # <malloc.h> of glibc
MAPPED = 16 << 20  # bytes: an array of this size is mapped for itself. With 256 KB a trace takes twice as long: what is
# mapped is cleared page by page at its first touch
SPARE = 32 << 20  # bytes of freed memory that may wait at the end of the heap for the next run
ROOMY = 480_000_000  # bytes: above, what lies free in the middle of the heap goes back too
NEW_OBJECTS = 5000  # that Python makes before it looks for garbage among them
OFTEN = 0.5  # seconds: not more often than that, since it takes some milliseconds

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_looked = 0.0


def give_back_what_is_freed() -> None:
    """Settings of glibc's malloc, which otherwise keeps freed memory, in up to eight arenas for every core.

    And of Python's collector: what has been imported is looked through no more, so that figures, which refer to
    themselves, are found and freed soon after they were drawn; and it looks less often than after every 700 new
    objects, of which one page makes tens of thousands.
    """
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
    if hasattr(_libc, "mallopt"):  # not every libc has it
        for option, value in ((M_ARENA_MAX, 2), (M_MMAP_THRESHOLD, MAPPED), (M_TRIM_THRESHOLD, SPARE)):
            _libc.mallopt(option, value)


def trim_when_large() -> None:
    """Give back the holes in the heap where the process has grown large."""
    global _looked
    now = time.monotonic()
    if hasattr(_libc, "malloc_trim") and now - _looked > OFTEN:
        _looked = now
        if resident() > ROOMY:
            _libc.malloc_trim(0)


def resident() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
