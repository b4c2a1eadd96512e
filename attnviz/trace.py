"""Traces: the intermediate results of a model run on a text, layer by layer, as read-only numpy arrays.

H query heads, K KV heads, T tokens, S = T keys, D head_dim, V width of a value: v_head_dim in MLA, else D.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.mechanisms import Mixer
from attnviz.modules import AttentionRecord, Recording, Transformer
from attnviz.modules.recording import shares_of
from attnviz.modules.transformer import layer_input

RECORDED = frozenset(AttentionRecord._fields)  # by every mechanism
ROWS_AT_ONCE = 16  # of logits, which take 10 MB with a vocabulary of 150,000


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """What one layer's attention computed for one text; float32, without a batch axis."""

    mixer: Mixer
    q: np.ndarray  # (H, T, D), rotated by RoPE
    k: np.ndarray  # (K, T, D), rotated by RoPE; for MLA expanded, so K = H
    v: np.ndarray  # (K, T, V); of the gated delta rule after its convolution, as q and k, and (H, T, V)
    q_pre_rope: np.ndarray  # (H, T, D)
    k_pre_rope: np.ndarray  # (K, T, D)
    weights: np.ndarray  # (H, T, T), each row sums to 1 (or to 0 where all keys are masked), unless they are effective
    allowed: np.ndarray  # (T, T) bool, True = may attend
    scale: float  # factor on q·k before the softmax: the mixer's own, else 1 / sqrt(D); in MLA times YaRN's mscale²
    own: Mapping[str, np.ndarray] = field(default_factory=dict)  # what only this mechanism records

    def scores_of(self, head: int) -> np.ndarray:
        """Return a head's scores q·k · scale before the mask, (T, T), soft-capped if the model does so.

        Recomputed instead of stored, since they are as large as the weights.
        """
        scores = (self.q[head] * self.scale) @ self.keys_of(head).T
        cap = self.mixer.softcap
        return scores if cap is None else cap * np.tanh(scores / cap)

    def sink_logit_of(self, head: int) -> float | None:
        """Return a head's learned sink logit, which its softmax has besides the scores; None without one."""
        return float(self.own["sink_logits"][head]) if self.mixer.sink_logits else None

    @property
    def scores(self) -> np.ndarray:
        """The scores of all heads, (H, T, T)."""
        return np.stack([self.scores_of(head) for head in range(self.mixer.n_heads)])

    def weights_of(self, head: int) -> np.ndarray:
        """Return a head's weights, (T, T)."""
        return self.weights[head]

    @property
    def shares(self) -> np.ndarray:
        """Each query's shares of weight (H, T, T): the weights, or the shares of effective weights' absolute values."""
        return shares_of(self.weights, self.mixer)

    @property
    def attention(self) -> np.ndarray:
        """The weights (H, T, T) of a layer that attends; 0 in others, whose numbers do not compare with these."""
        return self.weights if self.mixer.attends else np.zeros_like(self.weights)

    def keys_of(self, head: int) -> np.ndarray:
        """Return the keys that a query head reads, (T, D)."""
        return self.k[self.mixer.kv_head_of[head]]

    def values_of(self, head: int) -> np.ndarray:
        """Return the values that a query head reads, (T, V)."""
        return self.v[self.mixer.value_head_of[head]]

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes; a mask that layers share is counted for each."""
        own = self.own.values()
        return sum(a.nbytes for a in (*vars(self).values(), *own) if isinstance(a, np.ndarray))


def _stacked(name: str) -> Any:
    def stacked(trace: Trace) -> np.ndarray:
        arrays = [getattr(layer, name) for layer in trace.layers]
        if len({array.shape for array in arrays}) > 1:
            raise ValueError(f"the layers differ in the shape of {name}: ask each of trace.layers for its own")
        whole = np.stack(arrays)
        whole.flags.writeable = False
        return whole

    return property(stacked)


@dataclass(frozen=True, eq=False)
class Trace:
    """Intermediate results of attention for one text, layer by layer.

    For code outside this project, each array of a layer is also here, stacked over the layers on a first axis.
    """

    config: ModelConfig
    tokens: np.ndarray  # (T,) int64
    layers: Sequence[LayerTrace]
    logits: np.ndarray  # (T, vocab_size)
    seconds: float  # duration of the run

    weights, allowed, scores = map(_stacked, ("weights", "allowed", "scores"))
    q, k, v, q_pre_rope, k_pre_rope = map(_stacked, ("q", "k", "v", "q_pre_rope", "k_pre_rope"))

    def logits_at(self, rows: slice) -> np.ndarray:
        """Return the logits of some tokens, (rows, vocab_size)."""
        return self.logits[rows]

    @property
    def masks(self) -> Sequence[np.ndarray]:
        """Each layer's mask, (T, T) bool, True = may attend."""
        return [layer.allowed for layer in self.layers]

    @cached_property
    def nbytes(self) -> int:
        """Size of all arrays in bytes."""
        return self.tokens.nbytes + self.logits.nbytes + sum(layer.nbytes for layer in self.layers)


