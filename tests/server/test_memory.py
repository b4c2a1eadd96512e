"""Freed memory is returned to the system."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HOLES = """
import psutil, time
from attnviz.server import memory
memory.SECONDS, memory.LARGE = 0.01, 10**12  # nothing is large yet
memory.start()
size = lambda: psutil.Process().memory_info().rss
blocks = [bytearray(1 << 20) for _ in range(100)]  # smaller than MMAP_BYTES, so allocated in the heap
held = blocks[1::2]
full = size()
del blocks
time.sleep(0.2)
holes = size()
memory.LARGE = holes - 1
time.sleep(0.5)
print(full - holes, holes - size(), len(held))
"""


def run(code: str, **env: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env or None
    ).stdout


def test_holes_between_what_is_held_go_back_to_the_system_where_the_process_is_large():
    by_itself, by_trimming, n_held = map(int, run(HOLES).split())
    assert n_held == 50 and by_itself < 10e6 and by_trimming > 40e6


def test_numpy_multiplies_without_a_thread_that_waits_by_spinning():
    """Counted in a process without OPENBLAS_NUM_THREADS, which this process has set and would pass on."""
    code = "import gc; gc.disable(); import os, attnviz.compute, numpy as np; a = np.ones((600, 600)); a @ a"
    code += "; print(len(os.listdir('/proc/self/task')))"
    assert run(code, **{k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}) == "1\n"
