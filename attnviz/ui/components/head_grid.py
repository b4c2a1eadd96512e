"""All layers x heads at once on one canvas: two bytes per weight, hover and arrow keys answered in the browser.

L layers, H query heads, T query tokens, S key tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attnviz.figures import theme
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within
from attnviz.ui.components.packed_weights import cells_of, message, ramp

MOST_CELLS = 128  # a side; a thumbnail has no more pixels than that
MOST_IN_ALL = 128 * MOST_CELLS**2  # of all heads: a thousand heads are drawn smaller
HTML = """
<div class="hg">
  <div class="tools"></div>
  <p class="read" aria-live="polite"></p>
  <div class="scroll"><div class="grid" role="grid" aria-label="Attention heads, a row for each layer"></div></div>
  <p class="legend"></p>
  <p class="scored"></p>
</div>
"""

_mount = declared("head_grid", HTML, "packed_weights", "head_zoom", "save_buttons")


def head_grid(
    weights: np.ndarray,
    allowed: np.ndarray,
    labels: Sequence[str],
    kv_head_of: Sequence[int],
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
    model: str = "",
    measures: Mapping[str, np.ndarray] | None = None,
    cells: Sequence[np.ndarray] = (),
) -> None:
    """Show every head of a model; `on_select(layer, head)` runs before the rerun that a click or Enter causes.

    Without on_select, a click is told to `head_view` in the browser: then its part of the page runs, and not this one.
    title: what a saved picture of it is called.
    weights (L, H, T, S) and allowed (L, T, S), as in a `Trace`; labels: T token labels, key_labels: S of them where the
    keys are another text's. kv_head_of: the KV head that each query head reads; kv_names: what to call the KV heads
    instead of "KV 0", "KV 1"; row_names: what to call the L rows where they are not layers.
    reads[layer][head]: what that head reads, where it is not the KV head of its column. roles[layer][head] =
    (role, score, both in words): the words are written under the map, to sort and filter by; no clear role has no
    score. measures: by name, (L, H) numbers to sort by, NaN where there is none.
    here[layer][head]: with roles, what the head does on this text. scored: a sentence on how both were found.
    cells: as `layer_cells` made them of each layer, if they are known; where they are fewer than the layers, those of
    the first layers are drawn, and `roles`, `here` and `measures` are of no more.
    model: whose maps these are, with the usual settings, where they do not follow the address; saved pictures say so.
    """
    n_rows = len(cells) or len(weights)
    header = {
        "layers": len(weights),  # of the whole grid, where its first ones are drawn
        "title": title,
        "asks": on_select is not None,
        "labels": [list(labels), list(labels if key_labels is None else key_labels)],
        "kv": list(kv_head_of),
        "kvNames": list(kv_names) if kv_names else [f"KV {k}" for k in range(max(kv_head_of) + 1)],
        "rows": list(row_names) if row_names else [f"Layer {layer}" for layer in range(n_rows)],
        "reads": reads,
        "selected": list(selected),
        "roles": roles,
        "here": here,
        "measures": {name: _numbers(values) for name, values in (measures or {}).items()},
        "scored": scored,
        "pinned": [list(p) for p in pinned],
        "model": model,
    }

    most = n_rows - 1, weights.shape[1] - 1  # the session keeps what the callback refers to: not the weights

    def chosen(sent: object) -> None:
        if on_select:  # or a browser has sent what it was not asked for
            on_select(*within(sent, 0, most))

    _mount(key=key, data=pack(weights, allowed, header, cells), on_select_change=on_event(key, "select", chosen))


def _numbers(values: np.ndarray) -> list[list[float | None]]:
    """Four decimals each; None for NaN, which JSON has not."""
    return [[None if math.isnan(v) else round(float(v), 4) for v in row] for row in values]


def layer_cells(weights: np.ndarray, allowed: np.ndarray, n_layers: int) -> np.ndarray:
    """One layer's cells (1, H, N, M), of weights (1, H, T, S) and allowed (1, T, S), for a grid of n_layers."""
    return cells_of(weights, allowed, min(MOST_CELLS, math.isqrt(MOST_IN_ALL // (n_layers * weights.shape[1]))))


def pack(weights: np.ndarray, allowed: np.ndarray, header: dict, cells: Sequence[np.ndarray] = ()) -> bytes:
    """The message for the browser: `header` with colours added, then the cells.

    weights (L, H, T, S) in 0..1, allowed (L, T, S) bool.
    """
    n_kv_heads = max(header["kv"]) + 1
    added = {
        "tokens": list(weights.shape[2:]),
        "ramps": {name: [ramp(k, n_kv_heads, name) for k in range(n_kv_heads)] for name in theme.RAMP_ENDS},
        "marks": [theme.kv_colour(k, n_kv_heads) for k in range(n_kv_heads)],
        "masked": list(theme.MASKED_RGBA),
    }
    L = len(weights)
    if not cells:  # a layer at a time
        cells = [layer_cells(weights[i : i + 1], allowed[i : i + 1], L) for i in range(L)]
    return message({**header, **added}, np.concatenate(cells))
