"""The text shaded by the weights of one query, and the next tokens predicted after it; hover runs in the browser.

T tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.characters import Span, marks, readable
from attnviz.runs.labels import are_spaced
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within
from attnviz.ui.components.packed_weights import cells_of, message

if TYPE_CHECKING:
    from attnviz.recorded import Sides

_mount = declared("text_view")


def text_view(
    weights: np.ndarray,
    allowed: np.ndarray,
    labels: Sequence[str],
    spans: Sequence[Span],
    next_tokens: Sequence[Sequence[tuple[str, float, str]]] | None,
    *,
    query: int,
    name: str,
    colour: str,
    key: str,
    on_query: Callable[[int], None],
    of: str = "weights",
    sides: Sides | None = None,
) -> None:
    """Show the text; `on_query(query)` runs after a token was clicked.

    weights and allowed (T, T) of one head, called `name`, in its `colour`; of: what its weights are called. labels: T
    token labels. spans: the tokens that together are one character, which is written once. next_tokens: for each of the
    T queries the most likely next tokens, their probabilities and, of a token that completes no character, a
    description; None for a saved run, which predicts none. sides: of a saved run. The text is then that of the keys.
    """
    likely = [label for row in next_tokens or () for label, *_ in row]
    header = {
        "labels": list(labels),
        "characters": [[start, stop, readable(text)] for start, stop, text in spans if stop - start > 1],
        "next": None if next_tokens is None else [[list(each) for each in row] for row in next_tokens],
        "query": query, "name": name, "mark": colour, "of": of,
        "marks": marks([*labels, *likely]),
        **(_of_run(sides) if sides else {}),
    }  # fmt: skip
    most = len(weights) - 1
    data = message(header, cells_of(weights[None, None], allowed[None], max(weights.shape)))
    _mount(
        key=key, data=data, on_query_change=on_event(key, "query", lambda sent: on_query(within(sent, 0, (most, 0))[0]))
    )


def _of_run(sides: Sides) -> dict:
    """Return what differs for a saved run: which queries it has, and their tokens where they are of another text."""
    asking = {"labels": sides.labels, "positions": sides.positions, "spaced": are_spaced(sides.labels)}
    rows = [sides.rows.start, sides.rows.stop]
    return {
        "positions": sides.key_positions,
        "rows": rows,
        "spaced": sides.spaced,
        **({"queries": asking} if sides.two_texts else {}),
    }
