"""Attention, written out so that every number in it can be looked at.

B batch, T query tokens, S key tokens, H query heads, K KV heads, G = H / K query heads a KV head, D head_dim.
MHA and MQA are grouped-query attention (Ainslie et al., arXiv 2305.13245) with K = H and K = 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.config import AttentionConfig, ConfigError
from attnviz.modules.cache import KVCache
from attnviz.modules.masks import Mask, as_mask, attention_mask, both
from attnviz.modules.rope import Rope, as_rope


class Attended(NamedTuple):
    """What `attend` computes: the output, and the weights on the way to it."""

    output: Tensor  # (B, H, T, D)
    weights: Tensor  # (B, H, T, S), each row sums to 1, or to 0 where nothing may be attended to


class AttentionRecord(NamedTuple):
    """Everything one attention layer computed, for whoever asked with `record=[]`."""

    q: Tensor  # (B, H, T, D), turned by RoPE
    k: Tensor  # (B, K, S, D), turned by RoPE
    v: Tensor  # (B, K, S, D)
    q_unturned: Tensor  # (B, H, T, D)
    k_unturned: Tensor  # (B, K, T, D), of the tokens of this call
    weights: Tensor  # (B, H, T, S)
    allowed: Tensor | None  # bool, broadcastable to (B, H, T, S); None: everything
    scale: float  # what q·k is multiplied by before the softmax


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | Mask | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Attended:
    """softmax(q·kᵀ · scale, where the mask allows) · v, for q (B, H, T, D), k and v (B, K, S, D).

    Query head h reads KV head h // (H / K). K and V are not copied out to H heads: the G query heads that share
    a KV head are laid one behind the other, as if they were G · T queries of one head. A row that may attend to
    nothing gives zeros. `scale` is 1 / sqrt(D) by default (never of d_model).
    """
    B, H, T, D = q.shape
    K, S = k.shape[1], k.shape[2]
    if H % K:
        raise ValueError(f"{H} query heads cannot share {K} KV heads evenly")
    scale = D**-0.5 if scale is None else scale
    grouped = (q * scale).reshape(B, K, H // K * T, D)  # (B, K, G·T, D)
    scores = (grouped @ k.mT).view(B, H, T, S)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        mask = _fitting(mask, scores)
        weights = scores.add_(mask.bias.to(scores.dtype)).softmax(-1)  # in place: what is not kept leaves caches free
        if mask.leaves_rows_empty:
            weights = weights * mask.seen
    used = F.dropout(weights, dropout) if dropout else weights
    output = used.reshape(B, K, H // K * T, S).to(v.dtype) @ v  # (B, K, G·T, D)
    return Attended(output.view(B, H, T, v.shape[-1]), weights)


def _fitting(mask: Tensor | Mask, scores: Tensor) -> Mask:
    """The mask, checked: boolean, and never the one that makes the scores grow by broadcasting."""
    mask = as_mask(mask)
    try:
        mask.allowed.expand(scores.shape)
    except RuntimeError:
        raise ValueError(
            f"mask of shape {tuple(mask.allowed.shape)} does not fit (B, H, T, S) = {tuple(scores.shape)}"
        ) from None
    return mask


class GroupedQueryAttention(nn.Module):
    """H query heads that share K key/value heads; causal, windowed, padded, cached, rotated or crossed on request."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        *,
        head_dim: int | None = None,
        d_out: int | None = None,
        qkv_bias: bool = False,
        out_bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.config = c = AttentionConfig(d_model, n_heads, n_kv_heads, head_dim, qkv_bias, out_bias, dropout)
        self.q_proj = nn.Linear(d_model, c.n_heads * c.head_dim, bias=qkv_bias)
        self.k_proj = nn.Linear(d_model, c.n_kv_heads * c.head_dim, bias=qkv_bias)
        self.v_proj = nn.Linear(d_model, c.n_kv_heads * c.head_dim, bias=qkv_bias)
        self.o_proj = nn.Linear(c.n_heads * c.head_dim, d_out or d_model, bias=out_bias)

    @classmethod
    def from_group_size(cls, d_model: int, n_heads: int, group_size: int, **options) -> GroupedQueryAttention:
        """The same, asked for by how many query heads share a KV head instead of by how many KV heads there are."""
        if group_size < 1 or n_heads % group_size:
            raise ConfigError(f"group_size must divide n_heads = {n_heads}, and {group_size} does not")
        return GroupedQueryAttention(d_model, n_heads, n_heads // group_size, **options)

    def forward(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        mask: Tensor | Mask | None = None,
        causal: bool = False,
        window: int | None = None,
        n_sinks: int = 0,
        rope: Rope | Tensor | None = None,
        cache: KVCache | None = None,
        record: list[AttentionRecord] | None = None,
    ) -> Tensor:
        """x (B, T, d_model) -> (B, T, d_model).

        context: (B, S, d_model), where keys and values come from (cross-attention); None means x.
        mask: bool, True = may attend, broadcastable to (B, H, T, S); joined with causal and window.
        n_sinks: first keys that stay visible though the window has passed them.
        rope: `Rope`, or the bare frequencies for the half-split layout.
        cache: what came before; the new keys and values are added to it.
        record: a list to which everything that was computed is appended.
        """
        if context is not None and cache is not None:
            raise ValueError("a cache holds the keys of x itself; with context there is nothing to add to it")
        c, rope = self.config, as_rope(rope)
        source = x if context is None else context
        past = len(cache) if cache is not None else 0
        q = q_unturned = self._heads(self.q_proj(x), c.n_heads)  # (B, H, T, D)
        k = k_unturned = self._heads(self.k_proj(source), c.n_kv_heads)  # (B, K, S, D)
        v = self._heads(self.v_proj(source), c.n_kv_heads)  # (B, K, S, D)
        if rope is not None:
            q, k = rope(q, past), rope(k, past)
        if cache is not None:
            k, v = cache.append(k, v)
        pattern = attention_mask(
            q.shape[2], k.shape[2], causal=causal, window=window, n_sinks=n_sinks, offset=past, device=x.device
        )  # (T, S) or None
        mask = both(pattern, mask)
        attended = attend(q, k, v, mask=mask, dropout=c.dropout if self.training else 0.0)
        if record is not None:
            allowed = None if mask is None else mask.allowed
            scale = c.head_dim**-0.5
            record.append(AttentionRecord(q, k, v, q_unturned, k_unturned, attended.weights, allowed, scale))
        return self.o_proj(attended.output.transpose(1, 2).flatten(2))  # (B, T, H·D) -> (B, T, d_out)

    def _heads(self, x: Tensor, n: int) -> Tensor:
        """(B, T, n·D) -> (B, n, T, D): heads are consecutive slices of the width, so view first, then transpose."""
        return x.view(*x.shape[:2], n, self.config.head_dim).transpose(1, 2)


class MultiHeadAttention(GroupedQueryAttention):
    """Every query head reads its own key/value head (Vaswani et al., arXiv 1706.03762)."""

    def __init__(self, d_model: int, n_heads: int, **options) -> None:
        super().__init__(d_model, n_heads, n_heads, **options)


class MultiQueryAttention(GroupedQueryAttention):
    """All query heads read one key/value head (Shazeer, arXiv 1911.02150)."""

    def __init__(self, d_model: int, n_heads: int, **options) -> None:
        super().__init__(d_model, n_heads, 1, **options)


class SelfAttention(GroupedQueryAttention):
    """One head of width d_out; no output projection unless asked for with out_proj=True."""

    def __init__(self, d_in: int, d_out: int | None = None, *, out_proj: bool = False, **options) -> None:
        width = d_out or d_in
        if options.get("out_bias") and not out_proj:
            raise ConfigError("out_bias = True needs out_proj = True: there is no projection that it could belong to")
        super().__init__(d_in, 1, 1, **{"head_dim": width, "d_out": width, **options})
        if not out_proj:
            self.o_proj = nn.Identity()


class FusedSelfAttention(nn.Module):
    """One head whose q, k and v come from a single projection split in three: the same numbers as `SelfAttention`
    with the same weights, in one matrix product instead of three."""

    def __init__(self, d_in: int, d_out: int | None = None, *, qkv_bias: bool = False) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(d_in, 3 * (d_out or d_in), bias=qkv_bias)

    @classmethod
    def from_separate(cls, separate: SelfAttention) -> FusedSelfAttention:
        """The fused form of a `SelfAttention`, its three weights laid one under the other."""
        c = separate.config
        fused = cls(c.d_model, c.head_dim, qkv_bias=c.qkv_bias)
        parts = (separate.q_proj, separate.k_proj, separate.v_proj)
        with torch.no_grad():
            fused.qkv_proj.weight.copy_(torch.cat([p.weight for p in parts]))
            if c.qkv_bias:
                fused.qkv_proj.bias.copy_(torch.cat([p.bias for p in parts]))
        return fused

    def forward(self, x: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """x (B, T, d_in) -> (B, T, d_out)."""
        q, k, v = self.qkv_proj(x).unsqueeze(1).chunk(3, dim=-1)  # (B, 1, T, d_out) each
        pattern = attention_mask(x.shape[1], x.shape[1], causal=causal, device=x.device)
        return attend(q, k, v, mask=both(pattern, mask)).output.squeeze(1)


class StackedHeads(nn.Module):
    """Heads as separate modules, outputs side by side: multi-head attention before anyone laid the weights together."""

    def __init__(self, d_model: int, n_heads: int, *, head_dim: int | None = None, qkv_bias: bool = False) -> None:
        super().__init__()
        c = AttentionConfig(d_model, n_heads, head_dim=head_dim)
        self.heads = nn.ModuleList(SelfAttention(d_model, c.head_dim, qkv_bias=qkv_bias) for _ in range(n_heads))
        self.o_proj = nn.Linear(n_heads * c.head_dim, d_model, bias=False)

    def forward(self, x: Tensor, **options) -> Tensor:
        """x (B, T, d_model) -> (B, T, d_model); options as for one head."""
        return self.o_proj(torch.cat([head(x, **options) for head in self.heads], dim=-1))  # (B, T, H·D)
