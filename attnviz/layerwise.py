"""Lazy trace of a large model: stores the residual stream and recomputes a layer's attention when it is accessed."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import torch

from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.trace import LayerRecorder, LayerTrace, Trace, allowed_of, checked, not_padding, stream_of

MAX_STREAM_BYTES = 32_000_000  # of the stored residual streams; layers between two of them are run again
MAX_LAYER_BYTES = 8_000_000  # of the most recently used layers, if more than one


class LazyLayers(Sequence[LayerTrace]):
    """The layers of a trace, each computed when it is accessed from the residual stream before it."""

    def __init__(self, model: Callable[[], Transformer], token_ids: Sequence[int], n_padding: int) -> None:
        """Take a function that returns the model whenever a layer has to be computed."""
        runs, began = model(), time.perf_counter()
        c, ids = runs.config, checked(token_ids, runs.config.vocab_size)
        self.stride = max(1, -(-c.n_layers * 4 * ids.shape[1] * c.d_model // MAX_STREAM_BYTES))  # between two streams
        self._stream, self.last = stream_of(runs, ids, n_padding, self.stride)
        self.masks = allowed_of(runs, ids.shape[1], n_padding)
        self.model, self.config, self._n_tokens, self._n_padding = model, c, ids.shape[1], n_padding
        self._recent, self._lock = OrderedDict[int, LayerTrace](), Lock()
        self.seconds = time.perf_counter() - began  # without loading the model

    def __len__(self) -> int:
        return self.config.n_layers

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        layer = range(len(self))[index]
        with self._lock:
            if layer not in self._recent:
                self._recent[layer] = self._computed(layer)
            self._recent.move_to_end(layer)
            while len(self._recent) > 1 and sum(map(self._bytes_of, self._recent)) > MAX_LAYER_BYTES:
                self._recent.popitem(last=False)
            return self._recent[layer]

    def _bytes_of(self, layer: int) -> int:
        return self.config.layers[layer].mixer.traced_bytes(self._n_tokens)

    @torch.inference_mode()
    def _computed(self, layer: int) -> LayerTrace:
        model, first = self.model(), self.config.layers[layer].shares_cache_of
        start = layer if first is None else first  # whose keys and values it reads
        start -= start % self.stride
        mask = not_padding(torch.empty(1, self._n_tokens), self._n_padding)
        options = model.attention_options(self._n_tokens, mask=mask)
        x = self._stream[start]
        for i in range(start, layer):
            x = model.blocks[i](x, **options[i])
        block, record = model.blocks[layer], LayerRecorder([self.config.layers[layer].mixer])
        block.attn(block.attn_norm(x), record=record, **options[layer])
        return replace(record.layers[0], allowed=self.masks[layer])

    @property
    def nbytes(self) -> int:
        """Size in bytes of the stored arrays and of the most recently used layers at most."""
        stream = self.last.nbytes + sum(x.nbytes for x in self._stream.values())
        return (
            stream
            + sum(mask.nbytes for mask in self.masks)
            + max(MAX_LAYER_BYTES, layer_bytes(self.config, self._n_tokens))
        )


class LayerwiseTrace(Trace):
    """A trace whose layers and logits are computed when they are accessed."""

    layers: LazyLayers

    def __init__(self, model: Callable[[], Transformer], token_ids: Sequence[int], n_padding: int = 0) -> None:
        layers, tokens = LazyLayers(model, token_ids, n_padding), np.array(token_ids, np.int64)
        tokens.flags.writeable = False
        vars(self).update(  # a frozen dataclass
            config=layers.config, tokens=tokens, layers=layers, seconds=layers.seconds
        )  # fmt: skip

    @property
    def logits(self) -> np.ndarray:
        """The logits, (T, vocab_size), computed again each time."""
        return self.logits_at(slice(None))

    @torch.inference_mode()
    def logits_at(self, rows: slice) -> np.ndarray:
        """Compute the logits of some tokens, (rows, vocab_size)."""
        return self.layers.model().logits(self.layers.last[:, rows])[0].numpy()

    @property
    def masks(self) -> Sequence[np.ndarray]:
        """Each layer's mask, without computing the layer."""
        return self.layers.masks

    @property
    def final_stream(self) -> np.ndarray:
        """Residual stream after the last block, (T, C), before the final norm."""
        return self.layers.last[0].numpy()

    @property
    def nbytes(self) -> int:
        """Size in bytes of what is stored."""
        return self.layers.nbytes + self.tokens.nbytes


def layer_bytes(config: ModelConfig, n_tokens: int) -> int:
    """Return the size in bytes of the largest layer's arrays, without its mask, on a text of n_tokens."""
    return max(layer.mixer.traced_bytes(n_tokens) for _, layer in config.layer_counts)
