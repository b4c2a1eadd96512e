"""The attention weights among what a model of transformers returned, checked against its tokens.

H query heads, T query tokens, S key tokens.
"""

from __future__ import annotations

from typing import Any

import torch

from attnviz.recording.inputs import Inputs
from attnviz.runs.arrays import RunError
from attnviz.runs.kinds import CALLED
from attnviz.runs.run import OUTPUTS

NONE = "returned no attention weights: it has none, or none that are eager (load it with attn_implementation='eager')"
Weights = dict[str, list[torch.Tensor]]  # per kind of attention and layer, (1, H, T, S)


def weights_of(model: Any, given: Inputs, outputs: Any) -> tuple[Weights, list[str]]:
    """Return the weights of the layers that have one per pair of tokens, and what is said of the others.

    RunError if there are none.
    """
    found: Weights = {}
    said: list[str] = []
    for key, kind in OUTPUTS.items():
        fitting: list[torch.Tensor] = []
        others: list[Any] = []
        for layer in getattr(outputs, key, None) or ():
            (fitting if _fits(model, given, kind, layer) else others).append(layer)
        if given.n_tokens is None and (others or len({each.shape[2:] for each in fitting}) > 1):
            fitting, others = [], others + fitting  # of a picture: cut into windows, or merged from layer to layer
        found |= {kind: fitting} if fitting else {}
        said += [_other(model, each, kind) for each in others if each is not None][:1]
    if not found:
        raise RunError(said[0] if said else f"{type(model).__name__} {NONE}")
    return found, [f"{sentence}." for sentence in said]


def _fits(model: Any, given: Inputs, kind: str, layer: Any) -> bool:
    """Check for weights of one text with a row per query token and a column per key token."""
    if not isinstance(layer, torch.Tensor) or layer.dim() != 4 or layer.shape[0] != 1:
        return False
    return layer.shape[2:] == _lengths(given, kind, layer) and not (kind in ("self", "encoder") and _slides(model))


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


def _other(model: Any, layer: Any, kind: str) -> str:
    shape = f" of the shape {tuple(layer.shape)}" if isinstance(layer, torch.Tensor) else ""
    return (f"{type(model).__name__} returns {CALLED[kind]}{shape}, not as (1, heads, queries, keys) with a weight per "
            "pair of tokens: attention in windows or blocks, pooled or linear, is not shown")  # fmt: skip
