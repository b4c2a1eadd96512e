"""A model with other attentions: every number of KV heads that divides its query heads, and MLA."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnviz.config import ModelConfig, divisors
from attnviz.facts import LATENT_FIELDS


def attention_name(model: ModelConfig) -> str:
    """Return "MHA", "GQA-8", "MQA" or "MLA"; the name of GQA includes the number of KV heads."""
    return model.mixer.name


def with_heads(model: ModelConfig, n_kv_heads: int) -> ModelConfig:
    """Return `model` with MHA, GQA or MQA over `n_kv_heads` KV heads; from MLA, heads are as wide as its values."""
    if model.mixer.shares_kv_heads:
        return model.with_kv_heads(n_kv_heads)
    no_latents: dict[str, Any] = dict.fromkeys(LATENT_FIELDS)
    return replace(model, attention=None, n_kv_heads=n_kv_heads, head_dim=model.v_head_dim, **no_latents)


def with_latent(model: ModelConfig) -> ModelConfig:
    """Return `model` with MLA in DeepSeek-V2's proportions: a latent of 4 head widths, a RoPE key of half of one.

    The queries stay uncompressed; biases, sinks and norms on q and k are left out (arXiv 2405.04434).
    """
    if not model.mixer.shares_kv_heads:
        return model
    rope_dim = max(2, model.head_dim // 4 * 2)
    return replace(
        model, attention="mla", n_kv_heads=model.n_heads, head_dim=model.head_dim + rope_dim, qkv_bias=False,
        o_bias=False, qk_norm=None, attention_sinks=False, kv_lora_rank=4 * model.head_dim,
        qk_nope_head_dim=model.head_dim, qk_rope_head_dim=rope_dim, v_head_dim=model.head_dim,
    )  # fmt: skip


def comparison(model: ModelConfig) -> list[ModelConfig]:
    """Return `model` as MHA, as GQA with every divisor of the query heads, as MQA, and as MLA."""
    return [with_heads(model, n) for n in divisors(model.n_heads)] + [with_latent(model)]


def what_if(model: ModelConfig) -> list[ModelConfig]:
    """Return `model` as MHA, as GQA with 8 KV heads (or the next lower possible number), as MQA and as MLA."""
    shared = next((n for n in divisors(model.n_heads) if n <= 8 and n < model.n_heads), 1)
    counts = dict.fromkeys((model.n_heads, shared, 1))
    return [with_heads(model, n) for n in counts] + [with_latent(model)]