def trace_bytes(config: ModelConfig, n_tokens: int) -> int:
    """Return the exact size in bytes of a trace of n_tokens, without allocating it."""
    T = n_tokens
    layers = sum(n * (layer.mixer.traced_bytes(T) + T * T) for n, layer in config.layer_counts)
    return layers + 4 * T * config.vocab_size + 8 * T


def use_one_thread() -> None:
    """Limit torch to one thread: tensors this small gain nothing from a second, and under load they wait for it."""
    torch.set_num_threads(1)


@torch.inference_mode()
def trace(model: Transformer, token_ids: Sequence[int], n_padding: int = 0) -> Trace:
    """Run the model on the tokens and record a `Trace`. ValueError for no tokens or an id out of the vocabulary.

    n_padding: number of padding tokens at the front, which are masked for all queries.
    """
    ids = checked(token_ids, model.config.vocab_size)
    record = LayerRecorder([layer.mixer for layer in model.config.layers])
    began = time.perf_counter()
    logits = model(ids, mask=not_padding(ids, n_padding), record=record)[0]  # (T, vocab_size)
    return Trace(model.config, _numpy(ids[0]), record.layers, _numpy(logits), time.perf_counter() - began)


class LayerRecorder:
    """Record callback that keeps what each layer computes, in the order in which the layers run."""

    def __init__(self, mixers: Sequence[Mixer]) -> None:
        self.mixers, self.layers = iter(mixers), list[LayerTrace]()

    def __call__(self, allowed: Tensor | None, scale: float, **computed: Tensor) -> None:
        T = computed["weights"].shape[-1]  # B = 1
        mask = torch.ones(T, T, dtype=torch.bool) if allowed is None else allowed.expand(1, 1, T, T)[0, 0]
        arrays = {name: _numpy(_alone(part[0])) for name, part in computed.items()}
        own = {name: arrays.pop(name) for name in computed.keys() - RECORDED}
        self.layers.append(LayerTrace(next(self.mixers), **arrays, allowed=_numpy(mask), scale=scale, own=own))


def _alone(part: Tensor) -> Tensor:
    """Return a tensor that keeps no larger one in memory: MLA's values are a view of keys and values."""
    return part if part.untyped_storage().nbytes() == part.nbytes else part.clone()


@torch.inference_mode()
def predict(model: Transformer, token_ids: Sequence[int]) -> np.ndarray:
    """Return only the logits, (T, vocab_size), with a fraction of a trace's memory."""
    return _numpy(model(checked(token_ids, model.config.vocab_size))[0])


def likeliest(trace: Trace, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the n likeliest next tokens after each token and their probabilities, likeliest first, (T, n) each."""
    tokens, odds = [], []
    for first in range(0, len(trace.tokens), ROWS_AT_ONCE):
        logits = trace.logits_at(slice(first, first + ROWS_AT_ONCE))
        rows = torch.tensor(logits)  # a copy: torch does not take read-only arrays
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
def weights_of(model: Transformer, token_ids: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Return only the weights of a batch of N texts of one length: ids (N, T) give (N, H, T, T) for each layer."""
    record = Recording()
    _run_to(model, token_ids, model.config.n_layers - 1, record)
    return [_numpy(each.weights) for each in record]


@torch.inference_mode()
def allowed_of(model: Transformer, n_tokens: int, n_padding: int = 0) -> list[np.ndarray]:
    """Return each layer's mask on a text of n_tokens: bool (T, T), as in a `Trace`, one array for equal ones."""
    shape, masks = (n_tokens, n_tokens), dict[int, np.ndarray]()
    options = model.attention_options(n_tokens, mask=not_padding(torch.empty(1, n_tokens), n_padding))
    for mask in (option["mask"] for option in options):
        masks[id(mask)] = np.broadcast_to(True if mask is None else _numpy(mask), shape)
    return [masks[id(option["mask"])] for option in options]


@torch.inference_mode()
def layer_weights(model: Transformer, token_ids: Sequence[int], layer: int) -> np.ndarray:
    """Return only the weights of one layer, (H, T, T), in a fraction of a trace's time."""
    record = Recording()
    _run_to(model, token_ids, layer, record)
    return _numpy(record[-1].weights[0])


def _run_to(model: Transformer, token_ids: Sequence, layer: int, record: Recording) -> None:
    """Run the model up to this layer's attention and record each layer; later layers are not computed."""
    options = model.attention_options(torch.as_tensor(token_ids).shape[-1])
    x = layer_input(model, token_ids, layer, record, options)
    model.blocks[layer].attn(x, record=record, **options[layer])


@torch.inference_mode()
def cross_weights(model: Transformer, token_ids: Sequence[int], context_ids: Sequence[int]) -> list[np.ndarray]:
    """Return each layer's cross-attention weights (H, T, S) with queries from one text and keys from another.

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
    return [_numpy(each.weights[0]) for each in record]


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
