"""Counting and timing the live modules: parameters, the bytes of a real cache, and decode steps on this machine.

B sequences, T tokens of a call, S tokens in the cache, L layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch
import torch.nn.functional as F
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.modules.cache import KVCache
from attnviz.modules.transformer import Transformer

WARM_UP, REPEATS = 2, 9  # steps that are not counted, and that are
LARGEST_CACHE = 64 * 2**20  # bytes: the hosted demo has little memory, and appending copies a cache once more


def counted_parameters(config: ModelConfig) -> tuple[int, int]:
    """Parameters of the live model and of one layer's attention, counted tensor by tensor, on the meta device."""
    with torch.device("meta"):
        model = Transformer(config)
    return _size(model), _size(model.blocks[0].attn)


def counted_cache_bytes(config: ModelConfig, n_tokens: int, batch_size: int = 1) -> int:
    """bf16 bytes of the cache after the live model has read n_tokens, counted from the cache's own tensors.

    The modules keep every token, whatever the window.
    """
    return sum(layer.nbytes for layer in filled_cache(config, n_tokens, batch_size, torch.bfloat16))


def filled_cache(
    config: ModelConfig, n_tokens: int, batch_size: int = 1, dtype: torch.dtype = torch.float32
) -> list[KVCache]:
    """The live cache after n_tokens, on the meta device: every shape and type is real and no memory is taken.

    Only the attentions run, and each only until its cache is filled: softmax and norms on that device would import
    torch's compiler, which takes 70 MB and a second.
    """
    with torch.device("meta"), torch.inference_mode():
        model = Transformer(config).to(dtype)
        cache = [_StopWhenFilled() for _ in model.blocks]
        x = torch.empty(batch_size, n_tokens, config.d_model, dtype=dtype)  # (B, T, C)
        for block, layer in zip(model.blocks, cache, strict=True):
            for name in ("q_a_norm", "kv_a_norm"):  # MLA's, which change no shape
                if hasattr(block.attn, name):
                    setattr(block.attn, name, torch.nn.Identity())
            with suppress(_Filled):
                block.attn(x, cache=layer)
    return cache


class _Filled(Exception):
    pass


class _StopWhenFilled(KVCache):
    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        super().append(*new)
        raise _Filled


def n_threads() -> int:
    """Threads that torch computes with."""
    return torch.get_num_threads()


def _size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@dataclass(frozen=True)
class Timing:
    """Decode steps of one model after `n_tokens`: seconds of each repeat, and what the real cache holds."""

    config: ModelConfig
    n_tokens: int
    seconds: tuple[float, ...]
    cache_bytes: int  # float32

    @property
    def median(self) -> float:
        return median(self.seconds)


def timings(configs: Sequence[ModelConfig], contexts: Sequence[int], seed: int = 0) -> Iterator[Timing]:
    """One decode step of every model at every context, timed; those whose cache would be too large are left out.

    The models take turns within each context, so that a machine that slows down does so for all of them.
    """
    models = [Transformer.random(config, seed) for config in configs]
    for n_tokens in contexts:
        caches = [_filled(model, n_tokens, seed) for model in models]
        fitting = [(m, c) for m, c in zip(models, caches, strict=True) if c is not None]
        seconds: list[list[float]] = [[] for _ in fitting]
        for i in range(WARM_UP + REPEATS):
            for taken, (model, cache) in zip(seconds, fitting, strict=True):
                spent = _one_step(model, cache)
                if i >= WARM_UP:
                    taken.append(spent)
        for taken, (model, cache) in zip(seconds, fitting, strict=True):
            yield Timing(model.config, n_tokens, tuple(taken), sum(layer.nbytes for layer in cache))


def _filled(model: Transformer, n_tokens: int, seed: int) -> list[KVCache] | None:
    """A cache of n_tokens random keys and values, shaped as the model itself shapes them; None if too large."""
    cache = model.new_cache()
    decode(model, torch.zeros(1, 1, dtype=torch.int64), cache)
    if n_tokens * sum(layer.nbytes for layer in cache) > LARGEST_CACHE:
        return None
    generator = torch.Generator().manual_seed(seed)
    filled = model.new_cache()
    for one, layer in zip(cache, filled, strict=True):
        layer.append(*(torch.randn(*t.shape[:-2], n_tokens, t.shape[-1], generator=generator) for t in one.tensors))
    return filled


def _one_step(model: Transformer, cache: list[KVCache]) -> float:
    """Seconds for one new token; the cache it is given stays as long as it was."""
    own = model.new_cache()
    for layer, kept in zip(own, cache, strict=True):
        layer.append(*kept.tensors)  # not copied: nothing is there yet
    start = perf_counter()
    decode(model, torch.zeros(1, 1, dtype=torch.int64), own)
    return perf_counter() - start


@torch.inference_mode()
def decode(model: Transformer, ids: Tensor, cache: list[KVCache]) -> Tensor:
    """ids (B, T) after what the cache holds -> logits (B, T, vocab_size). MLA in its absorbed form."""
    c, rope = model.config, model.rope(len(cache[0]) + ids.shape[1])
    how = {"absorbed": True} if c.attention == "mla" else {}
    x = model.embed(ids)  # (B, T, C)
    for i, (block, layer) in enumerate(zip(model.blocks, cache, strict=True)):
        x = block(x, causal=c.causal, window=c.window_of(i), n_sinks=c.n_sinks, rope=rope, cache=layer, **how)
    return F.linear(model.norm(x), model.embed.weight if model.lm_head is None else model.lm_head.weight)
