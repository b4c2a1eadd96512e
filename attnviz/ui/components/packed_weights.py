"""Binary payload of weights, two bytes each; `packed_weights.js`, prepended to each component's script, decodes it.

A message is a header and cells as little-endian uint16. A cell is a weight as it is printed, in ten-thousandths, so the
browser prints the same number as the server; a negative weight, which only effective weights can be, is its size and
MASKED.

L layers (or other rows), H heads, T query tokens, S key tokens; N x M cells after pooling T x S.
"""

from __future__ import annotations

import numpy as np

from attnviz.figures import theme
from attnviz.figures.blocks import pool
from attnviz.figures.head_captions import LOWEST_TOP
from attnviz.figures.numbers import DIGITS, steps
from attnviz.ui.components.as_bytes import framed

STEPS = 10**DIGITS  # the cell of weight 1
MASKED = STEPS + 1


def cells_of(weights: np.ndarray, allowed: np.ndarray, most_cells: int) -> np.ndarray:
    """Pool weights (L, H, T, S) and allowed (L, T, S) to uint16 (L, H, N, M), N and M at most `most_cells`.

    A cell is the largest weight of its block in units of the last printed decimal, or the negative one with a larger
    size; MASKED if every pair of the block is masked.
    """
    cells = steps(pool(weights, np.maximum, most_cells)).clip(0, STEPS)  # (L, H, N, M)
    if weights.min(initial=0) < 0:
        below = steps(-pool(weights, np.minimum, most_cells)).clip(0, STEPS)  # (L, H, N, M)
        np.copyto(cells, below + MASKED, where=below > cells)
    some_allowed = pool(allowed, np.logical_or, most_cells)[:, None]  # (L, 1, N, M)
    np.copyto(cells, MASKED, where=~some_allowed)
    return cells.astype("<u2")


def message(header: dict, cells: np.ndarray) -> bytes:
    """Return the header, with the shape added, and the cells (L, H, N, M).

    If everything above the diagonal is masked, those cells are omitted, which halves the message.
    """
    flat = cells.reshape(-1, cells.shape[2] * cells.shape[3])  # (L·H, N·M)
    lower = np.tri(*cells.shape[2:], dtype=np.bool_).ravel()
    triangle = bool((flat.take(np.flatnonzero(~lower), axis=1) == MASKED).all())
    added = {"shape": list(cells.shape), "steps": STEPS, "triangle": triangle}
    body = flat.take(np.flatnonzero(lower), axis=1) if triangle else flat
    return framed({**header, **added}, body.tobytes())


def below_zero() -> dict[str, list[list[int]]]:
    """Return the colour stops of negative weights, (theme.CANVAS_STOPS, 3), on a "light" and on a "dark" page."""
    picked = np.linspace(0, 255, theme.CANVAS_STOPS).round().astype(int)
    return {scheme: theme.diverging_ramps(0, 1, scheme)[0][picked].tolist() for scheme in theme.RAMP_ENDS}


def top_of(weights: np.ndarray) -> float:
    """Return where the colours of a layer's or a head's map end: at 1, or at the largest size of effective weights."""
    return max(float(np.abs(weights).max()), LOWEST_TOP) if weights.min(initial=0) < 0 else 1.0
