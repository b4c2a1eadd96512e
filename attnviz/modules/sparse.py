"""Indexer scores and top-k keys of DeepSeek sparse attention (arXiv 2512.02556).

A few small index heads score every key by one index key per token; each query then attends to its k best keys only.

B batch, T query tokens, S key tokens, I index heads, D width of an index key. This file needs only torch.
"""

from __future__ import annotations

import torch
from torch import Tensor


def index_scores(q: Tensor, k: Tensor, weights: Tensor) -> Tensor:
    """Compute sum over i of weights[…, i] · relu(qᵢ · k) for q (B, I, T, D), k (B, S, D), weights (B, T, I): (B, T, S).

    A factor on q · k, such as 1 / sqrt(D), can be multiplied into the weights: ReLU keeps positive factors.
    """
    products = torch.einsum("bitd,bsd->bits", q, k).relu()  # (B, I, T, S)
    return torch.einsum("bti,bits->bts", weights, products)


def top_k_mask(scores: Tensor, k: int, allowed: Tensor | None = None) -> Tensor:
    """Return the mask of each query's k best keys, True = may attend: scores (B, T, S) give bool (B, 1, T, S).

    allowed: bool, broadcastable to (B, T, S), True = may attend. Only these keys are ranked; where a query has k of
    them or fewer, all are kept. Of equal scores, those of earlier keys rank first.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if allowed is not None:  # before the ranking: otherwise masked keys would take places among the k
        scores = scores.masked_fill(~allowed, float("-inf"))
    best = scores.argsort(dim=-1, descending=True, stable=True)[..., :k]  # (B, T, min(k, S))
    kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)  # (B, T, S)
    return (kept if allowed is None else kept & allowed).unsqueeze(1)  # one mask for all heads
