"""The residual stream: what each part of a model writes into it, and what the model would predict from it early.

The logit lens (nostalgebraist, 2020) applies the last norm and the unembedding to the stream after each layer. Direct
logit attribution (Elhage et al., 2021, "A Mathematical Framework for Transformer Circuits") splits a logit into the
parts that were added to the stream, with the last norm's scale held at what it was in the run: then the parts add up.

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
    """What was written into the stream: their sum is what the last norm reads."""

    embedded: Tensor  # (T, C)
    attention: Tensor  # (L, T, C)
    feedforward: Tensor  # (L, T, C)

    @property
    def parts(self) -> Tensor:
        """(1 + 2 L, T, C) in the order they were written: embedding, attention 0, feed-forward 0, attention 1, …"""
        layers = torch.stack((self.attention, self.feedforward), dim=1).flatten(0, 1)  # (2 L, T, C)
        return torch.cat((self.embedded[None], layers))

    @property
    def after(self) -> Tensor:
        """(1 + 2 L, T, C), the stream after each part was added."""
        return self.parts.cumsum(0)

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.embedded, self.attention, self.feedforward))


def part_names(n_layers: int) -> list[str]:
    """The names of `Residual.parts`."""
    return ["embedding", *(f"{part} {layer}" for layer in range(n_layers) for part in ("attention", "feed-forward"))]


@torch.inference_mode()
def residual(model: Transformer, token_ids: Sequence[int]) -> Residual:
    """Run the model and keep what each block's two halves add to the stream."""
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
    """Read the prediction early at each token; a layer's probabilities are in memory at a time."""
    found = [model.logits(x).softmax(-1).max(-1) for x in written.after[::2]]  # after the feed-forward of each layer
    best, odds = (torch.stack([getattr(layer, name) for layer in found]).numpy() for name in ("indices", "values"))
    return Lens(best, odds)


@torch.inference_mode()
def lens_odds(model: Transformer, written: Residual, row: int, position: int) -> np.ndarray:
    """(V,) probabilities of the next token after a position, read after the embedding (row 0) or layer row - 1."""
    return model.logits(written.after[2 * row, position]).softmax(-1).numpy()


@torch.inference_mode()
def attribution(model: Transformer, written: Residual, position: int, token: int) -> np.ndarray:
    """(1 + 2 L,) what each part adds to a token's logit at a position, in the order of `Residual.parts`.

    The last norm divides by the root mean square of the whole stream, which is kept as it is for each part. LayerNorm
    takes each part's mean away first; its bias is a part of its own, the last. Before a soft cap, where there is one.
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
    """The model's own logit, without the soft cap where there is one."""
    return float(model.unembedded(model.norm(written.after[-1, position]))[token])
