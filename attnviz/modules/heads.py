"""Special cases of grouped-query attention (MHA, MQA, a single head), and heads as separate modules.

B batch, T tokens, H heads, D head_dim.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnviz.config import AttentionConfig, ConfigError
from attnviz.modules.attention import GroupedQueryAttention, attend
from attnviz.modules.norm import check_sizes


class MultiHeadAttention(GroupedQueryAttention):
    """Multi-head attention: one KV head per query head (Vaswani et al., arXiv 1706.03762)."""

    def __init__(self, d_model: int, n_heads: int, **options: Any) -> None:
        super().__init__(d_model, n_heads, n_heads, **options)


class MultiQueryAttention(GroupedQueryAttention):
    """Multi-query attention: all query heads share one KV head (Shazeer, arXiv 1911.02150)."""

    def __init__(self, d_model: int, n_heads: int, **options: Any) -> None:
        super().__init__(d_model, n_heads, 1, **options)


class SelfAttention(GroupedQueryAttention):
    """Self-attention with one head of width d_out; an output projection follows only with out_proj=True."""

    def __init__(self, d_in: int, d_out: int | None = None, *, out_proj: bool = False, **options: Any) -> None:
        check_sizes(d_in=d_in, d_out=d_out)
        width = d_out or d_in
        if options.get("out_bias") and not out_proj:
            raise ConfigError("out_bias = True needs out_proj = True: without the projection there is no bias")
        super().__init__(d_in, 1, 1, **{"head_dim": width, "d_out": width, **options})
        if not out_proj:
            self.o_proj = nn.Identity()  # type: ignore[assignment]  # no output projection


class FusedSelfAttention(nn.Module):
    """Single head whose q, k and v come from one projection split in three: one matrix product instead of three."""

    def __init__(self, d_in: int, d_out: int | None = None, *, qkv_bias: bool = False) -> None:
        super().__init__()
        check_sizes(d_in=d_in, d_out=d_out)
        self.qkv_proj = nn.Linear(d_in, 3 * (d_out or d_in), bias=qkv_bias)

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Map x (B, T, d_in) to (B, T, d_out)."""
        q, k, v = self.qkv_proj(x).unsqueeze(1).chunk(3, dim=-1)  # (B, 1, T, d_out) each
        return attend(q, k, v, mask).output.squeeze(1)


class StackedHeads(nn.Module):
    """H single heads as separate modules, with a projection of their concatenated outputs."""

    def __init__(self, d_model: int, n_heads: int, *, head_dim: int | None = None, qkv_bias: bool = False) -> None:
        super().__init__()
        width = AttentionConfig(d_model, n_heads, head_dim=head_dim).head_dim
        self.heads = nn.ModuleList(SelfAttention(d_model, width, qkv_bias=qkv_bias) for _ in range(n_heads))
        self.o_proj = nn.Linear(n_heads * width, d_model, bias=False)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        """Map x (B, T, d_model) to (B, T, d_model); options as in `GroupedQueryAttention.forward`."""
        return self.o_proj(torch.cat([head(x, **options) for head in self.heads], dim=-1))  # (B, T, H · D)
