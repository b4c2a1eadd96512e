"""Weights as a message for the browser, a byte each; `packed_weights.js` reads it and goes before each component's own.

A message is [u32 length of the header, little-endian][header as JSON][cells as uint8]. A cell is the square root of a
weight, since most weights of a long text would round to zero on a linear scale; 255 is kept for "not allowed".

L layers (or rows of the caller's own), H heads, T query tokens, S key tokens; N x M is what is left of T x S.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from attnviz.figures.blocks import pool

NOT_ALLOWED = 255
STEPS = 254  # the byte of weight 1
READER = (Path(__file__).parent / "packed_weights.js").read_text(encoding="utf-8")


def quantise(weights: np.ndarray, allowed: np.ndarray, most_cells: int) -> np.ndarray:
    """weights (L, H, T, S) and allowed (L, T, S) -> uint8 (L, H, N, M), N and M at most `most_cells`.

    A cell is round(254 * sqrt(largest weight of its block)), so the weight read back is at most sqrt(weight) / 254 off;
    255 where no pair of the block is allowed.
    """
    largest = pool(weights, np.maximum, most_cells)  # (L, H, N, M)
    cells = np.rint(STEPS * np.sqrt(largest.clip(0, 1))).astype(np.uint8)
    some_allowed = pool(allowed, np.logical_or, most_cells)[:, None]  # (L, 1, N, M)
    return np.where(some_allowed, cells, np.uint8(NOT_ALLOWED))


def message(header: dict, cells: np.ndarray) -> bytes:
    """The header, with the shape added, and the cells (L, H, N, M).

    Where nothing above the diagonal is allowed, those cells are left out, which halves the message.
    """
    lower = np.tri(*cells.shape[2:], dtype=bool)
    triangle = bool((cells[..., ~lower] == NOT_ALLOWED).all())
    added = {"shape": list(cells.shape), "triangle": triangle}
    text = json.dumps({**header, **added}, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    body = cells[..., lower] if triangle else cells
    return len(text).to_bytes(4, "little") + text + body.tobytes()
