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
import torch.nn.functional as F
from torch import Tensor

from attnviz.modules import Transformer


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


@torch.inference_mode()
def lens(model: Transformer, written: Residual) -> np.ndarray:
    """(1 + L, T, vocab_size) probabilities of the next token, read after the embedding and after each layer."""
    after = written.after[::2]  # after the embedding, and after the feed-forward of each layer
    return torch.stack([model.logits(x).softmax(-1) for x in after]).numpy()


@torch.inference_mode()
def attribution(model: Transformer, written: Residual, position: int, token: int) -> np.ndarray:
    """(1 + 2 L,) what each part adds to a token's logit at a position, in the order of `Residual.parts`.

    The last norm divides by the root mean square of the whole stream, which is kept as it is for each part.
    """
    parts = written.parts[:, position]  # (1 + 2 L, C)
    whole = parts.sum(0)
    scale = torch.rsqrt((whole * whole).mean() + model.norm.eps)
    row = (model.embed.weight if model.lm_head is None else model.lm_head.weight)[token]  # (C,)
    return (parts * scale * model.norm.weight @ row).numpy()


def _unembedded(model: Transformer, x: Tensor) -> Tensor:
    return F.linear(x, model.embed.weight) if model.lm_head is None else model.lm_head(x)
