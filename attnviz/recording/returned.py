"""The attention weights among what a model of transformers returned, checked against its tokens.

H query heads, T query tokens, S key tokens.
"""

from __future__ import annotations

from typing import Any

import torch

from attnviz.recording.inputs import Inputs
from attnviz.runs.arrays import RunError
from attnviz.runs.run import OUTPUTS

Weights = dict[str, list[torch.Tensor]]  # per kind of attention and layer, (1, H, T, S)


def weights_of(model: Any, given: Inputs, outputs: Any) -> Weights:
    """Return the weights of the layers that return some; RunError if none does, or if they are not one per token."""
    returned = {kind: getattr(outputs, key, None) or () for key, kind in OUTPUTS.items()}
    found = {kind: [each for each in layers if each is not None] for kind, layers in returned.items()}
    found = {kind: layers for kind, layers in found.items() if layers}
    if not found:
        raise RunError(f"{type(model).__name__} returned no attention weights: it has none, or none that are eager "
                       "(load it with attn_implementation='eager')")  # fmt: skip
    for kind, layers in found.items():
        lengths = _lengths(given, kind, layers[0])
        for each in layers:
            if each.dim() != 4 or each.shape[0] != 1 or each.shape[2:] != lengths or _slides(model):
                raise RunError(_other(model, each, lengths))
    return found


def _lengths(given: Inputs, kind: str, weights: torch.Tensor) -> tuple[int, int]:
    """Return how many queries and keys a kind of attention has to have; of pictures and sound, as many as it has."""
    decoder_ids = given.batch.get("decoder_input_ids")
    n_read = given.n_tokens
    if kind in ("decoder", "cross") and decoder_ids is not None:
        n = decoder_ids.shape[1]
        return (n, n) if kind == "decoder" else (n, weights.shape[-1] if n_read is None else n_read)
    n = weights.shape[-2] if n_read is None else n_read
    return n, n


def _slides(model: Any) -> bool:
    """Check for Longformer's weights, whose columns are places in a window, perhaps as many as there are tokens."""
    return hasattr(model.config, "attention_window")


def _other(model: Any, weights: torch.Tensor, lengths: tuple[int, int]) -> str:
    return (f"{type(model).__name__} returns attention of the shape {tuple(weights.shape)}, not weights (1, heads, "
            f"{lengths[0]}, {lengths[1]}) with a row and a column per token: attention in windows or blocks, pooled "
            "or linear is not shown")  # fmt: skip
