"""What an indexer's top-k keys keep of a dense map, and where a learned sink's share goes without it.

T query tokens, S key tokens, H query heads, V width of a value.
"""

from __future__ import annotations

import numpy as np

SHARE = 4  # one of so many keys is kept of a text that a layer would keep whole


def usual_k(own: int, n: int) -> int:
    """Return how many of n keys are kept where nobody chose: as many as the layer does, or fewer than all."""
    return own if own < n else n // SHARE or 1


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return the weights of scores (…, T, S) over the allowed keys, 0 in rows without one; float64."""
    masked = np.where(allowed, scores.astype(float), -np.inf)
    top = masked.max(-1, keepdims=True)
    parts = np.exp(masked - np.where(np.isfinite(top), top, 0.0))
    return parts / np.maximum(parts.sum(-1, keepdims=True), np.finfo(float).tiny)


def ranks(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return each allowed key's rank by its score among the query's allowed keys, best 0; S where it is masked: (T, S).

    Of equal scores, that of the earlier key ranks first, as in `top_k_mask`.
    """
    masked = np.where(allowed, scores, -np.inf)
    order = np.argsort(-masked, axis=-1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(scores.shape[-1])[None], axis=-1)
    return np.where(allowed, found, scores.shape[-1])


def errors_by_k(dense: np.ndarray, rank: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return ‖o_k − o‖ / ‖o‖ for k = 1 … S, the mean over the queries: (S,).

    o: a query's output with all its keys, of weights dense (T, S) and v (S, V); o_k: with its k best keys alone, whose
    weights are divided by their sum, as a softmax over them gives.
    """
    total = np.zeros(dense.shape[1])
    for weights, row in zip(dense, rank, strict=True):
        order = np.argsort(row, kind="stable")  # best first, masked keys last: their weight is 0
        share = np.maximum(weights[order].cumsum(), np.finfo(float).tiny)  # (S,)
        outputs = (weights[order, None] * v[order]).cumsum(0) / share[:, None]  # (S, V)
        whole = max(float(np.linalg.norm(outputs[-1])), np.finfo(float).tiny)
        total += np.linalg.norm(outputs - outputs[-1], axis=1) / whole
    return total / len(dense)
