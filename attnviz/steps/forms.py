"""Run one layer of a model in another of its forms, so that it can be recorded like any other layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attnviz.modules import Transformer


class InForm(nn.Module):
    """A wrapper that calls an attention module with these options; weights are shared."""

    def __init__(self, attn: nn.Module, **form: Any) -> None:
        super().__init__()
        self.attn, self.form = attn, form

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        """Map x (B, T, C) to (B, T, C)."""
        return self.attn(x, **self.form, **options)


def with_absorbed(model: Transformer, layer: int) -> Transformer:
    """Return the model with this layer's latent attention in the absorbed form; nothing is copied."""
    return model.with_attentions({layer: InForm(model.blocks[layer].attn, absorbed=True)})


def with_recurrent(model: Transformer, layer: int) -> Transformer:
    """Return the model with this layer's state updated token by token, not in chunks; nothing is copied."""
    return model.with_attentions({layer: InForm(model.blocks[layer].attn, recurrent=True)})
