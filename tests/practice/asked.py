"""Questions made once for all tests of a process: for its kind and seed a question is always the same."""

from functools import cache

from attnviz.practice import drills
from attnviz.practice.drills import Question

SHARED = 100  # seeds that several tests go through: 11,000 questions take 43 MB


def make(name: str, seed: int) -> Question:
    """Return the question of this kind and seed."""
    return _made(name, seed) if seed < SHARED else drills.make(name, seed)


@cache
def _made(name: str, seed: int) -> Question:
    return drills.make(name, seed)
