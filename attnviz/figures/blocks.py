"""Maps too large for the screen, made smaller: neighbouring cells joined into blocks, never left out."""

from __future__ import annotations

import numpy as np


def block_size(n: int, most: int) -> int:
    """How many of n tokens one row or column stands for, so that at most `most` are drawn."""
    return -(-n // most)


def pool(values: np.ndarray, join: np.ufunc, most: int) -> np.ndarray:
    """(..., T, S) -> (..., N, M), N and M at most `most`: `join` (np.maximum, np.logical_or) over blocks."""
    step = block_size(values.shape[-2], most)
    pooled = values[..., ::step, :].copy()  # (..., N, S)
    for offset in range(1, step):  # slices, since `reduceat` along this axis takes three times as long
        part = values[..., offset::step, :]  # the last block may be smaller
        join(pooled[..., : part.shape[-2], :], part, out=pooled[..., : part.shape[-2], :])
    step = block_size(values.shape[-1], most)
    return join.reduceat(pooled, np.arange(0, values.shape[-1], step), axis=-1) if step > 1 else pooled
