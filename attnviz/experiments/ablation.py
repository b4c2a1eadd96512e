"""A model run with some of its heads ablated: zero ablation and mean ablation.

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

TOKENS_AT_ONCE = 1024  # of a batch that has a head ablated in every row: short texts take hardly longer together


@torch.inference_mode()
def mean_outputs(model: Transformer, token_ids: Sequence[int]) -> np.ndarray:
    """(L, H, D): each head's output, before the output projection, averaged over the tokens of a reference text."""
    found: list[torch.Tensor] = []
    attentions: dict[int, nn.Module] = {}
    for layer, block in enumerate(model.blocks):
        attentions[layer] = attn = with_own_parts(block.attn)
        attn.o_proj = nn.Sequential(_Averaged(found, model.config.n_heads), attn.o_proj)
    model.with_attentions(attentions)(torch.tensor([token_ids]))
    return torch.stack(found).numpy()


def predict_without(
    model: Transformer,
    token_ids: Sequence[int],
    off: Collection[tuple[int, int]],
    means: np.ndarray | None = None,
) -> np.ndarray:
    """Logits (T, vocab_size) with the heads `off`, pairs (layer, head), ablated.

    means: None for zero ablation, where their output is zero at every position; for mean ablation (L, H, D), what it is
    at every position: the `mean_outputs` of a reference text. A mean over this text would hold what comes later in it.
    """
    layers = {layer: [[head for at, head in off if at == layer]] for layer, _ in off}
    return predict(_cut(model, layers, means), token_ids)


@torch.inference_mode()
def losses_without_each(
    model: Transformer, token_ids: Sequence[int], means: np.ndarray | None, progress: Callable[[float], object]
) -> np.ndarray:
    """(1 + L·H,) mean loss in nats per token: with all heads, then with each one alone ablated, layer by layer.

    means: as for predict_without; progress is told the share that is done.
    """
    ids, (L, H) = torch.tensor([token_ids]), (model.config.n_layers, model.config.n_heads)  # (1, T)
    found, n_rows = [_mean_losses(model, ids)], max(1, TOKENS_AT_ONCE // len(token_ids))
    for layer in range(L):
        for first in range(0, H, n_rows):
            progress((layer * H + first) / (L * H))
            rows = [[head] for head in range(first, min(first + n_rows, H))]
            found.append(_mean_losses(_cut(model, {layer: rows}, means), ids))
    return torch.cat(found).numpy()


def _mean_losses(model: Transformer, ids: Tensor) -> Tensor:
    """(B,) loss in nats per token of the text ids (1, T), in each row that the model makes of it."""
    logits = model(ids)  # (B, T, vocab_size)
    following = ids[:, 1:].expand(len(logits), -1).flatten()  # (B · (T - 1),)
    predicted = logits[:, :-1].flatten(0, 1)  # (B · (T - 1), vocab_size): torch is five times as fast with classes last
    return F.cross_entropy(predicted.double(), following, reduction="none").view(len(logits), -1).mean(1)


def _cut(model: Transformer, layers: dict[int, list[list[int]]], means: np.ndarray | None) -> Transformer:
    """The model with heads ablated: for each layer, those of each row of a batch, or of all rows at once.

    One text becomes as many rows at the first ablated layer, so that what is before it is computed once.
    """
    attentions = {}
    for layer, rows in layers.items():
        off = torch.zeros(len(rows), model.config.n_heads, dtype=torch.bool)  # (B, H)
        for row, heads in zip(off, rows, strict=True):
            row[heads] = True
        attentions[layer] = attn = with_own_parts(model.blocks[layer].attn)
        instead = torch.zeros(()) if means is None else torch.tensor(means[layer])
        attn.o_proj = nn.Sequential(_Cut(off, instead), attn.o_proj)
    return model.with_attentions(attentions)


class _Cut(nn.Module):
    """The heads' outputs on their way to the output projection, with those that are `off`, bool (B, H), replaced.

    instead: (H, D), the same at every position, or zero.
    """

    def __init__(self, off: Tensor, instead: Tensor) -> None:
        super().__init__()
        self.off, self.instead = off, instead

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H·D) -> (B, T, H·D)."""
        heads = x.unflatten(-1, (self.off.shape[1], -1))  # (B, T, H, D)
        return torch.where(self.off[:, None, :, None], self.instead, heads).flatten(2)


class _Averaged(nn.Module):
    """Passes the heads' outputs on and appends their mean over the positions, (H, D), to `found`."""

    def __init__(self, found: list[Tensor], n_heads: int) -> None:
        super().__init__()
        self.found, self.n_heads = found, n_heads

    def forward(self, x: Tensor) -> Tensor:
        """(1, T, H·D) -> the same."""
        self.found.append(x[0].unflatten(-1, (self.n_heads, -1)).mean(0))
        return x
