"""The work of the next token with and without a cache: multiplications in matrix products, and bytes read.

Counted is what `Transformer` runs: the logits of each input token, masked scores too, and MLA's absorbed form for one
token with a cache. Elementwise operations (norms, RoPE, softmax) are not counted. Weights count as read once per pass,
as they are stored, the cache once per step; intermediate results of a pass, such as half-precision weights converted to
float32, are not counted.
"""

from __future__ import annotations

from typing import NamedTuple

from attnviz.checks import ConfigError, whole
from attnviz.cost import cache, decode_cost, uncached_cost
from attnviz.modules import Transformer


class Work(NamedTuple):
    """The multiplications and bytes read of one pass of the model."""

    multiplications: int  # each with an addition: 2 FLOPs
    weight_bytes: int
    cache_bytes: int

    @property
    def bytes_read(self) -> int:
        """The bytes of weights and cache."""
        return self.weight_bytes + self.cache_bytes


def step_with_cache(model: Transformer, n_tokens: int) -> Work:
    """Count one decode step: it processes the last of n_tokens tokens and reads the cache of all of them."""
    _check(model, n_tokens)
    bits = 8 * cached_bytes(model)
    cached = int(cache(model.config, n_tokens, bits=bits, state_bits=bits).value)
    return Work(int(decode_cost(model.config, n_tokens).value) // 2, weight_bytes(model, 1), cached)


def step_without_cache(model: Transformer, n_tokens: int) -> Work:
    """Count the same step without a cache: all n_tokens tokens are read."""
    _check(model, n_tokens)
    return Work(int(uncached_cost(model.config, n_tokens).value) // 2, weight_bytes(model, n_tokens), 0)


def weight_bytes(model: Transformer, n_tokens: int) -> int:
    """Count the bytes of weights that a pass reads: all, but only n_tokens rows of an untied embedding."""
    total = sum(p.nbytes for p in model.parameters())
    if model.lm_head is None:
        return total
    rows = model.embed.weight
    return total - rows.nbytes + min(n_tokens, len(rows)) * rows.nbytes // len(rows)


def cached_bytes(model: Transformer) -> int:
    """Return the bytes per number of the cache: those of an embedded token, also where weights are stored smaller."""
    return model.embed.weight[0].element_size()


def weight_dtype(model: Transformer) -> str:
    """Name the dtype in which the model's matrices are stored."""
    return str(model.embed.weight.dtype).removeprefix("torch.")


def _check(model: Transformer, n_tokens: int) -> None:
    whole("n_tokens", n_tokens)
    if windows := model.config.windows:
        raise ConfigError(f"sliding_window must be None to be counted here, not {windows[0]}")
    for _, layer in model.config.layer_counts:
        if why := layer.mixer.cannot("work"):
            raise ConfigError(why)
