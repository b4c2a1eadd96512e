"""The KV cache in bytes.

GQA caches 2 · K · D numbers per token and layer, MLA R + P (one latent and one RoPE key, no factor 2). A layer with
a sliding window caches at most window + n_sinks tokens.
"""

from __future__ import annotations

import math
from fractions import Fraction

from attnviz.checks import number, whole
from attnviz.config import ModelConfig

# The storage of quantised numbers is this project's assumption: int4 with a 16-bit scale per 32 numbers (as in
# llama.cpp's q4_0; other formats share a scale over 64 or 128 numbers, or add a zero point), fp8 with one scale per
# tensor, which is not counted (other formats have one per head or per token).
SCALE_BITS = 16
PRECISIONS = {  # name -> bits per number, numbers per scale (None: no scales that grow with the tokens)
    "fp32": (32, None),
    "bf16": (16, None),
    "fp8": (8, None),
    "int4": (4, 32),
}
LARGEST_CONTEXT, LARGEST_BATCH = 10**9, 10**6


def kv_cache_bytes(
    model: ModelConfig, n_tokens: int, batch_size: int = 1, bits: float = 16, *, block_size: int | None = None
) -> int:
    """Return the bytes of the cache of `batch_size` sequences of `n_tokens` tokens each, rounded up to whole bytes.

    `bits`: bits per number, 1 to 64; fractional if they include a share of the scales (4.5 for 4 bits with a 16-bit
    scale per 32 numbers). With `block_size` the scales are counted exactly instead: a 16-bit scale for every
    `block_size` numbers of each vector, partial blocks included.
    """
    return math.ceil(sum(cache_parts(model, n_tokens, batch_size, bits, block_size=block_size).values()))


def cache_parts(
    model: ModelConfig, n_tokens: int, batch_size: int = 1, bits: float = 16, *, block_size: int | None = None
) -> dict[str, Fraction]:
    """Return the same bytes, not rounded, by part: keys and values, or MLA's latent and RoPE key."""
    _check(n_tokens, batch_size, bits, block_size)
    tokens = batch_size * cached_tokens(model, n_tokens)
    parts = {}
    for part, (n_vectors, width) in _vectors(model).items():
        n_scales = 0 if block_size is None else -(-width // block_size)
        parts[part] = tokens * n_vectors * (Fraction(bits) * width + SCALE_BITS * n_scales) / 8
    return parts


def bits_with_scales(precision: str) -> float:
    """Return the bits per number, including its share of the block's scale."""
    bits, block = PRECISIONS[precision]
    return bits + (SCALE_BITS / block if block else 0)


def cache_numbers(model: ModelConfig) -> int:
    """Return the numbers cached per token and layer."""
    return sum(n_vectors * width for n_vectors, width in _vectors(model).values())


def cached_tokens(model: ModelConfig, n_tokens: int) -> int:
    """Return the cached tokens, summed over the layers: a windowed layer caches at most window + n_sinks."""
    if model.sliding_window is None:
        return model.n_layers * n_tokens
    n_full = len(set(model.full_layers))
    return n_full * n_tokens + (model.n_layers - n_full) * min(n_tokens, model.sliding_window + model.n_sinks)


def expanded_cache_bytes(model: ModelConfig, n_tokens: int, bits: float = 16) -> int:
    """Return the bytes that one sequence would take if MLA cached each head's expanded keys and values."""
    _check(n_tokens, 1, bits, None)
    numbers = model.n_heads * (model.head_dim + model.v_head_dim)
    return -(-cached_tokens(model, n_tokens) * numbers * Fraction(bits) // 8)


def _vectors(model: ModelConfig) -> dict[str, tuple[int, int]]:
    """Return the vectors cached per token and layer: part -> (number of vectors, width)."""
    if model.attention == "mla":
        return {"latent": (1, model.kv_lora_rank), "RoPE key": (1, model.qk_rope_head_dim)}
    return dict.fromkeys(("k", "v"), (model.n_kv_heads, model.head_dim))


def _check(n_tokens: int, batch_size: int, bits: float, block_size: int | None) -> None:
    whole("n_tokens", n_tokens, high=LARGEST_CONTEXT)
    whole("batch_size", batch_size, high=LARGEST_BATCH)
    number("bits", bits, 1, 64)
    if block_size is not None:
        whole("block_size", block_size, high=LARGEST_BATCH)
