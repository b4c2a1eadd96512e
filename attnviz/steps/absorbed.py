"""Run latent attention in its absorbed form inside a model, so that it can be recorded like any other layer."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attnviz.modules import Transformer


class Absorbed(nn.Module):
    """A wrapper that calls an attention module with `absorbed=True`; weights are shared."""

    def __init__(self, attn: nn.Module) -> None:
        super().__init__()
        self.attn = attn

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        """Map x (B, T, C) to (B, T, C)."""
        return self.attn(x, absorbed=True, **options)


def with_absorbed(model: Transformer, layer: int) -> Transformer:
    """Return the model with this layer's latent attention in the absorbed form; nothing is copied."""
    return model.with_attentions({layer: Absorbed(model.blocks[layer].attn)})
