"""Grid of all layers x heads on one canvas: two bytes per weight; hover and arrow keys are handled in the browser.

L layers, H query heads, T query tokens, S key tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnviz.analysis.layers import Arrays, Rows
from attnviz.analysis.roles import SPECIFIC
from attnviz.figures import theme
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within
from attnviz.ui.components.packed_weights import MASKED, STEPS, below_zero, cells_of, message

if TYPE_CHECKING:
    from attnviz.recorded import Sides

MAX_CELLS = 128  # per side of a head's map; a thumbnail has no more pixels
MAX_TOTAL_CELLS = 128 * MAX_CELLS**2  # of all heads: the maps of a thousand heads have lower resolution

_mount = declared("head_grid")


def head_grid(
    weights: Arrays,
    allowed: Arrays,
    labels: Sequence[str],
    kv_head_of: Sequence[int] | Sequence[Sequence[int]],
    *,
    key: str,
    selected: tuple[int, int],
    on_select: Callable[[int, int], None] | None = None,
    title: str = "",
    key_labels: Sequence[str] | None = None,
    kv_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    reads: Sequence[Sequence[str]] | None = None,
    roles: Sequence[Sequence[tuple[str, float | None, str]]] | None = None,
    here: Sequence[Sequence[str]] | None = None,
    scored: str = "",
    pinned: Sequence[tuple[int, int]] = (),
    measures: Mapping[str, np.ndarray] | None = None,
    cells: Sequence[np.ndarray] = (),
    positions: Sequence[str] | None = None,
    sides: Sides | None = None,
    masks: bool = True,
) -> None:
    """Show every head of a model; `on_select(layer, head)` runs as the callback of a click or Enter.

    Without on_select, a click dispatches a DOM event to `head_view`, so that only the head's part of the page reruns.
    title: title of a saved picture.
    weights: (H, T, S) for each of L layers, allowed: (T, S); labels: T token labels; key_labels: S labels if the keys
    are another text's. kv_head_of: the KV head that each query head reads, in all layers or in each; kv_names: names of
    the KV heads, by default "KV 0", "KV 1"; row_names: names of the L rows if they are not layers.
    reads[layer][head]: what that head reads, if not the KV head of its column. roles[layer][head] = (role, score,
    text): the text is under the map; heads can be sorted and filtered by role; score is None without a clear role.
    measures: {name: (L, H) numbers to sort by, NaN for missing ones}.
    here[layer][head]: with roles, what the head does on this text. scored: a sentence on how both were computed.
    cells: the output of `layer_cells` for each layer, if available; if they are fewer than the layers, only these first
    layers are drawn, and `roles`, `here` and `measures` cover no more.
    positions: with merged maps (`analysis/merging.py`), the tokens of each row and column: "4–6".
    sides: of a saved run, the rows that are drawn, and what rows and columns are called. masks: whether cells can be
    masked, which the legend then says.
    """
    n_rows = len(cells) or len(weights)
    header = {
        "layers": len(weights),  # of the whole grid, of which only the first may be drawn
        "title": title,
        "asks": on_select is not None,
        "labels": [sides.labels, sides.key_labels] if sides else [[*labels], [*(key_labels or labels)]],
        "kv": list(kv_head_of),
        "kvNames": [*kv_names] if kv_names is not None else [f"KV {k}" for k in range(int(np.max(kv_head_of)) + 1)],
        "rows": list(row_names) if row_names else [f"Layer {layer}" for layer in range(n_rows)],
        "reads": reads,
        "selected": list(selected),
        "roles": roles,
        "dotted": list(SPECIFIC),
        "here": here,
        "measures": {name: _numbers(values) for name, values in (measures or {}).items()},
        "scored": scored,
        "masks": masks,
        "pinned": [list(p) for p in pinned],
        "positions": list(positions) if positions else None,
        "merged": positions is not None,
        **({"positions": sides.positions, "keys": {"positions": sides.key_positions}} if sides else {}),
    }
    if sides and len(sides.rows) < len(allowed[0]):
        weights, allowed = Rows(weights, sides.rows), Rows(allowed, sides.rows)

    most = n_rows - 1, np.shape(kv_head_of)[-1] - 1  # the session stores the callback: it must not hold the weights

    def chosen(sent: object) -> None:
        if on_select:  # a browser could send the event without being asked
            on_select(*within(sent, 0, most))

    _mount(key=key, data=pack(weights, allowed, header, cells), on_select_change=on_event(key, "select", chosen))


def _numbers(values: np.ndarray) -> list[list[float | None]]:
    """Round to four decimals; None for NaN, which JSON does not have."""
    return [[None if math.isnan(v) else round(float(v), 4) for v in row] for row in values]


def layer_cells(weights: np.ndarray, allowed: np.ndarray, n_layers: int) -> np.ndarray:
    """Return one layer's cells (1, H, N, M) from weights (H, T, S) and allowed (T, S), for a grid of n_layers."""
    most = min(MAX_CELLS, math.isqrt(MAX_TOTAL_CELLS // (n_layers * len(weights))))
    return cells_of(weights[None], allowed[None], most)


def pack(weights: Arrays, allowed: Arrays, header: dict, cells: Sequence[np.ndarray] = ()) -> bytes:
    """Return the payload for the browser: `header` with colours added, then the cells.

    weights: (H, T, S) in 0..1 for each of L layers, allowed: (T, S) bool.
    """
    n_kv_heads = int(np.max(header["kv"])) + 1
    added: dict = {
        "tokens": list(allowed[0].shape),
        "ramps": theme.ramps(range(n_kv_heads), n_kv_heads),
        "marks": theme.kv_palette(n_kv_heads),
        "masked": list(theme.MASKED_RGBA),
    }
    if not cells:  # layer by layer, to limit memory
        cells = [layer_cells(*layer, len(weights)) for layer in zip(weights, allowed, strict=True)]
    signed = [layer.max(initial=0) > MASKED for layer in cells]  # effective weights: colours end at their largest size
    added |= {
        "tops": [
            _largest_size(layer) if has_negative else 1.0 for layer, has_negative in zip(cells, signed, strict=True)
        ],
        "below": below_zero() if any(signed) else None,
    }
    return message({**header, **added}, np.concatenate(cells))


def _largest_size(cells: np.ndarray) -> float:
    """Return the largest size of the weights in these cells, at least one step."""
    sizes = np.where(cells > MASKED, cells - MASKED, np.where(cells == MASKED, 0, cells))
    return max(int(sizes.max()), 1) / STEPS
