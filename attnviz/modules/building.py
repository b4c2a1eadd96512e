"""How each mechanism that runs is built: its module, with the sizes of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from attnviz.config import ModelConfig
from attnviz.mechanisms import Dense, GatedDelta, Grouped, Indexed, IndexedGrouped, IndexedLatent, Latent, Layer
from attnviz.modules.attention import GroupedQueryAttention
from attnviz.modules.delta import GatedDeltaNet
from attnviz.modules.embedding import PositionEmbedding, ScaledEmbedding, empty_embedding
from attnviz.modules.extended import CacheReadingAttention, ExtendedAttention
from attnviz.modules.feedforward import GeGLU, GELUFeedForward, SwiGLU
from attnviz.modules.indexed import SparseAttention, SparseLatentAttention
from attnviz.modules.latent import MultiHeadLatentAttention
from attnviz.modules.norm import LayerNorm, RMSNorm

FEED_FORWARDS = {"swiglu": SwiGLU, "geglu": GeGLU, "gelu": GELUFeedForward}


def _grouped(model: ModelConfig, c: Grouped) -> nn.Module:
    kind, own = _kind_of(c)
    return kind(  # d_model, n_heads, n_kv_heads, …
        model.d_model, c.n_heads, c.n_kv_heads, head_dim=c.head_dim, qkv_bias=c.qkv_bias, out_bias=c.o_bias,
        qk_norm=None if c.qk_norm is None else lambda D: RMSNorm(D, model.norm_eps), scale=c.scale, softcap=c.softcap,
        **own,
    )  # fmt: skip


def _kind_of(c: Grouped) -> tuple[type[nn.Module], dict[str, Any]]:
    """Return the class of this grouped-query attention, with the options that it alone has."""
    if isinstance(c, IndexedGrouped):
        return SparseAttention, _indexer(c)
    if not (c.sink_logits or c.gate or c.reads_cache):
        return GroupedQueryAttention, {}
    kind = CacheReadingAttention if c.reads_cache else ExtendedAttention
    return kind, {"sink_logits": c.sink_logits, "gate": c.gate, "gate_bias": c.gate_bias}


def _latent(model: ModelConfig, c: Latent) -> nn.Module:
    return MultiHeadLatentAttention(model.d_model, c.n_heads, **_sizes(c))


def _sizes(c: Latent) -> dict[str, Any]:
    return {name: getattr(c, name) for name in c.own_fields}


def _indexed_latent(model: ModelConfig, c: IndexedLatent) -> nn.Module:
    return SparseLatentAttention(model.d_model, c.n_heads, **_sizes(c), **_indexer(c))


def _indexer(c: Indexed) -> dict[str, Any]:
    return {"top_k": c.top_k, "n_index_heads": c.n_index_heads, "index_dim": c.index_dim}


def _delta(model: ModelConfig, c: GatedDelta) -> nn.Module:
    return GatedDeltaNet(
        model.d_model, c.n_heads, c.n_key_heads, key_dim=c.key_dim, head_dim=c.head_dim, taps=c.taps,
        norm_eps=model.norm_eps,
    )  # fmt: skip


def _dense(model: ModelConfig, c: Dense) -> nn.Module:
    return FEED_FORWARDS[activation_of(model, c)](model.d_model, c.d_ff, bias=c.bias)


def activation_of(model: ModelConfig, c: Dense) -> str:
    """Return a feed-forward's activation: its own, or the model's."""
    return model.ffn if c.activation is None else c.activation


BUILT: dict[type, Callable[[ModelConfig, Any], nn.Module]] = {  # how each mechanism that runs is built
    Grouped: _grouped, IndexedGrouped: _grouped, Latent: _latent, IndexedLatent: _indexed_latent,
    GatedDelta: _delta, Dense: _dense,
}  # fmt: skip


def build_attention(c: ModelConfig, layer: Layer | None = None) -> nn.Module:
    """Build the attention of one layer of this model, by default the first."""
    mixer = (layer or c.layers[0]).mixer
    return BUILT[type(mixer)](c, mixer)


def build_feed_forward(c: ModelConfig, layer: Layer) -> nn.Module:
    """Build the feed-forward of one layer of this model."""
    (part,) = layer.feed_forwards
    return BUILT[type(part)](c, part)


def build_norm(c: ModelConfig) -> RMSNorm | LayerNorm:
    """Build one of this model's norms over d_model."""
    return LayerNorm(c.d_model, c.norm_eps, c.norm_bias) if c.norm == "layernorm" else RMSNorm(c.d_model, c.norm_eps)


def build_embedding(c: ModelConfig) -> nn.Embedding:
    """Build the token embedding, with learned positions or a scale if the model has them."""
    if c.position == "learned":
        return PositionEmbedding(c.vocab_size, c.d_model, c.learned_position_rows or 0)
    if c.embedding_scale is not None:
        return ScaledEmbedding(c.vocab_size, c.d_model, c.embedding_scale)
    return nn.Embedding.from_pretrained(empty_embedding(c.vocab_size, c.d_model), freeze=False)
