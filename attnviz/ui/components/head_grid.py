"""All layers x heads at once on small canvases: one byte a weight, hover and arrow keys answered in the browser.

A message is [u32 length of the header, little-endian][header as JSON][cells as uint8]. A cell is the square root of a
weight, since most weights of a long text would round to zero on a linear scale; 255 is kept for "not allowed".

L layers, H query heads, T query tokens, S key tokens; N x M is what is left of T x S after pooling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import streamlit as st

from attnviz.figures import theme
from attnviz.figures.blocks import pool

HERE = Path(__file__).parent
NOT_ALLOWED = 255
STEPS = 254  # the byte of weight 1
MOST_CELLS = 128  # a side; a thumbnail has no more pixels than that
RAMP_STOPS = 17
HTML = (
    '<div class="hg"><div class="tools"></div><p class="read" aria-live="polite"></p>'
    '<div class="scroll"><div class="grid" role="grid"></div></div><p class="legend"></p></div>'
)

_mount = st.components.v2.component(
    "head_grid",
    html=HTML,
    css=(HERE / "head_grid.css").read_text(encoding="utf-8"),
    js=(HERE / "head_grid.js").read_text(encoding="utf-8"),
)


def head_grid(
    weights: np.ndarray,
    allowed: np.ndarray,
    labels: Sequence[str],
    kv_head_of: Sequence[int],
    *,
    key: str,
    selected: tuple[int, int],
    on_select: Callable[[int, int], None],
    key_labels: Sequence[str] | None = None,
    kv_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    roles: Sequence[Sequence[tuple[str, float]]] | None = None,
    pinned: Sequence[tuple[int, int]] = (),
) -> None:
    """Show every head of a model; `on_select(layer, head)` runs before the rerun that a click or Enter causes.

    weights (L, H, T, S) and allowed (L, T, S), as in a `Trace`; labels: T token labels, key_labels: S of them where the
    keys are another text's. kv_head_of: the KV head that each query head reads; kv_names: what to call the KV heads
    instead of "KV 0", "KV 1"; row_names: what to call the L rows where they are not layers. roles[layer][head] =
    (role, score): written under the map, to sort and filter by.
    """
    header = {
        "labels": [list(labels), list(labels if key_labels is None else key_labels)],
        "kv": list(kv_head_of),
        "kvNames": list(kv_names) if kv_names else [f"KV {k}" for k in range(max(kv_head_of) + 1)],
        "rows": list(row_names) if row_names else [f"Layer {layer}" for layer in range(len(weights))],
        "selected": list(selected),
        "roles": roles,
        "pinned": [list(p) for p in pinned],
    }

    def chosen() -> None:
        layer, head = _inside(st.session_state[key].select, weights.shape[:2])
        on_select(layer, head)

    _mount(key=key, data=pack(weights, allowed, header), on_select_change=chosen)


def _inside(choice: object, shape: tuple[int, ...]) -> tuple[int, int]:
    """The (layer, head) a browser sent, kept within what there is: a browser can send anything."""
    try:
        layer, head = (int(number) for number in choice)
    except (TypeError, ValueError, OverflowError):
        return 0, 0
    return min(max(layer, 0), shape[0] - 1), min(max(head, 0), shape[1] - 1)


def pack(weights: np.ndarray, allowed: np.ndarray, header: dict) -> bytes:
    """The message for the browser: `header` with shapes and colours added, then the cells of `quantise`.

    weights (L, H, T, S) in 0..1, allowed (L, T, S) bool. Where nothing above the diagonal is allowed, those cells are
    left out, which halves the message.
    """
    cells = quantise(weights, allowed)  # (L, H, N, M)
    rows, columns = cells.shape[2:]
    lower = np.tri(rows, columns, dtype=bool)
    triangle = bool((cells[..., ~lower] == NOT_ALLOWED).all())
    n_kv_heads = max(header["kv"]) + 1
    added = {
        "shape": list(cells.shape),
        "tokens": list(weights.shape[2:]),
        "triangle": triangle,
        "ramps": {name: [_ramp(k, n_kv_heads, name) for k in range(n_kv_heads)] for name in theme.RAMP_ENDS},
        "marks": [theme.kv_colour(k, n_kv_heads) for k in range(n_kv_heads)],
        "masked": list(theme.MASKED_RGBA),
    }
    text = json.dumps({**header, **added}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    body = cells[..., lower] if triangle else cells
    return len(text).to_bytes(4, "little") + text + body.tobytes()


def _ramp(kv_head: int, n_kv_heads: int, name: str) -> list[list[int]]:
    return theme.kv_ramp(kv_head, n_kv_heads, name)[np.linspace(0, 255, RAMP_STOPS).round().astype(int)].tolist()


def quantise(weights: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """weights (L, H, T, S) and allowed (L, T, S) -> uint8 (L, H, N, M), N and M at most `MOST_CELLS`.

    A cell is round(254 * sqrt(largest weight of its block)), so the weight read back is at most sqrt(weight) / 254 off;
    255 where no pair of the block is allowed.
    """
    largest = pool(weights, np.maximum, MOST_CELLS)  # (L, H, N, M)
    cells = np.rint(STEPS * np.sqrt(largest.clip(0, 1))).astype(np.uint8)
    some_allowed = pool(allowed, np.logical_or, MOST_CELLS)[:, None]  # (L, 1, N, M)
    return np.where(some_allowed, cells, np.uint8(NOT_ALLOWED))
