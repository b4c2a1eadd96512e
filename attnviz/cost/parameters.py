"""The parameters of a model, counted part by part.

B batch, C d_model, H query heads, K KV heads, D head_dim; for MLA R kv_lora_rank, N qk_nope_head_dim,
P qk_rope_head_dim, V v_head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.config import ModelConfig


@dataclass(frozen=True)
class ParameterCount:
    """Parameters of a whole model by part, and those of one layer's attention by part.

    `parts` adds up to `total`, `attention` to `attention_per_layer`. Tied embeddings are counted once; buffers (RoPE
    frequencies, the bias that balances the load of DeepSeek-V3's experts) are not parameters.
    """

    parts: dict[str, int]
    attention: dict[str, int]
    active: int  # all but the experts that one token is not routed to
    unread_embeddings: int  # in embedding rows that one token does not read; 0 if the matrix is the output layer too

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    @property
    def used_per_token(self) -> int:
        """Parameters used for one token: only one row of an embedding that is looked up."""
        return self.active - self.unread_embeddings

    @property
    def attention_per_layer(self) -> int:
        return sum(self.attention.values())


def count_parameters(model: ModelConfig) -> ParameterCount:
    """Count the parameters of `model` by part; parts that it does not have are left out."""
    attention = _drop_empty(_latent_attention(model) if model.attention == "mla" else _attention(model))
    parts = {
        "token embeddings": model.vocab_size * model.d_model,
        "position embeddings": (model.learned_position_rows or 0) * model.d_model,
        **{part: model.n_layers * n for part, n in attention.items()},
        **_feed_forward(model),
        "norms": _norms(model),
        "output layer": _output_layer(model),
    }
    parts = _drop_empty(parts)
    active = sum(parts.values()) - _idle(model)
    return ParameterCount(parts, attention, active, _unread_embeddings(model))


def _drop_empty(parts: dict[str, int]) -> dict[str, int]:
    return {part: n for part, n in parts.items() if n}


def _attention(c: ModelConfig) -> dict[str, int]:
    """Count one layer of MHA, GQA or MQA, which differ only in K."""
    q_width, kv_width = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
    qk_norm = {"head": 2 * c.head_dim, "width": q_width + kv_width, None: 0}
    return {
        "q": _linear(c.d_model, q_width, c.qkv_bias),
        "k": _linear(c.d_model, kv_width, c.qkv_bias),
        "v": _linear(c.d_model, kv_width, c.qkv_bias),
        "o": _linear(q_width, c.d_model, c.o_bias),
        "q and k norms": qk_norm[c.qk_norm],
        "sinks": c.n_heads if c.attention_sinks else 0,
    }


def _latent_attention(c: ModelConfig) -> dict[str, int]:
    """Count one layer of MLA: down to a latent, its norm, and up again to the keys and values of every head."""
    q_width = c.n_heads * (c.qk_nope_head_dim + c.qk_rope_head_dim)
    kv_width = c.n_heads * (c.qk_nope_head_dim + c.v_head_dim)
    compressed = c.q_lora_rank is not None
    return {
        "q down": c.d_model * c.q_lora_rank if compressed else 0,
        "q up" if compressed else "q": (c.q_lora_rank if compressed else c.d_model) * q_width,
        "kv down": c.d_model * (c.kv_lora_rank + c.qk_rope_head_dim),
        "kv up": c.kv_lora_rank * kv_width,
        "o": c.n_heads * c.v_head_dim * c.d_model,
        "latent norms": c.kv_lora_rank + (c.q_lora_rank or 0),
        "sinks": c.n_heads if c.attention_sinks else 0,
    }


def _feed_forward(c: ModelConfig) -> dict[str, int]:
    """Count the feed-forwards of all layers: dense ones, and a mixture's router, shared and routed experts."""
    if c.moe is None:
        return {"feed-forward": c.n_layers * _ffn(c, c.d_ff, c.ffn_bias)}
    moe, n_mixed = c.moe, c.n_layers - c.moe.n_dense_layers
    return {
        "feed-forward": moe.n_dense_layers * _ffn(c, moe.dense_d_ff or c.d_ff, c.ffn_bias),
        "router": n_mixed * _linear(c.d_model, moe.n_routed_experts, moe.router_bias),
        "shared experts": n_mixed * moe.n_shared_experts * expert_parameters(c),
        "experts": n_mixed * moe.n_routed_experts * expert_parameters(c),
    }


def expert_parameters(c: ModelConfig) -> int:
    """Count the parameters of one expert of a mixture."""
    assert c.moe is not None
    return _ffn(c, c.moe.d_ff_expert, c.moe.expert_bias)


def _idle(c: ModelConfig) -> int:
    """Count the parameters of the experts that a token is not routed to."""
    if c.moe is None:
        return 0
    n_mixed = c.n_layers - c.moe.n_dense_layers
    return n_mixed * (c.moe.n_routed_experts - c.moe.experts_per_token) * expert_parameters(c)


def _unread_embeddings(c: ModelConfig) -> int:
    """Count the parameters of the rows of token and position embeddings that one token does not read."""
    tokens = 0 if c.tie_embeddings else c.vocab_size - 1
    positions = max((c.learned_position_rows or 0) - 1, 0)
    return (tokens + positions) * c.d_model


def _ffn(c: ModelConfig, width: int, bias: bool) -> int:
    """Count a feed-forward: two matrices with GELU or ReLU, three if gated (SwiGLU, GeGLU)."""
    n_in = 2 if c.ffn in ("swiglu", "geglu") else 1
    return n_in * _linear(c.d_model, width, bias) + _linear(width, c.d_model, bias)


def _norms(c: ModelConfig) -> int:
    """Count each layer's norms, the final norm, and the norm after the embedding if there is one."""
    n_norms = c.n_layers * c.norms_per_layer + 1 + c.embedding_norm
    return n_norms * c.d_model * (2 if c.norm_bias else 1)


def _output_layer(c: ModelConfig) -> int:
    """Count the matrix from d_model to the vocabulary; with tied embeddings only its bias, if any."""
    return (0 if c.tie_embeddings else c.vocab_size * c.d_model) + (c.vocab_size if c.lm_head_bias else 0)


def _linear(n_in: int, n_out: int, bias: bool) -> int:
    return n_in * n_out + (n_out if bias else 0)
