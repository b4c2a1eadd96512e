"""Similarity of the keys or values that a saved run carries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnviz.figures.drawing import Drawing
from attnviz.figures.group_quality import cosine_figure
from attnviz.phrases import count, written


def similarity(cosine: NDArray, part: str, layer: int, what: str) -> Drawing:
    """Draw cosines (n, n) between the "keys" or "values" of a layer's heads. what: "head" or "KV head"."""
    n, figure = len(cosine), cosine_figure(cosine, what)
    title, best = f"One {what}: nothing to compare", ""
    if n > 1:
        others = np.where(np.eye(n, dtype=bool), -np.inf, cosine)
        a, b = sorted(map(int, np.unravel_index(int(others.argmax()), others.shape)))
        title = f"The {part} of {what}s {a} and {b} are most similar: cosine {written(cosine[a, b], '.2f')}"
        best = f"; the largest between two of them is {written(cosine[a, b], '.2f')}, of {a} and {b}"
    return Drawing(
        figure,
        title=title,
        note=f"Cosine similarity of the {part} that this run carries of the {count(n, what)} of layer {layer}.",
        more=f"Each {what}'s {part} on this text are taken as one vector. The cosines depend on the basis of each "
        "head, which is arbitrary, so a low one does not show different content.",
        alt=f"A map of {count(n * n, 'cosine')} between the {part} of {count(n, what)}{best}.",
        table={
            what: [i for i in range(n) for _ in range(n)],
            f"other {what}": [j for _ in range(n) for j in range(n)],
            "cosine": [float(x) for x in cosine.ravel()],
        },
    )
