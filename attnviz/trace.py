"""Traces: the intermediate results of a model run on a text, as read-only numpy arrays.

L layers, H query heads, K KV heads, T tokens, S = T keys, D head_dim, V width of a value: v_head_dim in MLA, else D.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.modules import Recording, Transformer
from attnviz.modules.transformer import layer_input

ROWS_AT_ONCE = 16  # of logits, which take 10 MB with a vocabulary of 150,000


@dataclass(frozen=True, eq=False)
class Trace:
    """Intermediate results of attention for one text; float32, without a batch axis."""

    config: ModelConfig
    tokens: np.ndarray  # (T,) int64
    q: np.ndarray  # (L, H, T, D), rotated by RoPE
    k: np.ndarray  # (L, K, T, D), rotated by RoPE; for MLA expanded, so K = H
    v: np.ndarray  # (L, K, T, V)
    q_pre_rope: np.ndarray  # (L, H, T, D)
    k_pre_rope: np.ndarray  # (L, K, T, D)
    weights: np.ndarray  # (L, H, T, T), each row sums to 1 (or to 0 where all keys are masked)
    allowed: np.ndarray  # (L, T, T) bool, True = may attend
    logits: np.ndarray  # (T, vocab_size)
    scale: float  # factor on q·k before the softmax: attention_scale, else 1 / sqrt(D); in MLA times YaRN's mscale²
    seconds: float  # duration of the run

    @property
    def scores(self) -> np.ndarray:
        """Scores q·k · scale before the mask, (L, H, T, T), soft-capped if the model does so.

        Recomputed instead of stored, since they are as large as the weights.
        """
        L, H = self.q.shape[:2]
        return np.stack([[self.scores_of(layer, head) for head in range(H)] for layer in range(L)])

    def scores_of(self, layer: int, head: int) -> np.ndarray:
        """Return the scores of one head, (T, T); head h reads KV head h // (H / K)."""
        H, K = self.q.shape[1], self.k.shape[1]
        scores = (self.q[layer, head] * self.scale) @ self.k[layer, head // (H // K)].T
        cap = self.config.attention_softcap
        return scores if cap is None else cap * np.tanh(scores / cap)

    @cached_property
    def nbytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(a.nbytes for a in (getattr(self, f.name) for f in fields(self)) if isinstance(a, np.ndarray))


def trace_bytes(config: ModelConfig, n_tokens: int) -> int:
    """Return the exact size in bytes of a trace of n_tokens, without allocating it."""
    c, T = config, n_tokens
    per_layer = 2 * c.n_heads * c.head_dim + c.n_kv_heads * (2 * c.head_dim + c.mixer.value_dim)
    per_token = c.n_layers * per_layer + c.vocab_size
    return 4 * (T * per_token + c.n_layers * c.n_heads * T * T) + c.n_layers * T * T + 8 * T


def use_one_thread() -> None:
    """Limit torch to one thread: tensors this small gain nothing from a second, and under load they wait for it."""
    torch.set_num_threads(1)


@torch.inference_mode()
def trace(model: Transformer, token_ids: Sequence[int], n_padding: int = 0) -> Trace:
    """Run the model on the tokens and record a `Trace`. ValueError for no tokens or an id out of the vocabulary.

    n_padding: number of padding tokens at the front, which are masked for all queries.
    """
    ids = checked(token_ids, model.config.vocab_size)
    layers = _Layers(model.config.n_layers)
    began = time.perf_counter()
    logits = model(ids, mask=not_padding(ids, n_padding), record=layers)[0]  # (T, vocab_size)
    return Trace(
        config=model.config,
        tokens=_numpy(ids[0]),
        **{name: _numpy(array) for name, array in layers.arrays.items()},
        logits=_numpy(logits),
        scale=layers.scale,
        seconds=time.perf_counter() - began,
    )


class _Layers:
    """Record callback that copies each layer's tensors into preallocated arrays of all layers, to limit peak memory."""

    def __init__(self, n_layers: int) -> None:
        self.n_layers, self.done, self.scale = n_layers, 0, 0.0
        self.arrays: dict[str, Tensor] = {}

    def __call__(self, scale: float, **computed: Any) -> None:
        self.scale = scale
        for name, part in computed.items():
            one = _expanded_mask(part, computed["weights"]) if name == "allowed" else part[0]  # B = 1
            if self.n_layers == 1:
                self.arrays[name] = one[None]  # a view: no copy needed
                continue
            if not self.done:
                self.arrays[name] = one.new_empty(self.n_layers, *one.shape)
            self.arrays[name][self.done] = one
        self.done += 1


def _expanded_mask(allowed: Tensor | None, weights: Tensor) -> Tensor:
    """Expand a mask to bool (T, S); masks here have no batch or head axis: (T, S), (1, S) or None."""
    return torch.ones(weights.shape[2:], dtype=torch.bool) if allowed is None else allowed.expand(weights.shape[2:])


@torch.inference_mode()
def predict(model: Transformer, token_ids: Sequence[int]) -> np.ndarray:
    """Return only the logits, (T, vocab_size), with a fraction of a trace's memory."""
    return _numpy(model(checked(token_ids, model.config.vocab_size))[0])


def likeliest(logits: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the n likeliest tokens of each row and their probabilities, likeliest first: (T, vocab_size) -> (T, n)."""
    tokens, odds = [], []
    for first in range(0, len(logits), ROWS_AT_ONCE):
        rows = torch.tensor(logits[first : first + ROWS_AT_ONCE])  # a copy: torch does not take read-only arrays
        best, at = rows.topk(n)  # (rows, n)
        tokens.append(at)
        odds.append((best - rows.logsumexp(-1, keepdim=True)).exp())
    return _numpy(torch.cat(tokens)), _numpy(torch.cat(odds))


@torch.inference_mode()
def stream_of(model: Transformer, ids: Tensor, n_padding: int, stride: int) -> tuple[dict[int, Tensor], Tensor]:
    """Return the residual stream before each stride-th layer, (1, T, C) each, and after the last block."""
    streams, x = dict[int, Tensor](), model.embed(ids)
    options = model.attention_options(ids.shape[1], mask=not_padding(ids, n_padding))
    for i, (block, option) in enumerate(zip(model.blocks, options, strict=True)):
        if i % stride == 0:
            streams[i] = x
        x = block(x, **option)
    return streams, x


def final_stream(model: Transformer, token_ids: Sequence[int], n_padding: int = 0) -> np.ndarray:
    """Return the residual stream after the last block, (T, C), before the final norm. n_padding: as for `trace`."""
    ids = checked(token_ids, model.config.vocab_size)
    return _numpy(stream_of(model, ids, n_padding, model.config.n_layers)[1][0])


@torch.inference_mode()
def logits_of(model: Transformer, stream: np.ndarray) -> np.ndarray:
    """Return the logits (…, vocab_size) from the residual stream (…, C) after the last block."""
    return _numpy(model.logits(torch.tensor(stream)))  # a copy: torch does not take read-only arrays


@torch.inference_mode()
def weights_of(model: Transformer, token_ids: Sequence[Sequence[int]]) -> np.ndarray:
    """Return only the weights of a batch of N texts of one length: ids (N, T) give (N, L, H, T, T)."""
    record = Recording()
    _run_to(model, token_ids, model.config.n_layers - 1, record)
    return _numpy(torch.stack([r.weights for r in record], dim=1))


@torch.inference_mode()
def allowed_of(model: Transformer, n_tokens: int) -> np.ndarray:
    """Return the masks of a text of n_tokens without padding: bool (L, T, T), as in a `Trace`."""
    shape = n_tokens, n_tokens
    masks = [options["mask"] for options in model.attention_options(n_tokens)]
    return np.stack([np.broadcast_to(True if mask is None else _numpy(mask), shape) for mask in masks])


@torch.inference_mode()
def layer_weights(model: Transformer, token_ids: Sequence[int], layer: int) -> np.ndarray:
    """Return only the weights of one layer, (H, T, T), in a fraction of a trace's time."""
    record = Recording()
    _run_to(model, token_ids, layer, record)
    return _numpy(record[-1].weights[0])


def _run_to(model: Transformer, token_ids: Sequence, layer: int, record: Recording) -> None:
    """Run the model up to this layer's attention and record each layer; later layers are not computed."""
    x = layer_input(model, token_ids, layer, record)
    model.blocks[layer].attn(x, record=record, **model.attention_options(x.shape[1])[layer])


@torch.inference_mode()
def cross_weights(model: Transformer, token_ids: Sequence[int], context_ids: Sequence[int]) -> np.ndarray:
    """Return cross-attention weights (L, H, T, S) with queries from one text and keys from another.

    Each text is run on its own; each layer's attention is then applied to its usual input for both texts, the other's
    as `context`, without a mask and without RoPE, since positions in two texts have no distance. Not for MLA.
    """
    record = Recording()
    size = model.config.vocab_size
    x, y = (model.embed(checked(ids, size)) for ids in (token_ids, context_ids))  # (1, T, C), (1, S, C)
    options = (model.attention_options(stream.shape[1]) for stream in (x, y))
    for block, of_x, of_y in zip(model.blocks, *options, strict=True):
        block.attn(block.attn_norm(x), context=block.attn_norm(y), record=record)
        x, y = block(x, **of_x), block(y, **of_y)
    return _numpy(torch.cat([r.weights for r in record]))


def not_padding(ids: Tensor, n_padding: int) -> Tensor | None:
    """Return the padding mask, bool (1, T), True = a token of the text; None without padding."""
    return torch.arange(ids.shape[1])[None] >= n_padding if n_padding else None


def checked(token_ids: Sequence[int], vocab_size: int) -> Tensor:
    """Convert ids to int64 (1, T). ValueError for an empty sequence or an id out of the vocabulary."""
    ids = torch.as_tensor(token_ids, dtype=torch.int64)
    if ids.ndim != 1 or not len(ids):
        raise ValueError(f"a trace needs a sequence of at least one token, not shape {tuple(ids.shape)}")
    if int(ids.min()) < 0 or int(ids.max()) >= vocab_size:
        raise ValueError(f"token ids must lie between 0 and {vocab_size - 1}, not {int(ids.min())} to {int(ids.max())}")
    return ids[None]


def _numpy(tensor: Tensor) -> np.ndarray:
    array = tensor.numpy()
    array.flags.writeable = False
    return array
