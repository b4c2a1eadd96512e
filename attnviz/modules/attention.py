r"""Multi-head, grouped-query and multi-query attention: one mechanism with different numbers of KV heads.

          MHA  K = H              GQA  1 < K < H            MQA  K = 1
          arXiv 1706.03762        arXiv 2305.13245          arXiv 1911.02150
    k, v  0   1   2   3             0       1                      0
          |   |   |   |            / \     / \               ___/ / \ \___
    q     0   1   2   3           0   1   2   3             0    1   2    3

    G     1                       2                         4                query heads per KV head
    cache 2 · 4 · D               2 · 2 · D                 2 · 1 · D        numbers per token

B batch, T query tokens, S key tokens, C d_model, H query heads, K KV heads, G = H / K, D head_dim. Needs torch alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attended(NamedTuple):
    """Result of `attend`."""

    output: Tensor  # (B, H, T, D)
    weights: Tensor  # (B, H, T, S), each row sums to 1, or to 0 where all keys are masked


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, scale: float | None = None,
           dropout: float = 0.0, softcap: float | None = None) -> Attended:  # fmt: skip
    """Compute softmax(q · kᵀ · scale) · v for q (B, H, T, D), k and v (B, K, S, D); query head h reads KV head h // G.

    mask: bool, True = may attend, broadcastable to (B, H, T, S). scale: 1 / sqrt(D) by default. softcap: as in Gemma 2.
    """
    H, K, D = q.shape[1], k.shape[1], q.shape[3]
    if H % K:
        raise ValueError(f"{H} query heads cannot share {K} KV heads evenly")
    q = q.unflatten(1, (K, H // K)) * (scale or D**-0.5)  # (B, H, T, D) -> (B, K, G, T, D)
    scores = torch.einsum("bkgtd,bksd->bkgts", q, k).flatten(1, 2)  # (B, K, G, T, S) -> (B, H, T, S)
    scores = scores if softcap is None else softcap * (scores / softcap).tanh()  # within ± softcap
    if mask is None:
        weights = scores.softmax(-1)
    else:
        check_mask(mask, scores)
        # A query that may attend to nothing gets weights of 0. Its row must not become -inf: softmax would give NaN.
        sees = mask.any(-1, keepdim=True)  # (..., T, 1)
        bias = torch.where(mask | ~sees, 0.0, float("-inf"))  # (..., T, S)
        weights = scores.add_(bias).softmax(-1) * sees
    used = (F.dropout(weights, dropout) if dropout else weights).unflatten(1, (K, H // K))  # -> (B, K, G, T, S)
    output = torch.einsum("bkgts,bksd->bkgtd", used, v).flatten(1, 2)  # (B, K, G, T, D) -> (B, H, T, D)
    return Attended(output, weights)


def check_mask(mask: Tensor, scores: Tensor) -> None:
    """Refuse a mask that is not boolean, whose meaning would be ambiguous, or that would broadcast the scores."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean (True = may attend), not {mask.dtype}")
    if mask.ndim > 4 or any(m not in (1, s) for m, s in zip(mask.shape[::-1], scores.shape[::-1], strict=False)):
        raise ValueError(f"mask of shape {tuple(mask.shape)} does not fit (B, H, T, S) = {tuple(scores.shape)}")


class GroupedQueryAttention(nn.Module):
    """Attention with n_heads query heads and n_kv_heads KV heads: equal numbers give MHA, one KV head gives MQA."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, *, head_dim: int | None = None,
                 d_out: int | None = None, qkv_bias: bool = False, out_bias: bool = False, dropout: float = 0.0,
                 qk_norm: Callable[[int], nn.Module] | None = None, scale: float | None = None,
                 softcap: float | None = None) -> None:  # fmt: skip
        super().__init__()
        for name, n in {"d_model": d_model, "n_heads": n_heads, "head_dim": head_dim, "d_out": d_out}.items():
            if n is not None and (type(n) is not int or n < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, not {n!r}")
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads must divide n_heads = {n_heads}, and {n_kv_heads} does not")
        if head_dim is None and d_model % n_heads:
            raise ValueError(f"d_model = {d_model} must be a multiple of n_heads = {n_heads} unless head_dim is given")
        self.n_heads, self.n_kv_heads, self.dropout = n_heads, n_kv_heads, dropout
        self.head_dim = D = head_dim or d_model // n_heads
        self.q_proj = nn.Linear(d_model, n_heads * D, bias=qkv_bias)
        self.k_proj = nn.Linear(d_model, n_kv_heads * D, bias=qkv_bias)
        self.v_proj = nn.Linear(d_model, n_kv_heads * D, bias=qkv_bias)
        self.o_proj = nn.Linear(n_heads * D, d_out or d_model, bias=out_bias)
        self.q_norm, self.k_norm = (qk_norm(D), qk_norm(D)) if qk_norm else (nn.Identity(), nn.Identity())
        self.scoring = {name: value for name, value in (("scale", scale), ("softcap", softcap)) if value is not None}

    def forward(
        self, x: Tensor, *, context: Tensor | None = None, mask: Tensor | None = None, causal: bool = False,
        rope: Callable[[Tensor, int], Tensor] | None = None, cache: Any = None,
        record: Callable[..., None] | None = None, kernel: Callable[..., Attended] | None = None,
    ) -> Tensor:  # fmt: skip
        """Map x (B, T, C) to (B, T, C). Keys and values come from context (B, S, C) in cross-attention, else from x.

        mask: as in `attend`. causal: no query may attend to a later token. rope: rope(q, start) rotates at positions
        start, start + 1, … (rope.py). cache: append(k, v) returns all keys and values so far (cache.py).
        record: callback for the intermediate tensors, by name. kernel: called in place of `attend`.
        """
        if context is not None and cache is not None:
            raise ValueError("cache cannot be combined with context: it holds the keys and values of x")
        source = x if context is None else context
        past = 0 if cache is None else len(cache)  # tokens before x
        q = q_pre_rope = self.q_proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, T, C) -> (B, H, T, D)
        k = k_pre_rope = self.k_proj(source).unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2)  # -> (B, K, S, D)
        v = self.v_proj(source).unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2)  # -> (B, K, S, D)
        q, k = q_pre_rope, k_pre_rope = self.q_norm(q), self.k_norm(k)  # each head by itself (Qwen3, Gemma 3)
        if rope is not None:
            q, k = rope(q, past), rope(k, past)  # v carries no position
        if cache is not None:
            k, v = cache.append(k, v)  # (B, K, T, D) -> (B, K, past + T, D)
        if causal:
            earlier = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(past)  # (T, S)
            mask = earlier if mask is None else mask & earlier
        output, weights = (kernel or attend)(q, k, v, mask, dropout=self.dropout if self.training else 0.0,
                                             **self.scoring)  # fmt: skip
        if record is not None:
            record(q=q, k=k, v=v, q_pre_rope=q_pre_rope, k_pre_rope=k_pre_rope, weights=weights,
                   allowed=mask, scale=self.scoring.get("scale", self.head_dim**-0.5))  # fmt: skip
        return self.o_proj(output.transpose(1, 2).flatten(2))  # (B, H, T, D) -> (B, T, H · D) -> (B, T, C)
