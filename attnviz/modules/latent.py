"""Multi-head latent attention as in DeepSeek-V2 (arXiv 2405.04434).

Keys and values of all heads are projected from one low-rank latent per token; position is encoded in one extra rotated
key that all heads share. The cache holds the latent and that key: kv_lora_rank + qk_rope_head_dim numbers per token.

B batch, T query tokens, S key tokens, H heads, R kv_lora_rank, N qk_nope_head_dim, P qk_rope_head_dim, V v_head_dim.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnviz.modules.attention import Attended, attend
from attnviz.modules.cache import KVCache
from attnviz.modules.norm import RMSNorm, check_sizes
from attnviz.modules.rope import Rope


class MultiHeadLatentAttention(nn.Module):
    """Multi-head latent attention; `absorbed=True` gives the same output without expanding keys or values."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        kv_lora_rank: int,
        qk_nope_head_dim: int,
        qk_rope_head_dim: int,
        v_head_dim: int,
        q_lora_rank: int | None = None,
        norm_eps: float = 1e-6,
    ) -> None:
        super().__init__()
        check_sizes(
            d_model=d_model, n_heads=n_heads, kv_lora_rank=kv_lora_rank, qk_nope_head_dim=qk_nope_head_dim,
            qk_rope_head_dim=qk_rope_head_dim, v_head_dim=v_head_dim, q_lora_rank=q_lora_rank,
        )  # fmt: skip
        if qk_rope_head_dim % 2:
            raise ValueError(f"qk_rope_head_dim must be even, to be split into pairs, not {qk_rope_head_dim}")
        self.n_heads, self.rank = n_heads, kv_lora_rank
        self.nope_dim, self.rope_dim, self.v_dim = qk_nope_head_dim, qk_rope_head_dim, v_head_dim
        q_width = n_heads * (qk_nope_head_dim + qk_rope_head_dim)
        if q_lora_rank is None:
            self.q_proj = nn.Linear(d_model, q_width, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, q_lora_rank, bias=False)
            self.q_a_norm = RMSNorm(q_lora_rank, norm_eps)
            self.q_b_proj = nn.Linear(q_lora_rank, q_width, bias=False)
        self.kv_a_proj = nn.Linear(d_model, kv_lora_rank + qk_rope_head_dim, bias=False)
        self.kv_a_norm = RMSNorm(kv_lora_rank, norm_eps)
        self.kv_b_proj = nn.Linear(kv_lora_rank, n_heads * (qk_nope_head_dim + v_head_dim), bias=False)
        self.o_proj = nn.Linear(n_heads * v_head_dim, d_model, bias=False)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        rope: Rope | None = None,
        cache: KVCache | None = None,
        record: Callable[..., None] | None = None,
        absorbed: bool = False,
        kernel: Callable[..., Attended] | None = None,
    ) -> Tensor:
        """Map x (B, T, d_model) to (B, T, d_model); arguments as in `GroupedQueryAttention.forward`.

        absorbed: move W_UK to the query's side and W_UV behind the weights, so that the heads attend to the
        latent itself, as one KV head of width kv_lora_rank + qk_rope_head_dim.
        """
        if absorbed and record is not None:
            raise ValueError("the absorbed form cannot be recorded: it computes no keys and values of single heads")
        past, T = (len(cache) if cache is not None else 0), x.shape[1]
        q_nope, q_rope_before = self._queries(x).split((self.nope_dim, self.rope_dim), dim=-1)  # (B, H, T, N or P)
        latent, key_before = self.kv_a_proj(x).split((self.rank, self.rope_dim), dim=-1)  # (B, T, R), (B, T, P)
        latent = self.kv_a_norm(latent)
        scale = (self.nope_dim + self.rope_dim) ** -0.5
        if rope is not None:
            scale *= rope.latent_softmax_factor
        rotate = rope or (lambda t, _: t)
        q_rope, shared_key = rotate(q_rope_before, past), rotate(key_before, past)
        if cache is not None:
            latent, shared_key = cache.append(latent, shared_key)  # (B, S, R), (B, S, P)
        if causal:
            earlier = torch.ones(T, latent.shape[1], dtype=torch.bool, device=x.device).tril(past)  # (T, S)
            mask = earlier if mask is None else mask & earlier
        if absorbed:
            return self._absorbed(q_nope, q_rope, latent, shared_key, mask, scale, kernel or attend)
        k_nope, v = self._expand(latent)  # (B, H, S, N), (B, H, S, V)
        q = torch.cat((q_nope, q_rope), dim=-1)  # (B, H, T, N + P)
        k = torch.cat((k_nope, self._to_all_heads(shared_key)), dim=-1)  # (B, H, S, N + P)
        output, weights = (kernel or attend)(q, k, v, mask, scale=scale)
        if record is not None:
            q_pre_rope = torch.cat((q_nope, q_rope_before), dim=-1)
            k_pre_rope = torch.cat((k_nope[:, :, past:], self._to_all_heads(key_before)), dim=-1)
            record(q=q, k=k, v=v, q_pre_rope=q_pre_rope, k_pre_rope=k_pre_rope, weights=weights,
                   allowed=mask, scale=scale)  # fmt: skip
        return self.o_proj(output.transpose(1, 2).flatten(2))  # (B, T, H·V) -> (B, T, d_model)

    def _queries(self, x: Tensor) -> Tensor:
        """Compute the queries, (B, H, T, N + P), through the query latent if there is one."""
        q = self.q_proj(x) if hasattr(self, "q_proj") else self.q_b_proj(self.q_a_norm(self.q_a_proj(x)))
        return q.view(*x.shape[:2], self.n_heads, self.nope_dim + self.rope_dim).transpose(1, 2)

    def _to_all_heads(self, shared_key: Tensor) -> Tensor:
        """Expand the shared key (B, S, P) to all heads, (B, H, S, P), as a view."""
        return shared_key.unsqueeze(1).expand(-1, self.n_heads, -1, -1)  # (B, S, P) -> (B, H, S, P)

    def _expand(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Project the latent (B, S, R) to each head's keys (without position) and values."""
        heads = self.kv_b_proj(latent).view(*latent.shape[:2], self.n_heads, self.nope_dim + self.v_dim)
        return heads.transpose(1, 2).split((self.nope_dim, self.v_dim), dim=-1)

    def _absorbed(
        self, q_nope: Tensor, q_rope: Tensor, latent: Tensor, shared_key: Tensor, mask: Tensor | None, scale: float,
        kernel: Callable[..., Attended],
    ) -> Tensor:  # fmt: skip
        up = self.kv_b_proj.weight.view(self.n_heads, self.nope_dim + self.v_dim, self.rank)
        up_k, up_v = up.split((self.nope_dim, self.v_dim), dim=1)  # (H, N, R), (H, V, R)
        q = torch.cat((q_nope @ up_k, q_rope), dim=-1)  # (B, H, T, R + P): q·(W_UK c) = (q W_UK)·c
        k = torch.cat((latent, shared_key), dim=-1).unsqueeze(1)  # (B, 1, S, R + P), one KV head
        read = kernel(q, k, latent.unsqueeze(1), mask, scale=scale).output  # (B, H, T, R)
        return self.o_proj((read @ up_v.mT).transpose(1, 2).flatten(2))
