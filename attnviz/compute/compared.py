"""Two runs head by head: a saved run with another one, or with a model that reads its text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnviz.compute.view import View
from attnviz.figures.drawing import quoted
from attnviz.phrases import count

MARKS = str.maketrans("Ġ▁", "··")  # a space before a word, as tokenizers write it


def other_of(view: View, name: str) -> View:
    """Return what is compared: another saved run with its first kind of attention that is also this one's, or a model.

    A model reads the text of a saved run.
    """
    text = view.shown_text if view.settings.recorded else view.settings.text
    kind = view.saved.kind if view.saved else view.settings.run_kind
    return view.but(model=name, text=text, run_kind=kind, padding=0)


def why_not_subtracted(view: View, other: View) -> str:
    """Return why the weights of two runs are not subtracted, as a sentence; "" where their tokens are equal."""
    for what, first, second in (
        ("token", view.labels, other.labels),
        ("key token", view.key_labels, other.key_labels),
    ):
        if len(first) != len(second):
            return (
                f"The first has {count(len(first), what)}, the other {len(second):,}: weights on different tokens are "
                "not subtracted."
            )
        differ = [
            i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a.translate(MARKS) != b.translate(MARKS)
        ]
        if differ:
            i = differ[0]
            return (
                f"The texts differ in {count(len(differ), what)}, first in {i}: {quoted(first[i])} and "
                f"{quoted(second[i])}. Weights on different tokens are not subtracted."
            )
    return ""


@dataclass(frozen=True, eq=False)
class Difference:
    """Two maps of the same tokens, and how far apart the heads in the same place are in all layers that both have."""

    first: np.ndarray  # (T, S), 0 in rows that one of the two did not record
    second: np.ndarray
    allowed: np.ndarray  # (T, S): by either
    by_head: list[tuple[int, int, float]]  # layer, head, largest difference; the largest first


def difference(view: View, other: View, head: tuple[int, int], of_other: tuple[int, int]) -> Difference:
    """Compare a head of one run with a head of another on the same tokens, and all heads in the same place."""
    rows = _shared_rows(view, other)
    here, there = view.trace.layers[head[0]], other.trace.layers[of_other[0]]
    allowed = (here.allowed | there.allowed) & rows[:, None]
    first, second = here.shares[head[1]], there.shares[of_other[1]]  # (T, S) each
    kept = rows[:, None]
    return Difference(np.where(kept, first, 0), np.where(kept, second, 0), allowed, _by_head(view, other, rows))


def _by_head(view: View, other: View, rows: np.ndarray) -> list[tuple[int, int, float]]:
    found = []
    for i, (here, there) in enumerate(zip(view.trace.layers, other.trace.layers, strict=False)):
        for h in range(min(here.mixer.n_heads, there.mixer.n_heads)):
            apart = np.abs(here.shares[h] - there.shares[h])[rows]
            found.append((i, h, float(apart.max(initial=0.0))))
    return sorted(found, key=lambda each: -each[2])


def _shared_rows(view: View, other: View) -> np.ndarray:
    """Return which queries both have a row of, bool (T,)."""
    rows = np.zeros(len(view.ids), bool)
    both = range(max(view.rows.start, other.rows.start), min(view.rows.stop, other.rows.stop))
    rows[both.start : max(both.start, both.stop)] = True
    return rows
