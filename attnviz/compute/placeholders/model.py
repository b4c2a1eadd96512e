"""Placeholders: the text and the model."""

from __future__ import annotations

from attnviz.compute.placeholders.registry import placeholder
from attnviz.compute.view import View
from attnviz.cost import attention_name
from attnviz.phrases import count


@placeholder
def n_tokens(view: View) -> str:
    """Tokens of the text."""
    return str(len(view.ids))


@placeholder
def model(view: View) -> str:
    """The type of attention: GQA-4."""
    return attention_name(view.config)


@placeholder
def n_layers(view: View) -> str:
    """Layers."""
    return str(view.config.n_layers)


@placeholder
def n_heads(view: View) -> str:
    """Query heads of a layer."""
    return str(view.config.n_heads)


@placeholder
def n_all_heads(view: View) -> str:
    """Query heads of all layers."""
    return str(view.config.n_layers * view.config.n_heads)


@placeholder
def n_kv_heads(view: View) -> str:
    """KV heads of a layer, counted: "4 KV heads"."""
    return count(view.config.n_kv_heads, "KV head")


@placeholder
def group_size(view: View) -> str:
    """Query heads that read one KV head."""
    return str(view.config.group_size)


@placeholder
def d_model(view: View) -> str:
    """d_model."""
    return str(view.config.d_model)


@placeholder
def head_dim(view: View) -> str:
    """Dimensions of a head."""
    return str(view.config.head_dim)


@placeholder
def latent(view: View) -> str:
    """Numbers of MLA's latent."""
    return str(view.config.kv_lora_rank or 0)


@placeholder
def rope_key(view: View) -> str:
    """Dimensions of MLA's shared RoPE key."""
    return str(view.config.qk_rope_head_dim or 0)
