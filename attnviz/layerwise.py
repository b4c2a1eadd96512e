"""Lazy trace of a large model: stores the residual stream and recomputes a layer's attention when it is accessed.

L layers, H query heads, K KV heads, T tokens, D head_dim, C d_model, V tokens of the vocabulary.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.trace import Trace, allowed_of, checked, not_padding, stream_of

MAX_STREAM_BYTES = 32_000_000  # of the stored residual streams; layers between two of them are run again
MAX_LAYER_BYTES = 8_000_000  # of the most recently used layers, if more than one
PER_LAYER = ("q", "k", "v", "q_pre_rope", "k_pre_rope", "weights")


class Layered:
    """Lazy array whose first axis is computed on access: [layer], [layer, head, …], slices, iteration.

    `np.asarray` computes all of it.
    """

    def __init__(self, shape: tuple[int, ...], part: Callable[[int], np.ndarray]) -> None:
        self.shape, self.ndim, self.dtype, self._part = shape, len(shape), np.dtype(np.float32), part

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self._part(i) for i in range(len(self)))

    def __getitem__(self, index: Any) -> np.ndarray:
        first, rest = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        if isinstance(first, slice):
            chosen = [self._part(i)[rest] if rest else self._part(i) for i in range(len(self))[first]]
            return np.stack(chosen) if chosen else np.empty((0, *self.shape[1:]), self.dtype)
        if isinstance(first, (list, tuple, np.ndarray)):  # paired with other index lists, as in numpy
            others = zip(*rest, strict=True) if rest else [()] * len(first)
            return np.stack([self._part(int(i))[tuple(each)] for i, each in zip(first, others, strict=True)])
        if not -len(self) <= int(first) < len(self):
            raise IndexError(f"layer {first} of {len(self)}")
        part = self._part(int(first) % len(self))
        return part[rest] if rest else part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = np.stack(list(self))
        return whole if dtype is None else whole.astype(dtype)


class LayerwiseTrace(Trace):
    """Drop-in replacement for `Trace`; model() returns the model whenever a layer has to be computed."""

    _model: Callable[[], Transformer]
    _n_padding: int
    _lock: Any
    _layers: OrderedDict[int, dict[str, np.ndarray]]
    _stream: dict[int, Tensor]
    _last: Tensor
    stride: int  # layers between two stored streams

    def __init__(self, model: Callable[[], Transformer], token_ids: Sequence[int], n_padding: int = 0) -> None:
        runs = model()
        began = time.perf_counter()
        c = runs.config
        ids = checked(token_ids, c.vocab_size)
        T, H, K, D = ids.shape[1], c.n_heads, c.n_kv_heads, c.head_dim
        stride = max(1, -(-c.n_layers * 4 * T * c.d_model // MAX_STREAM_BYTES))
        stream, last = stream_of(runs, ids, n_padding, stride)
        vars(self).update(  # bypasses the frozen dataclass
            _model=model, _n_padding=n_padding, _lock=Lock(), _layers=OrderedDict(), _stream=stream, _last=last,
            stride=stride,
        )  # fmt: skip
        heads = {"q": H, "q_pre_rope": H, "k": K, "k_pre_rope": K, "v": K}
        arrays: dict[str, Any] = {name: self._layered((c.n_layers, n, T, D), name) for name, n in heads.items()}
        arrays["weights"] = self._layered((c.n_layers, H, T, T), "weights")
        arrays["logits"] = Layered((T, c.vocab_size), self._logits)
        allowed = allowed_of(runs, T)
        if n_padding:
            allowed = allowed & (np.arange(T) >= n_padding)
        allowed.flags.writeable = False
        tokens = ids[0].numpy()
        tokens.flags.writeable = False
        scale = D**-0.5 if c.attention_scale is None else c.attention_scale
        super().__init__(
            config=c, tokens=tokens, allowed=allowed, scale=scale, seconds=time.perf_counter() - began, **arrays
        )

    def _layered(self, shape: tuple[int, ...], name: str) -> Layered:
        return Layered(shape, lambda layer: self._layer(layer)[name])

    def _layer(self, layer: int) -> dict[str, np.ndarray]:
        """Return one layer's arrays, without a batch axis; the most recently used are cached."""
        with self._lock:
            if layer not in self._layers:
                self._layers[layer] = self._computed(layer)
            self._layers.move_to_end(layer)
            size = sum(a.nbytes for a in self._layers[layer].values())
            while len(self._layers) > 1 and len(self._layers) * size > MAX_LAYER_BYTES:
                self._layers.popitem(last=False)
            return self._layers[layer]

    @torch.inference_mode()
    def _computed(self, layer: int) -> dict[str, np.ndarray]:
        model, found = self._model(), dict[str, Tensor]()
        n = len(self.tokens)
        mask = not_padding(torch.from_numpy(self.tokens.copy())[None], self._n_padding)
        options = model.attention_options(n, mask=mask)
        start = layer - layer % self.stride
        x = self._stream[start]
        for i in range(start, layer):
            x = model.blocks[i](x, **options[i])
        block = model.blocks[layer]
        block.attn(block.attn_norm(x), record=lambda **computed: found.update(computed), **options[layer])
        arrays = {name: found[name][0].numpy() for name in PER_LAYER}
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    @torch.inference_mode()
    def _logits(self, position: int) -> np.ndarray:
        """Compute the logits at one position: (V,)."""
        return self._model().logits(self._last[:, position])[0].numpy()

    @property
    def final_stream(self) -> np.ndarray:
        """Residual stream after the last block, (T, C), before the final norm."""
        return self._last[0].numpy()

    @property
    def nbytes(self) -> int:
        """Size in bytes of the stored arrays and the layer cache."""
        stream = sum(x.numel() for x in self._stream.values()) + self._last.numel()
        return 4 * stream + self.allowed.nbytes + self.tokens.nbytes + max(MAX_LAYER_BYTES, layer_bytes(
            self.config, len(self.tokens)))  # fmt: skip


def layer_bytes(config: ModelConfig, n_tokens: int) -> int:
    """Return the size in bytes of one layer's attention arrays on a text of n_tokens."""
    c, T = config, n_tokens
    return 4 * (T * c.head_dim * (2 * c.n_heads + 3 * c.n_kv_heads) + c.n_heads * T * T)
