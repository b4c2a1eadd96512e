"""Attention over the top-k keys of an indexer, on grouped-query and on latent attention (arXiv 2512.02556).

The layer's attention stays what it is: it gets a mask of the keys that the indexer keeps. One index key per token is
cached beside what the attention itself caches.

B batch, T query tokens, S key tokens, C d_model, I index heads, Dᵢ width of an index key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.modules.attention import Attended, GroupedQueryAttention, attend
from attnviz.modules.latent import MultiHeadLatentAttention
from attnviz.modules.norm import LayerNorm, check_sizes
from attnviz.modules.rope import Rope
from attnviz.modules.sparse import index_scores, top_k_mask


class Indexer(nn.Module):
    """Index queries, head weights and one index key per token, from which `index_scores` are computed."""

    def __init__(self, d_model: int, n_heads: int, head_dim: int, d_query: int | None = None) -> None:
        """d_query: width of what index queries are projected from, the query latent in MLA; by default d_model."""
        super().__init__()
        check_sizes(n_index_heads=n_heads, index_dim=head_dim)
        self.n_heads, self.head_dim = n_heads, head_dim
        self.q_proj = nn.Linear(d_query or d_model, n_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(d_model, head_dim, bias=False)
        self.k_norm = LayerNorm(head_dim, 1e-6)
        self.weights_proj = nn.Linear(d_model, n_heads, bias=False)

    def forward(self, x: Tensor, queries: Tensor, rope: Rope | None, past: int) -> tuple[Tensor, ...]:
        """Return q (B, I, T, Dᵢ), weights (B, T, I) and k (B, T, Dᵢ) of x (B, T, C).

        queries: what index queries are projected from, (B, T, C) or (B, T, d_query). The first dimensions are rotated
        by the frequencies of the attention, always in the half-split layout.
        """
        q = self.q_proj(queries).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # -> (B, I, T, Dᵢ)
        k = self.k_norm(self.k_proj(x))  # (B, T, Dᵢ)
        if rope is not None:
            rope = replace(rope, layout="half")
            q, k = rope(q, past), rope(k, past)
        weights = self.weights_proj(x) * (self.n_heads * self.head_dim) ** -0.5  # (B, T, I), with the scale of q · k
        return q, weights, k


class Selection:
    """One call's choice of keys: used as the layer's cache, as its kernel and as its record callback.

    As a cache it appends the index key to the tensors of the attention; as a kernel it masks the keys that are not
    among the best `top_k`.
    """

    def __init__(self, indexed: tuple[Tensor, ...], top_k: int, cache: Any, kernel: Callable[..., Attended] | None,
                 record: Callable[..., None] | None) -> None:  # fmt: skip
        self.q, self.weights, self.k = indexed
        self.top_k, self.cache, self.kernel, self.record = top_k, cache, kernel or attend, record
        self.scores = self.mask = torch.empty(0)  # until `attend`

    def __len__(self) -> int:
        return 0 if self.cache is None else len(self.cache)

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Append the attention's tensors with the index key, and return those of the attention, as a cache does."""
        if self.cache is None:
            return new
        *cached, self.k = self.cache.append(*new, self.k)  # (B, T, Dᵢ) -> (B, S, Dᵢ)
        return tuple(cached)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **scoring: Any) -> Attended:
        """Attend to the allowed keys with the best index scores."""
        allowed = mask.any(-3) if mask is not None and mask.ndim > 2 else mask  # of any head: (B, T, S) or (T, S)
        self.scores = index_scores(self.q, self.k, self.weights)  # (B, T, S)
        self.mask = top_k_mask(self.scores, self.top_k, allowed)  # (B, 1, T, S)
        if mask is not None and mask.ndim > 2:  # of one head
            self.mask = self.mask & mask
        return self.kernel(q, k, v, self.mask, **scoring)

    def recorded(self, **computed: Any) -> None:
        """Record what the attention computed, with the keys that were kept as its mask, and the index scores."""
        assert self.record is not None
        self.record(**{**computed, "allowed": self.mask}, index_scores=self.scores)

    @property
    def options(self) -> dict[str, Any]:
        """What the attention's forward is called with."""
        record = None if self.record is None else self.recorded
        return {"cache": self, "kernel": self.attend, "record": record}


class SparseAttention(GroupedQueryAttention):
    """Grouped-query attention in which each query attends to the `top_k` keys with the best index scores."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, *, top_k: int, n_index_heads: int, index_dim: int,
                 **options: Any) -> None:  # fmt: skip
        super().__init__(d_model, n_heads, n_kv_heads, **options)
        check_sizes(top_k=top_k)
        self.top_k = top_k
        self.indexer = Indexer(d_model, n_index_heads, index_dim)

    def forward(self, x: Tensor, *, rope: Any = None, cache: Any = None, context: Tensor | None = None,
                kernel: Callable[..., Attended] | None = None, record: Callable[..., None] | None = None,
                **options: Any) -> Tensor:  # fmt: skip
        """Map x (B, T, C) to (B, T, C); arguments as in `GroupedQueryAttention.forward`."""
        if context is not None:
            raise ValueError("the indexer ranks the tokens of x itself: it takes no context")
        past = 0 if cache is None else len(cache)
        indexed = self.indexer(x, x, rope, past)
        chosen = Selection(indexed, self.top_k, cache, kernel, record)
        return super().forward(x, rope=rope, **options, **chosen.options)


class SparseLatentAttention(MultiHeadLatentAttention):
    """Multi-head latent attention with an indexer, as in DeepSeek V3.2."""

    def __init__(self, d_model: int, n_heads: int, *, top_k: int, n_index_heads: int, index_dim: int,
                 q_lora_rank: int | None = None, **options: Any) -> None:  # fmt: skip
        super().__init__(d_model, n_heads, q_lora_rank=q_lora_rank, **options)
        check_sizes(top_k=top_k)
        self.top_k = top_k
        self.indexer = Indexer(d_model, n_index_heads, index_dim, q_lora_rank)

    def forward(self, x: Tensor, *, rope: Rope | None = None, cache: Any = None,
                kernel: Callable[..., Attended] | None = None, record: Callable[..., None] | None = None,
                **options: Any) -> Tensor:  # fmt: skip
        """Map x (B, T, C) to (B, T, C); arguments as in `MultiHeadLatentAttention.forward`."""
        past = 0 if cache is None else len(cache)
        queries = x if hasattr(self, "q_proj") else self.q_a_norm(self.q_a_proj(x))  # (B, T, C) or (B, T, q_lora_rank)
        indexed = self.indexer(x, queries, rope, past)
        chosen = Selection(indexed, self.top_k, cache, kernel, record)
        return super().forward(x, rope=rope, **options, **chosen.options)
