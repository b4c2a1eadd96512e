"""Two columns of tokens joined by lines whose thickness is the weight, for several heads in their KV heads' hues.

All interaction (heads shown, share of weight shown, selected token) is handled in the browser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.figures import theme
from attnviz.ui.components.declared import declared
from attnviz.ui.components.packed_weights import cells_of, message

if TYPE_CHECKING:
    from attnviz.recorded import Sides

MAX_TOKENS = 256  # per side; more lines could not be distinguished

_mount = declared("line_view")


def line_view(
    weights: np.ndarray,
    allowed: np.ndarray,
    labels: Sequence[str],
    names: Sequence[str],
    kv_heads: Sequence[int],
    n_kv_heads: int,
    *,
    key: str,
    title: str = "",
    note: str = "",
    key_labels: Sequence[str] | None = None,
    reads: Sequence[str] | None = None,
    query: int = 0,
    sides: Sides | None = None,
) -> None:
    """Draw lines from T queries (left) to S keys (right) for the chosen heads.

    Of a text longer than `MAX_TOKENS`, its first tokens are drawn, or those up to `query` if it is later.

    weights and allowed: (H', T, S), one map per chosen head, from any layers; names and kv_heads: H' of each, such as
    "L1 H5" and the KV head it reads. title, note: plain text above it. labels: T token labels; key_labels: S labels if
    the keys are another text's. reads: H' names of what they read, by default "KV 0", "KV 1". sides: of a saved run,
    whose queries and keys are named by them; `query` is one of their rows.
    """
    if sides:
        weights, allowed = (array[:, sides.rows.start : sides.rows.stop] for array in (weights, allowed))
        labels, key_labels, query = sides.labels, sides.key_labels, query - sides.rows.start
    caption = {"title": title, "note": note, "reads": reads or [f"KV {k}" for k in kv_heads]}
    places = [sides.positions, sides.key_positions] if sides else None
    _mount(
        key=key, data=pack(weights, allowed, labels, names, kv_heads, n_kv_heads, caption, key_labels, query, places)
    )


def pack(
    weights: np.ndarray,
    allowed: np.ndarray,
    labels: Sequence[str],
    names: Sequence[str],
    kv_heads: Sequence[int],
    n_kv_heads: int,
    caption: Mapping[str, object],
    key_labels: Sequence[str] | None = None,
    query: int = 0,
    places: Sequence[Sequence[str]] | None = None,
) -> bytes:
    """Return the payload: `caption` in the header, weights (H', 1, T, S), T and S at most `MAX_TOKENS`.

    places: the positions of queries and of keys, if they are not their indices.
    """
    first = max(0, query + 1 - MAX_TOKENS)
    shown = [slice(start, start + MAX_TOKENS) for start in (first, 0 if key_labels else first)]
    cut = np.s_[:, None, *shown]
    keys = labels if key_labels is None else key_labels
    header = {
        **caption,
        "labels": [list(each[of]) for each, of in zip((labels, keys), shown, strict=True)],
        "first": [of.start for of in shown],
        "left": [max(0, len(each) - MAX_TOKENS) for each in (labels, keys)],
        **({"places": [list(each[of]) for each, of in zip(places, shown, strict=True)]} if places else {}),
        "names": list(names),
        "marks": [theme.kv_colour(k, n_kv_heads) for k in kv_heads],
    }
    return message(header, cells_of(weights[cut], allowed[cut][:, 0], MAX_TOKENS))
