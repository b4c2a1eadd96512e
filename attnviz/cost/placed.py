"""What one of several accelerators holds of a model, as a model of its own: its costs come from the same formulas.

Tensor parallelism divides query heads, d_ff, channels and the rows of the vocabulary. A rank holds the KV heads that
its query heads read: one that query heads of several ranks read is copied, and MLA's latent, which all heads read, lies
on each. Norms, routers, learned positions and what makes MLA's latents are whole on each. Data-parallel attention
divides the sequences instead: each rank holds its own sequences' caches and all weights of the mixers; the rest is
divided as before, though engines may copy more than that. Where numbers do not divide evenly, this is the rank that
holds most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from attnviz.config import ModelConfig
from attnviz.mechanisms import Again, Layer, Mechanism, Mixer
from attnviz.mechanisms.mechanism import largest_share

TENSOR, DATA = PARALLEL = "tensor", "data"  # names in links


@lru_cache(maxsize=512)  # a page asks for the same models many times
def on_one(model: ModelConfig, n: int, parallel: str = TENSOR) -> ModelConfig:
    """Return what the fullest of n accelerators holds of a model."""
    if n == 1:
        return model

    def part_on_one(part: Mechanism) -> Mechanism:
        return part if parallel == DATA and _mixes(part) else part.share(n)

    return replace(
        _with_parts(model, part_on_one), vocab_size=largest_share(model.vocab_size, n),
        other_parts=tuple(part.share(n) for part in model.other_parts),
    )  # fmt: skip


@lru_cache(maxsize=512)
def without_windows(model: ModelConfig) -> ModelConfig:
    """Return a model whose windowed layers cache all tokens."""
    return _with_parts(model, _unwindowed) if windowed(model) else model


def windowed(model: ModelConfig, n_tokens: float = math.inf) -> bool:
    """Check whether a layer caches fewer than these tokens because of its window."""
    return any(m.window is not None and m.window < n_tokens for _, layer in model.layer_counts for m in layer.mixers)


def divides_evenly(model: ModelConfig, n: int, parallel: str = TENSOR) -> bool:
    """Check whether n accelerators get equal shares of the heads, as engines require of tensor parallelism."""
    mixers = (mixer for _, layer in model.layer_counts for mixer in layer.mixers)
    return parallel == DATA or not any(mixer.uneven(n) for mixer in mixers)


def _with_parts(model: ModelConfig, change: Callable[[Mechanism], Mechanism]) -> ModelConfig:
    """Return a model with each part of its layers changed."""
    changed: dict[Layer, Layer] = {}
    for _, layer in model.layer_counts:
        changed[layer] = replace(layer, parts=tuple(map(change, layer.parts)))
    return replace(model, mixed_layers=tuple(changed[layer] for layer in model.layers))


def _mixes(part: Mechanism) -> bool:
    return isinstance(part.part if isinstance(part, Again) else part, Mixer)


def _unwindowed(part: Mechanism) -> Mechanism:
    if isinstance(part, Again):
        return Again(_unwindowed(part.part))
    return part.unwindowed if isinstance(part, Mixer) else part
