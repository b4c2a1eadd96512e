"""A model run with some of its heads switched off: what the prediction is without them.

B batch, T tokens, L layers, H heads, D numbers that each head hands to the output projection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.modules import Transformer
from attnviz.modules.parts import with_own_parts
from attnviz.trace import predict

WAYS = ("zero", "mean")
TOKENS_AT_ONCE = 1024  # of a batch that has a head switched off in every row: short texts take hardly longer together


def predict_without(
    model: Transformer, token_ids: Sequence[int], off: Collection[tuple[int, int]], way: str = "zero"
) -> np.ndarray:
    """Logits (T, vocab_size) with the heads `off`, pairs (layer, head), switched off.

    way: "zero": they hand nothing to the output projection; "mean": at every position what they hand on, in this run,
    is its mean over the text's positions, so that only what tells positions apart is lost.
    """
    layers = {layer: [[head for at, head in off if at == layer]] for layer, _ in off}
    return predict(_cut(model, layers, way), token_ids)


@torch.inference_mode()
def losses_without_each(
    model: Transformer, token_ids: Sequence[int], way: str, progress: Callable[[float], object]
) -> np.ndarray:
    """(1 + L·H,) mean nats a token: with all heads, then without each alone, layer by layer.

    way: as for predict_without; progress is told the share that is done.
    """
    ids, (L, H) = torch.tensor([token_ids]), (model.config.n_layers, model.config.n_heads)  # (1, T)
    found, n_rows = [_mean_losses(model, ids)], max(1, TOKENS_AT_ONCE // len(token_ids))
    for layer in range(L):
        for first in range(0, H, n_rows):
            progress((layer * H + first) / (L * H))
            rows = [[head] for head in range(first, min(first + n_rows, H))]
            found.append(_mean_losses(_cut(model, {layer: rows}, way), ids))
    return torch.cat(found).numpy()


def _mean_losses(model: Transformer, ids: Tensor) -> Tensor:
    """(B,) nats a token of the text ids (1, T), in every row that the model makes of it."""
    logits = model(ids)  # (B, T, vocab_size)
    following = ids[:, 1:].expand(len(logits), -1).flatten()  # (B · (T - 1),)
    predicted = logits[:, :-1].flatten(0, 1)  # (B · (T - 1), vocab_size): torch is five times as fast with classes last
    return F.cross_entropy(predicted, following, reduction="none").view(len(logits), -1).mean(1)


def _cut(model: Transformer, layers: dict[int, list[list[int]]], way: str) -> Transformer:
    """The model without some heads: for each layer, those that are off in every row of a batch, or in all of them.

    One text becomes as many rows where the first of them is cut, so that what is before is computed once.
    """
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(WAYS)}, not {way!r}")
    attentions = {}
    for layer, rows in layers.items():
        off = torch.zeros(len(rows), model.config.n_heads, dtype=torch.bool)  # (B, H)
        for row, heads in zip(off, rows, strict=True):
            row[heads] = True
        attentions[layer] = attn = with_own_parts(model.blocks[layer].attn)
        attn.o_proj = nn.Sequential(_Cut(off, way), attn.o_proj)
    return model.with_attentions(attentions)


class _Cut(nn.Module):
    """What the heads hand to the output projection, with those that are `off`, bool (B, H), put out of action."""

    def __init__(self, off: Tensor, way: str) -> None:
        super().__init__()
        self.off, self.way = off, way

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H·D) -> (B, T, H·D)."""
        heads = x.unflatten(-1, (self.off.shape[1], -1))  # (B, T, H, D)
        instead = heads.mean(1, keepdim=True) if self.way == "mean" else heads.new_zeros(())
        return torch.where(self.off[:, None, :, None], instead, heads).flatten(2)
