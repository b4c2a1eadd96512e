"""Count what the next token costs with and without a cache: multiplications in matrix products and bytes read.

The formulas count what `Transformer` runs: the logits of each input token, masked scores too, and MLA's absorbed form
for one token with a cache. Elementwise operations (norms, RoPE, softmax) are not counted. Weights count as read once
per pass, the cache once per step; intermediate results of a pass are not counted.

T tokens processed in this pass, S tokens attended to, C d_model, H query heads, K KV heads, D head_dim, F d_ff.
V vocab_size. MLA: R kv_lora_rank, N qk_nope_head_dim, P qk_rope_head_dim.
"""

from __future__ import annotations

from typing import NamedTuple

from attnviz.checks import ConfigError, whole
from attnviz.config import ModelConfig
from attnviz.modules import Transformer


class Work(NamedTuple):
    """The multiplications and bytes read of one pass of the model."""

    multiplications: int  # each with an addition: 2 FLOPs
    weight_bytes: int
    cache_bytes: int

    @property
    def bytes_read(self) -> int:
        """The bytes of weights and cache."""
        return self.weight_bytes + self.cache_bytes


def step_with_cache(model: Transformer, n_tokens: int) -> Work:
    """Count one decode step: it processes the last of n_tokens tokens and reads the cache of all of them."""
    _check(model, n_tokens)
    cached = n_tokens * model.config.n_layers * cached_numbers(model.config)
    return Work(
        multiplications(model.config, 1, n_tokens, absorbed=True), weight_bytes(model, 1), cached * number_bytes(model)
    )


def step_without_cache(model: Transformer, n_tokens: int) -> Work:
    """Count the same step without a cache: all n_tokens tokens are read."""
    _check(model, n_tokens)
    return Work(multiplications(model.config, n_tokens, n_tokens), weight_bytes(model, n_tokens), 0)


def multiplications(c: ModelConfig, T: int, S: int, absorbed: bool = False) -> int:
    """Count the multiplications of a pass over T tokens that attend to S. absorbed: use MLA's absorbed form."""
    feed_forward = T * (3 if c.ffn in ("swiglu", "geglu") else 2) * c.d_model * c.d_ff
    logits = T * c.d_model * c.vocab_size
    attention = _latent_attention(c, T, S, absorbed) if c.attention == "mla" else _attention(c, T, S)
    return c.n_layers * (attention + feed_forward) + logits


def _attention(c: ModelConfig, T: int, S: int) -> int:
    """Count one layer of attention: projections, scores q · kᵀ, weights · v."""
    projections = T * c.d_model * 2 * (c.n_heads + c.n_kv_heads) * c.head_dim  # q and o: H · D wide; k and v: K · D
    return projections + T * S * c.n_heads * 2 * c.head_dim


def _latent_attention(c: ModelConfig, T: int, S: int, absorbed: bool) -> int:
    """Count one layer of MLA. W_UK and W_UV are applied to every key token (expanded) or to every query (absorbed)."""
    q_width = c.n_heads * c.head_dim  # head_dim = N + P
    q = c.d_model * q_width if c.q_lora_rank is None else c.q_lora_rank * (c.d_model + q_width)
    latent = c.d_model * (c.kv_lora_rank + c.qk_rope_head_dim)
    output = c.n_heads * c.v_head_dim * c.d_model
    up = (T if absorbed else S) * c.n_heads * c.kv_lora_rank * (c.qk_nope_head_dim + c.v_head_dim)
    widths = 2 * c.kv_lora_rank + c.qk_rope_head_dim if absorbed else c.head_dim + c.v_head_dim  # scores and output
    return T * (q + latent + output) + up + T * S * c.n_heads * widths


def cached_numbers(c: ModelConfig) -> int:
    """Count the numbers cached per token and layer."""
    return c.kv_lora_rank + c.qk_rope_head_dim if c.attention == "mla" else 2 * c.n_kv_heads * c.head_dim


def weight_bytes(model: Transformer, n_tokens: int) -> int:
    """Count the bytes of weights that a pass reads: all, but only n_tokens rows of an untied embedding."""
    total = sum(p.nbytes for p in model.parameters())
    if model.lm_head is None:
        return total
    rows = model.embed.weight
    return total - rows.nbytes + min(n_tokens, len(rows)) * rows[0].nbytes


def number_bytes(model: Transformer) -> int:
    """Return the bytes per number of the model."""
    return model.embed.weight.element_size()


def _check(model: Transformer, n_tokens: int) -> None:
    whole("n_tokens", n_tokens)
    if model.config.sliding_window is not None:
        raise ConfigError(f"sliding_window must be None to be counted here, not {model.config.sliding_window}")
