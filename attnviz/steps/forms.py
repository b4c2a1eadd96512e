"""Run one layer of a model in another of its forms, so that it can be recorded like any other layer."""

from __future__ import annotations

from attnviz.modules import Transformer
from attnviz.modules.shallow import InForm


def with_absorbed(model: Transformer, layer: int) -> Transformer:
    """Return the model with this layer's latent attention in the absorbed form; nothing is copied."""
    return model.with_attentions({layer: InForm(model.blocks[layer].attn, absorbed=True)})


def with_recurrent(model: Transformer, layer: int) -> Transformer:
    """Return the model with this layer's state updated token by token, not in chunks; nothing is copied."""
    return model.with_attentions({layer: InForm(model.blocks[layer].attn, recurrent=True)})
