"""Seeded questions on live tensors, configurations and published models, graded by computing the answer."""

from attnviz.practice.drills import (
    caches,
    cost,
    decoding,
    extension,
    heads,
    latent,
    linear,
    lines,
    maps,
    masks,
    parallel,
    rope,
    serving,
    shapes,
    speed,
    windows,
)
from attnviz.practice.drills.question import KINDS, LEVELS, Kind, Question, kinds_of, make
from attnviz.practice.drills.sets import Progress, question_set, score_card

__all__ = [
    "KINDS", "LEVELS", "Kind", "Progress", "Question", "caches", "cost", "decoding", "extension", "heads", "kinds_of",
    "latent", "linear", "lines", "make", "maps", "masks", "parallel", "question_set", "rope", "score_card", "serving",
    "shapes", "speed", "windows",
]  # fmt: skip
