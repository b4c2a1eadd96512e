"""Attention rollout (Abnar and Zuidema, arXiv 2005.00928): weights multiplied through the layers.

A rough estimate of where a position's information comes from: each layer's heads are averaged, half of every layer is
assumed to be the residual stream, and values, output projections and feed-forward layers are ignored.

L layers, H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

RESIDUAL = 0.5  # assumed share of the residual stream in a layer's output, as in the paper


def rollout(weights: Iterable[np.ndarray]) -> np.ndarray:
    """Return float64 (L, T, T) from each layer's (H, T, T): row i after layer l is the mixture of tokens in position i.

    Every row sums to 1; a fully masked row is unchanged by the layer.
    """
    means = np.stack([layer.mean(axis=0, dtype=np.float64) for layer in weights])  # (L, T, T)
    T = means.shape[-1]
    mixed = (1 - RESIDUAL) * means + RESIDUAL * np.eye(T)
    mixed /= mixed.sum(-1, keepdims=True)
    rolled, before = np.empty_like(mixed), np.eye(T)
    for layer, step in enumerate(mixed):
        rolled[layer] = before = step @ before
    return rolled


def reachable(allowed: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return bool (L, T, T) from each layer's allowed (T, T): True if token j can reach position i by layer l."""
    itself = before = np.eye(len(allowed[0]), dtype=bool)
    reach = []
    for step in allowed:
        before = ((step | itself).astype(np.float32) @ before) > 0
        reach.append(before)
    return np.stack(reach)
