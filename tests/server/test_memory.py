"""pytest tests/test_memory.py: what is freed goes back, but nobody waits for it where there is room."""

import os
import subprocess
import sys

import numpy as np
import pytest

from attnviz.server import memory

HOLES = """
import ctypes
from attnviz.server import memory
memory.give_back_what_is_freed()
blocks = [bytearray(1 << 20) for _ in range(100)]  # in the heap, since they are smaller than what is mapped for itself
kept = blocks[1::2]
full = memory.resident()
del blocks
holes = memory.resident()
memory.ROOMY = holes - 1
memory.trim_when_large()
print(full - holes, holes - memory.resident(), len(kept))
"""


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the C library is told, on a clock that stands still at a hundred seconds."""
    told = []

    class Library:
        def malloc_trim(self, spare: int) -> None:
            told.append(spare)

    monkeypatch.setattr(memory, "_libc", Library())
    monkeypatch.setattr(memory, "_looked", 0.0)
    monkeypatch.setattr(memory.time, "monotonic", lambda: 100.0)
    return told


def test_the_memory_held_is_that_of_this_process():
    before = memory.resident()
    array = np.ones(80_000_000, np.uint8)
    assert 75_000_000 < memory.resident() - before < 90_000_000 and array.all()


def test_a_small_process_is_left_alone(trims, monkeypatch):
    monkeypatch.setattr(memory, "resident", lambda: memory.ROOMY)
    memory.trim_when_large()
    assert trims == []


def test_a_large_one_is_trimmed_but_not_for_every_run(trims, monkeypatch):
    monkeypatch.setattr(memory, "resident", lambda: memory.ROOMY + 1)
    memory.trim_when_large()
    memory.trim_when_large()
    assert trims == [0]
    monkeypatch.setattr(memory.time, "monotonic", lambda: 100.0 + 1.01 * memory.OFTEN)
    memory.trim_when_large()
    assert trims == [0, 0]


def test_holes_between_what_is_kept_go_back_to_the_system():
    said = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True).stdout
    by_itself, by_trimming, n_kept = map(int, said.split())
    assert n_kept == 50 and by_itself < 10e6 and by_trimming > 40e6


def test_numpy_multiplies_without_a_thread_that_waits_by_spinning():
    """Counted in a process that is told nothing: this one has imported the pages, and hands on what they set."""
    code = "import os, attnviz.compute.models, numpy as np; a = np.ones((600, 600)); a @ a"
    code += "; print(len(os.listdir('/proc/self/task')))"
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert said.stdout == "1\n"
