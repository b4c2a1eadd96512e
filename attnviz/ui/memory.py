"""Memory of a server of many: what a run has freed goes back to the system, and does not add up over threads."""

from __future__ import annotations

import ctypes
import gc
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # <malloc.h> of glibc
MAPPED = 16 << 20  # bytes: an array of this size is mapped for itself. With 256 KB a trace takes twice as long: what is
# mapped is cleared page by page at its first touch
SPARE = 2 << 20  # bytes of freed memory that may wait for the next run


def give_back_what_is_freed() -> None:
    """Settings of glibc's malloc, which otherwise keeps freed memory, in up to eight arenas for every core.

    And of Python's collector: what has been imported is looked through no more, so that figures, which refer to
    themselves, are found and freed soon after they were drawn.
    """
    gc.freeze()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(libc, "mallopt"):  # not every libc has it
        for option, value in ((M_ARENA_MAX, 2), (M_MMAP_THRESHOLD, MAPPED), (M_TRIM_THRESHOLD, SPARE)):
            libc.mallopt(option, value)
