"""Counts and timings of the live modules: parameters, bytes of a real cache, and decode steps on this machine.

B sequences, T tokens per call, S tokens in the cache, L layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.config import RUN_FIELDS, ModelConfig
from attnviz.modules import KVCache, StateCache, Transformer
from attnviz.modules.building import build_attention
from attnviz.modules.runnable import check_runnable

WARM_UP, REPEATS = 2, 9  # untimed and timed steps
DTYPES = {16: torch.bfloat16, 32: torch.float32}
LARGEST_CACHE = (
    64 * 2**20
)  # bytes: the hosted demo has little memory, and a cache with spare capacity takes twice as much


def counted_parameters(config: ModelConfig) -> tuple[int, int]:
    """Count the parameters of the live model and of one layer's attention, tensor by tensor, on the meta device.

    All layers are built alike, so one is built and counted n_layers times. ConfigError if the model cannot run live.
    """
    whole, layer, attention = _counted_sizes(_one_layer(config))
    return whole + (config.n_layers - 1) * layer, attention


def counted_cache_bytes(config: ModelConfig, n_tokens: int, batch_size: int = 1, bits: int = 16) -> int:
    """Count the bytes of the cache after the live model has read n_tokens, from the tensors of one layer's cache.

    The modules cache every token, whatever the window. bits: per number, 16 (bf16) or 32. ConfigError as above.
    """
    return config.n_layers * _layer_cache_bytes(_one_layer(config), n_tokens, batch_size, DTYPES[bits])


def _one_layer(config: ModelConfig) -> ModelConfig:
    """Return a one-layer configuration with defaults for settings that change no tensor, so that counts are cached."""
    check_runnable(config)
    plain: dict[str, Any] = {f.name: f.default for f in fields(config) if f.name in RUN_FIELDS}
    if config.position == "learned":
        plain["position"] = "learned"  # has an embedding matrix
    return replace(config, **plain, n_layers=1)


@lru_cache(maxsize=256)
def _counted_sizes(config: ModelConfig) -> tuple[int, int, int]:
    """Count the parameters of the model, of its first layer and of that layer's attention."""
    with torch.device("meta"):
        model = Transformer(config)
    parts = model, model.blocks[0], model.blocks[0].attn
    whole, layer, attention = (sum(p.numel() for p in part.parameters()) for part in parts)
    return whole, layer, attention


@lru_cache(maxsize=256)
def _layer_cache_bytes(config: ModelConfig, n_tokens: int, batch_size: int, dtype: torch.dtype) -> int:
    """Count the bytes of one layer's cache on the meta device: shapes and dtypes are real, but no memory is allocated.

    Only the attention runs, and only until its cache is filled.
    """
    cache = _StopWhenFilled()
    with torch.device("meta"), torch.inference_mode():
        attn = build_attention(config)
        for name, part in attn.named_children():
            setattr(attn, name, _ShapeOnly(part.out_features) if isinstance(part, nn.Linear) else nn.Identity())
        x = torch.empty(batch_size, n_tokens, config.d_model, dtype=dtype)  # (B, T, C)
        with suppress(_Filled):
            attn(x, cache=cache)
    return cache.nbytes


class _ShapeOnly(nn.Module):
    """Stand-in for a linear layer that returns an empty tensor of its output's shape.

    A real product on the meta device would import torch's compiler: 70 MB and a second.
    """

    def __init__(self, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def forward(self, x: Tensor) -> Tensor:
        return x.new_empty(*x.shape[:-1], self.out_features)


class _Filled(Exception):
    pass


class _StopWhenFilled(KVCache):
    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        super().append(*new)
        raise _Filled


def n_threads() -> int:
    """Return the number of threads that torch uses."""
    return torch.get_num_threads()


@dataclass(frozen=True)
class Timing:
    """Timed decode steps of one model after `n_tokens`: seconds of each repeat, and the bytes of the real cache."""

    config: ModelConfig
    n_tokens: int
    seconds: tuple[float, ...]
    cache_bytes: int  # float32

    @property
    def median(self) -> float:
        return median(self.seconds)


def timings(configs: Sequence[ModelConfig], contexts: Sequence[int], seed: int = 0) -> Iterator[Timing]:
    """Time one decode step of every model at every context; models whose cache would be too large are left out.

    The models take turns within each context, so that a slowdown of the machine affects all of them.
    """
    models = [Transformer.random(config, seed) for config in configs]
    for n_tokens in contexts:
        caches = [_filled(model, n_tokens, seed) for model in models]
        fitting = [(m, c) for m, c in zip(models, caches, strict=True) if c is not None]
        seconds: list[list[float]] = [[] for _ in fitting]
        for i in range(WARM_UP + REPEATS):
            for times, (model, cache) in zip(seconds, fitting, strict=True):
                elapsed = _one_step(model, cache)
                if i >= WARM_UP:
                    times.append(elapsed)
        for times, (model, cache) in zip(seconds, fitting, strict=True):
            yield Timing(model.config, n_tokens, tuple(times), sum(layer.nbytes for layer in cache))


def _filled(model: Transformer, n_tokens: int, seed: int) -> list[Any] | None:
    """Return a cache of n_tokens random keys and values with the model's own shapes; None if it is too large."""
    cache = model.new_cache()
    decode(model, torch.zeros(1, 1, dtype=torch.int64), cache)
    if n_tokens * sum(layer.nbytes for layer in cache if isinstance(layer, KVCache)) > LARGEST_CACHE:
        return None
    generator = torch.Generator().manual_seed(seed)
    filled = model.new_cache()
    for one, layer in zip(cache, filled, strict=True):
        if isinstance(layer, StateCache):
            layer.update(one.state, one.inputs, n_tokens)
            continue
        layer.append(*(torch.randn(*t.shape[:-2], n_tokens, t.shape[-1], generator=generator) for t in one.tensors))
    return filled


def _one_step(model: Transformer, cache: list[Any]) -> float:
    """Return the seconds for one new token; the cache is brought back to what it was before."""
    marks = [layer.mark() for layer in cache]
    start = perf_counter()
    decode(model, torch.zeros(1, 1, dtype=torch.int64), cache)
    elapsed = perf_counter() - start
    for layer, mark in zip(cache, marks, strict=True):
        layer.back_to(mark)
    return elapsed


@torch.inference_mode()
def decode(model: Transformer, ids: Tensor, cache: list[Any]) -> Tensor:
    """Run ids (B, T) after the cached tokens -> logits (B, T, vocab_size). MLA in its absorbed form."""
    return model(ids, cache=cache, absorbed=True)
