"""Maps too large for the screen, made smaller: neighbouring cells joined into blocks, never left out."""

from __future__ import annotations

import numpy as np


def block_size(n: int, most: int) -> int:
    """How many of n tokens one row or column stands for, so that at most `most` are drawn."""
    return -(-n // most)


def pool(values: np.ndarray, join: np.ufunc, most: int) -> np.ndarray:
    """(..., T, S) -> (..., N, M), N and M at most `most`: `join` (np.maximum, np.logical_or) over blocks."""
    for axis in (-2, -1):
        values = _joined(values, join, axis, block_size(values.shape[axis], most))
    return values


def _joined(values: np.ndarray, join: np.ufunc, axis: int, step: int) -> np.ndarray:
    """Every `step` neighbours along one axis made one: slice on slice, since `reduceat` takes five times as long."""
    if step == 1:
        return values
    along = np.moveaxis(values, axis, -1)
    joined = along[..., ::step].copy(order="K")
    for offset in range(1, step):
        part = along[..., offset::step]  # the last block may be smaller
        join(joined[..., : part.shape[-1]], part, out=joined[..., : part.shape[-1]])
    return np.moveaxis(joined, -1, axis)
