"""Seeded questions on live tensors, configurations and published models, graded by computing the answer."""

from attnviz.practice.drills import cost, decoding, heads, linear, lines, maps, masks, rope, serving, shapes
from attnviz.practice.drills.question import KINDS, LEVELS, Kind, Question, kinds_of, make
from attnviz.practice.drills.sets import Progress, question_set, score_card

__all__ = [
    "KINDS", "LEVELS", "Kind", "Progress", "Question", "cost", "decoding", "heads", "kinds_of", "linear", "lines",
    "make", "maps", "masks", "question_set", "rope", "score_card", "serving", "shapes",
]  # fmt: skip
