"""The residual stream: what each part of a model adds to it, the logit lens and direct logit attribution.

The logit lens (nostalgebraist, 2020) applies the last norm and the unembedding to the stream after each layer. Direct
logit attribution (Elhage et al., 2021, "A Mathematical Framework for Transformer Circuits") splits a logit into the
parts that were added to the stream, with the last norm's scale held at its value in the run, so that the parts add up.

L layers, T tokens, C d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnviz.modules import LayerNorm, Transformer


@dataclass(frozen=True, eq=False)
class Residual:
    """The parts added to the residual stream; their sum is the input of the last norm."""

    embedded: Tensor  # (T, C)
    attention: Tensor  # (L, T, C)
    feedforward: Tensor  # (L, T, C)

    @property
    def parts(self) -> Tensor:
        """(1 + 2 L, T, C) in the order they are added: embedding, attention 0, feed-forward 0, attention 1, …"""
        layers = torch.stack((self.attention, self.feedforward), dim=1).flatten(0, 1)  # (2 L, T, C)
        return torch.cat((self.embedded[None], layers))

    @property
    def after(self) -> Tensor:
        """(1 + 2 L, T, C), the stream after each part is added."""
        return self.parts.cumsum(0)

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.embedded, self.attention, self.feedforward))


def part_names(n_layers: int) -> list[str]:
    """Return the names of `Residual.parts`."""
    return ["embedding", *(f"{part} {layer}" for layer in range(n_layers) for part in ("attention", "feed-forward"))]


@torch.inference_mode()
def residual(model: Transformer, token_ids: Sequence[int]) -> Residual:
    """Run the model and record what each block's attention and feed-forward add to the stream."""
    x = embedded = model.embed(torch.tensor([token_ids]))  # (1, T, C)
    attention, feedforward = [], []
    for block, options in zip(model.blocks, model.attention_options(x.shape[1]), strict=True):
        attention.append(block.after_attention(block.attn(block.attn_norm(x), **options)))
        x = x + attention[-1]
        feedforward.append(block.after_feed_forward(block.ffn(block.ffn_norm(x))))
        x = x + feedforward[-1]
    return Residual(embedded[0], torch.cat(attention), torch.cat(feedforward))


@dataclass(frozen=True, eq=False)
class Lens:
    """The most probable next token and its probability, read after the embedding and after each layer."""

    best: np.ndarray  # (1 + L, T) token ids
    odds: np.ndarray  # (1 + L, T)

    @property
    def nbytes(self) -> int:
        return self.best.nbytes + self.odds.nbytes


@torch.inference_mode()
def lens(model: Transformer, written: Residual) -> Lens:
    """Apply the logit lens at each token, with the probabilities of one layer in memory at a time."""
    layers = [model.logits(x).softmax(-1).max(-1) for x in written.after[::2]]  # after the feed-forward of each layer
    best, odds = (torch.stack([getattr(layer, name) for layer in layers]).numpy() for name in ("indices", "values"))
    return Lens(best, odds)


@torch.inference_mode()
def lens_odds(model: Transformer, written: Residual, row: int, position: int) -> np.ndarray:
    """Return (V,) next-token probabilities at a position, read after the embedding (row 0) or layer row - 1."""
    return model.logits(written.after[2 * row, position]).softmax(-1).numpy()


@torch.inference_mode()
def attribution(model: Transformer, written: Residual, position: int, token: int) -> np.ndarray:
    """Return (1 + 2 L,): how much each part adds to a token's logit at a position, in the order of `Residual.parts`.

    The last norm divides by the root mean square of the whole stream, which is held fixed for each part. LayerNorm
    subtracts each part's mean first; its bias is an additional last part. The logit is that before a soft cap.
    """
    parts = written.parts[:, position]  # (1 + 2 L, C)
    if isinstance(model.norm, LayerNorm):
        parts = parts - parts.mean(-1, keepdim=True)
    whole = parts.sum(0)
    scale = torch.rsqrt((whole * whole).mean() + model.norm.eps)
    row = (model.embed.weight if model.lm_head is None else model.lm_head.weight)[token]  # (C,)
    added = parts * scale * model.norm.weight @ row
    bias = getattr(model.norm, "bias", None)
    return (added if bias is None else torch.cat((added, (bias @ row)[None]))).numpy()


@torch.inference_mode()
def logit_before_cap(model: Transformer, written: Residual, position: int, token: int) -> float:
    """Return the model's own logit, before a soft cap."""
    return float(model.unembedded(model.norm(written.after[-1, position]))[token])
