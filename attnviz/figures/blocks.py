"""Pooling of maps too large for the screen: neighbouring cells are joined into blocks, none is left out."""

from __future__ import annotations

import numpy as np


def block_size(n: int, most: int) -> int:
    """Return the tokens per row or column, so that n tokens take at most `most` of them."""
    return -(-n // most)


def pool(values: np.ndarray, join: np.ufunc, most: int) -> np.ndarray:
    """Pool (..., T, S) to (..., N, M), N and M at most `most`, with `join` (np.maximum, np.logical_or) over blocks."""
    for axis in (-2, -1):
        values = _joined(values, join, axis, block_size(values.shape[axis], most))
    return values


def largest_size(values: np.ndarray, most: int) -> np.ndarray:
    """Pool values to the one with the largest absolute value of each block, with its sign; NaN if all are NaN."""
    above, below = pool(values, np.fmax, most), pool(values, np.fmin, most)
    return np.where(-below > above, below, above)


def _joined(values: np.ndarray, join: np.ufunc, axis: int, step: int) -> np.ndarray:
    """Join every `step` neighbours along one axis, slice by slice: `reduceat` takes five times as long."""
    if step == 1:
        return values
    along = np.moveaxis(values, axis, -1)
    joined = along[..., ::step].copy(order="K")
    for offset in range(1, step):
        part = along[..., offset::step]  # the last block may be smaller
        join(joined[..., : part.shape[-1]], part, out=joined[..., : part.shape[-1]])
    return np.moveaxis(joined, -1, axis)
