"""Weights as a message for the browser, a byte or two each; `packed_weights.js` reads it and goes before each
component's own script.

A message is [u32 length of the header, little-endian][header as JSON][cells as uint8 or little-endian uint16]. A cell
is the square root of a weight, since most weights of a long text would round to zero on a linear scale; the largest
number there is is kept for "not allowed".

L layers (or rows of the caller's own), H heads, T query tokens, S key tokens; N x M is what is left of T x S.
"""

from __future__ import annotations

import json

import numpy as np

from attnviz.figures import theme
from attnviz.figures.blocks import pool

STEPS, FINE_STEPS = 254, 65534  # the number of weight 1, in a byte and in two; the next one says "not allowed"
NOT_ALLOWED = STEPS + 1
RAMP_STOPS = 17


def quantise(weights: np.ndarray, allowed: np.ndarray, most_cells: int, steps: int = STEPS) -> np.ndarray:
    """weights (L, H, T, S) and allowed (L, T, S) -> (L, H, N, M), N and M at most `most_cells`.

    A cell is round(steps * sqrt(largest weight of its block)), so the weight read back is at most sqrt(weight) / steps
    off; steps + 1 where no pair of the block is allowed. uint8, or uint16 where steps is FINE_STEPS.
    """
    cells = pool(weights, np.maximum, most_cells).clip(0, 1)  # (L, H, N, M)
    np.sqrt(cells, out=cells)
    cells *= np.float32(steps)
    np.rint(cells, out=cells)
    some_allowed = pool(allowed, np.logical_or, most_cells)[:, None]  # (L, 1, N, M)
    np.copyto(cells, steps + 1, where=~some_allowed)
    return cells.astype(np.uint8 if steps == STEPS else "<u2")


def message(header: dict, cells: np.ndarray) -> bytes:
    """The header, with the shape added, and the cells (L, H, N, M).

    Where nothing above the diagonal is allowed, those cells are left out, which halves the message.
    """
    flat = cells.reshape(-1, cells.shape[2] * cells.shape[3])  # (L·H, N·M)
    lower = np.tri(*cells.shape[2:], dtype=bool).ravel()
    steps = STEPS if cells.dtype == np.uint8 else FINE_STEPS
    triangle = bool((flat.take(np.flatnonzero(~lower), axis=1) == steps + 1).all())
    added = {"shape": list(cells.shape), "steps": steps, "triangle": triangle}
    text = json.dumps({**header, **added}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    body = flat.take(np.flatnonzero(lower), axis=1) if triangle else flat
    return len(text).to_bytes(4, "little") + text + body.tobytes()


def ramp(kv_head: int, n_kv_heads: int, name: str) -> list[list[int]]:
    """The stops of a KV head's canvas ramp, (RAMP_STOPS, 3); name: "light" or "dark"."""
    return theme.kv_ramp(kv_head, n_kv_heads, name)[np.linspace(0, 255, RAMP_STOPS).round().astype(int)].tolist()
