"""A picture whose patches are the keys: each as bright as the weight that a query gives it; hover runs in the browser.

T query tokens, S key tokens: those before the patches, such as CLS and registers, then the patches, row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from attnviz.ui.components.as_bytes import framed
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within
from attnviz.ui.components.packed_weights import STEPS, cells_of

if TYPE_CHECKING:
    from attnviz.recorded import Picture, Sides

MOST_PIXELS = 512  # per side: it is shown 460 pixels wide

_mount = declared("picture_view")


def picture_view(
    weights: np.ndarray,
    picture: Picture,
    sides: Sides,
    *,
    query: int,
    name: str,
    colour: str,
    key: str,
    on_query: Callable[[int], None],
) -> None:
    """Show the picture; `on_query(query)` runs after a patch was clicked, if the queries are patches too.

    weights (T, S) of one head, called `name`, in its `colour`.
    """
    most = len(weights) - 1

    def take(sent: object) -> None:
        on_query(within(sent, 0, (most, 0))[0])

    data = pack(weights, picture, sides, {"query": query, "name": name, "mark": colour})
    _mount(key=key, data=data, on_query_change=on_event(key, "query", take))


def pack(weights: np.ndarray, picture: Picture, sides: Sides, about: dict) -> bytes:
    """Return the payload: the header, the cells (1, 1, T, S), and the picture's pixels."""
    cells = cells_of(weights[None, None], np.ones((1, *weights.shape), bool), max(weights.shape))
    step = -(-max(picture.pixels.shape) // MOST_PIXELS)
    pixels = np.ascontiguousarray(picture.pixels[::step, ::step])
    header = {
        **about,
        "labels": sides.key_labels, "positions": sides.key_positions, "asks": not sides.two_texts,
        "queries": {"labels": sides.labels, "positions": sides.positions} if sides.two_texts else None,
        "patches": list(picture.patches), "before": picture.n_before, "picture": list(pixels.shape[:2]),
        "shape": list(cells.shape), "steps": STEPS,
    }  # fmt: skip
    return framed(header, cells.tobytes(), pixels.tobytes())
