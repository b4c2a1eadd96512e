"""A model run with some of its heads switched off: what the prediction is without them.

B batch, T tokens, H heads, D numbers that each head hands to the output projection.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from torch import Tensor, nn

from attnviz.modules import Transformer
from attnviz.modules.parts import with_own_parts
from attnviz.trace import predict

WAYS = ("zero", "mean")


def predict_without(
    model: Transformer, token_ids: Sequence[int], off: Collection[tuple[int, int]], way: str = "zero"
) -> np.ndarray:
    """Logits (T, vocab_size) with the heads `off`, pairs (layer, head), switched off.

    way: "zero": they hand nothing to the output projection; "mean": at every position what they hand on, in this run,
    is its mean over the text's positions, so that only what tells positions apart is lost.
    """
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(WAYS)}, not {way!r}")
    attentions = {}
    for layer in {layer for layer, _ in off}:
        attentions[layer] = attn = with_own_parts(model.blocks[layer].attn)
        cut = _Cut(model.config.n_heads, sorted(head for at, head in off if at == layer), way)
        attn.o_proj = nn.Sequential(cut, attn.o_proj)
    return predict(model.with_attentions(attentions), token_ids)


class _Cut(nn.Module):
    """What the heads hand to the output projection, with the heads `off` put out of action."""

    def __init__(self, n_heads: int, off: list[int], way: str) -> None:
        super().__init__()
        self.n_heads, self.off, self.way = n_heads, off, way

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H·D) -> (B, T, H·D)."""
        heads = x.unflatten(-1, (self.n_heads, -1)).clone()  # (B, T, H, D)
        heads[:, :, self.off] = heads[:, :, self.off].mean(1, keepdim=True) if self.way == "mean" else 0.0
        return heads.flatten(2)
