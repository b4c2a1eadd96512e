"""Captions of saved runs: what stands out in maps of two texts, what heads do on the run's text, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnviz.analysis.roles import Column, HeadScores, stand_out
from attnviz.figures.drawing import quoted
from attnviz.figures.head_captions import LONGEST_TOKEN, shortened
from attnviz.figures.numbers import printed
from attnviz.figures.role_captions import text_label
from attnviz.phrases import count

if TYPE_CHECKING:
    from attnviz.analysis.search import Found

ON_THIS_TEXT = (
    "Below each map: the keys that take most of the head's weight on this text, by which heads are sorted and "
    "filtered. Roles are named on repeated random tokens, which the model would have to read; a saved run has none."
)
HUE_PER_HEAD = "A hue per head."
LARGEST_OF_ALL = "The largest weight in the maps of all layers and heads."


def shown_by_weight(found: Found, labels: Sequence[str], key_labels: Sequence[str], n_heads: int) -> str:
    """Point to the largest weight in maps of two texts, in markdown."""
    query, key = (quoted(shortened(label, LONGEST_TOKEN)) for label in (labels[found.query], key_labels[found.key]))
    return (
        f"**Look at L{found.layer} H{found.head}**: query {found.query} {query} gives key {found.key} {key} a weight "
        f"of {printed(found.weight)}, the largest of {count(n_heads, 'head')}."
    )


def text_role(scores: HeadScores, column: Column | None) -> tuple[str, float | None, str]:
    """Return what a head does on the run's text, as a grid shows roles: a name, its share of the weight, a label."""
    label, out = text_label(scores, column), stand_out(scores, column)
    return (out[0][0], out[0][1].weight, label) if out else (label, None, label)
