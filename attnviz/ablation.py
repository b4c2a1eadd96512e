"""A model run with some of its heads switched off: what the prediction is without them.

B batch, T tokens, H heads, D numbers that each head hands to the output projection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from attnviz.modules import Transformer
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
    own = model.with_config(model.config)  # the hooks go on modules of our own; the weights stay shared
    for layer in {layer for layer, _ in off}:
        heads = sorted(head for at, head in off if at == layer)
        own.blocks[layer].attn.o_proj.register_forward_pre_hook(_cut(model.config.n_heads, heads, way))
    return predict(own, token_ids)


def _cut(n_heads: int, off: list[int], way: str) -> Callable:
    """A hook for an output projection that puts what the heads `off` hand to it out of action."""

    def cut(_: torch.nn.Module, inputs: tuple[Tensor]) -> Tensor:
        heads = inputs[0].unflatten(-1, (n_heads, -1)).clone()  # (B, T, H, D)
        heads[:, :, off] = heads[:, :, off].mean(1, keepdim=True) if way == "mean" else 0.0
        return heads.flatten(2)  # (B, T, H·D)

    return cut
