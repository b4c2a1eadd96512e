"""The KV cache in bytes: what each layer's mixer caches per token, times the tokens that it keeps.

A layer with a sliding window keeps at most window + n_sinks tokens. A recurrent layer keeps a state and the last inputs
of its convolution instead: as many numbers after any number of tokens, whose precision is that of the state, as
transformers keeps it (32 bits for most states, 16 for convolutions), and not that of the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from attnviz.checks import number, whole
from attnviz.config import ModelConfig
from attnviz.cost.precisions import SCALE_BITS
from attnviz.cost.sums import caching, over_layers, product, with_factor
from attnviz.equations import Expression, Value, function, total
from attnviz.mechanisms import Mixer, Vectors, letter

LARGEST_CONTEXT, LARGEST_BATCH = 10**9, 10**6


def cache(
    model: ModelConfig,
    n_tokens: int,
    batch_size: int = 1,
    bits: float | None = None,
    *,
    block_size: int | None = None,
    page: int = 1,
    state_bits: int = 16,
) -> Expression:
    """Return what sequences of `n_tokens` tokens cache, as an expression: numbers, or bytes with `bits` per number.

    The other arguments are those of `kv_cache_bytes`, whose value this is before it is rounded up. state_bits: at least
    as many per number of a state or a convolution, for a model that runs in this precision.
    """
    _check(n_tokens, batch_size, bits or 16, block_size)
    S, states = letter("S", n_tokens), _states(model, bits, state_bits)
    growing = [
        (n, kept, _entry(vectors, bits, block_size))
        for n, mixer in caching(model)
        for kept, vectors in mixer.stores(S, page)
    ]
    if states or not growing:
        cached = over_layers(model, [*states, *((n, per_token * kept) for n, kept, per_token in growing)])
    else:
        cached = product(with_factor(model, growing))
    return letter("B", batch_size) * cached if batch_size > 1 else cached


def _states(model: ModelConfig, bits: float | None, least: int) -> list[tuple[int, Expression]]:
    """Return the numbers or bytes of each mixer's state and convolution, with the number of layers."""
    states = []
    for n, mixer in caching(model):
        sizes = [
            each.numbers if bits is None else each.numbers * _state_bytes(max(each.bits, least))
            for each in mixer.state()
        ]
        if sizes:
            states.append((n, total(sizes)))
    return states


def _state_bytes(bits: int) -> Value:
    """Return the bytes per number, with the letter of a state's own precision."""
    return letter("bₛ" if bits == 32 else "bₜ", bits // 8)


@dataclass(frozen=True)
class CachedByKind:
    """The bytes of one kind of mixer: its number of layers, cache and state. n_readers: layers that read its cache."""

    mixer: Mixer
    n_layers: int
    cache: int
    state: int
    n_readers: int = 0


def cached_by_kind(
    model: ModelConfig,
    n_tokens: int,
    batch_size: int = 1,
    bits: float = 16,
    *,
    block_size: int | None = None,
    page: int = 1,
) -> list[CachedByKind]:
    """Return the bytes of cache and state by kind of mixer; equal mixers are one kind, each rounded up."""
    _check(n_tokens, batch_size, bits, block_size)
    layers: dict[Mixer, int] = {}
    for n, mixer in caching(model):
        layers[mixer] = layers.get(mixer, 0) + n
    readers: dict[Mixer, int] = {}
    for layer in model.layers:
        if layer.shares_cache_of is not None:
            for mixer in model.layers[layer.shares_cache_of].mixers:
                readers[mixer] = readers.get(mixer, 0) + 1
    return [
        CachedByKind(
            mixer,
            n,
            math.ceil(batch_size * n * _bytes_kept(mixer, n_tokens, bits, block_size, page)),
            batch_size * n * state_bytes_of(mixer),
            readers.get(mixer, 0),
        )
        for mixer, n in layers.items()
    ]


def _bytes_kept(mixer: Mixer, n_tokens: int, bits: float, block_size: int | None, page: int) -> Fraction:
    """Return the bytes that one layer caches after n_tokens tokens."""
    S = letter("S", n_tokens)
    sizes = (
        int(kept.value) * sum((len(v.parts) * _stored(v, bits, block_size) for v in vectors), Fraction(0))
        for kept, vectors in mixer.stores(S, page)
    )
    return sum(sizes, Fraction(0))


@dataclass(frozen=True)
class HeldByKind:
    """The bytes of one kind of mixer in all its layers: of each KV head, and of what all heads share."""

    mixer: Mixer
    of_head: Fraction
    shared: Fraction
    state: Fraction  # of the accelerator that holds most


def held_by_kind(
    model: ModelConfig, n: int, n_tokens: int, bits: float = 16, *, block_size: int | None = None, page: int = 1
) -> list[HeldByKind]:
    """Return the bytes of one sequence that can lie on different ones of n accelerators, by kind of mixer."""
    _check(n_tokens, 1, bits, block_size)
    found = []
    for n_layers, mixer in caching(model):
        by_head, shared = Fraction(0), Fraction(0)
        for kept, of_entry in mixer.stores(letter("S", n_tokens), page):
            for vectors in of_entry:
                size = n_layers * int(kept.value) * len(vectors.parts) * _stored(vectors, bits, block_size)
                if mixer.of_heads(vectors):
                    by_head += size
                else:
                    shared += size
        share = mixer.share(n)
        state = Fraction(n_layers * state_bytes_of(share)) if isinstance(share, Mixer) else Fraction(0)
        found.append(HeldByKind(mixer, by_head / mixer.n_kv_heads, shared, state))
    return found


def _stored(vectors: Vectors, bits: float, block_size: int | None) -> Fraction:
    """Return the bytes of one part of these vectors: their numbers, and the scales of their blocks."""
    width = int(vectors.width.number)
    n_scales = 0 if block_size is None else -(-width // block_size)
    return vectors.number * (Fraction(bits) * width + SCALE_BITS * n_scales) / 8


def state_bytes_of(mixer: Mixer) -> int:
    """Return the bytes of one layer's states and convolution inputs, each in its own precision."""
    return sum(int(state.numbers.value) * state.bits // 8 for state in mixer.state())


def state_bytes(model: ModelConfig, batch_size: int = 1) -> int:
    """Return the bytes of the states and convolutions of all layers, which do not depend on the number of tokens."""
    return batch_size * sum(n * state_bytes_of(mixer) for n, mixer in caching(model))


def cached_per_token(model: ModelConfig, bits: float | None = None) -> Expression:
    """Return the numbers or bytes that one token takes in all layers, without regard to windows."""
    return over_layers(model, [(n, _per_token(mixer, bits, None)) for n, mixer in caching(model) if mixer.cached()])


def cached_in_layer(mixer: Mixer) -> Expression:
    """Return the numbers that one layer caches per token."""
    return _per_token(mixer, None, None)


def _per_token(mixer: Mixer, bits: float | None, block_size: int | None) -> Expression:
    """Return the numbers or bytes that one layer caches per token."""
    return _entry(mixer.cached(), bits, block_size)


def _entry(of_entry: Sequence[Vectors], bits: float | None, block_size: int | None) -> Expression:
    """Return the numbers or bytes of one entry of a cache; vectors of one count are added first."""
    by_count: dict[Expression | None, list[Vectors]] = {}
    for vectors in of_entry:
        by_count.setdefault(vectors.copies, []).append(vectors)
    terms = []
    for copies, several in by_count.items():
        size = _vector_size([vectors.width for vectors in several], bits, block_size)
        terms.append(size if copies is None else copies * size)
    return total(terms)


def _vector_size(widths: list[Value], bits: float | None, block_size: int | None) -> Expression:
    """Return the numbers or bytes of one vector of each width: its numbers, and a scale per full or partial block."""
    if bits is None:
        return total(widths)
    size = bits / 8
    size = int(size) if size.is_integer() else size  # whole numbers stay exact, however large the product
    meaning = (
        ""
        if block_size is None
        else f"bytes per number, without the {SCALE_BITS // 8}-byte scale per {block_size} numbers"
    )
    stored = total(widths) * letter("b", size, meaning, digits=1 if size == 0.5 else None)
    if block_size is not None:
        stored = stored + SCALE_BITS // 8 * total([function("ceil", width / block_size) for width in widths])
    return stored


def kv_cache_bytes(
    model: ModelConfig,
    n_tokens: int,
    batch_size: int = 1,
    bits: float = 16,
    *,
    block_size: int | None = None,
    page: int = 1,
) -> int:
    """Return the bytes of the cache of `batch_size` sequences of `n_tokens` tokens each, rounded up to whole bytes.

    `bits`: bits per number, 1 to 64; fractional if they include a share of the scales (4.5 for 4 bits with a 16-bit
    scale per 32 numbers). With `block_size` the scales are counted exactly instead: a 16-bit scale for every
    `block_size` numbers of each vector, partial blocks included. `page`: tokens per page of the cache, of which whole
    pages are taken.
    """
    return math.ceil(sum(cache_parts(model, n_tokens, batch_size, bits, block_size=block_size, page=page).values()))


def cache_parts(
    model: ModelConfig,
    n_tokens: int,
    batch_size: int = 1,
    bits: float = 16,
    *,
    block_size: int | None = None,
    page: int = 1,
) -> dict[str, Fraction]:
    """Return the same bytes, not rounded, by part: keys and values, MLA's latent and RoPE key, states, convolutions."""
    _check(n_tokens, batch_size, bits, block_size)
    parts: dict[str, Fraction] = {}
    for n, mixer in caching(model):
        for kept, of_entry in mixer.stores(letter("S", n_tokens), page):
            for vectors in of_entry:
                size = batch_size * n * int(kept.value) * _stored(vectors, bits, block_size)
                for part in vectors.parts:
                    parts[part] = parts.get(part, Fraction(0)) + size
        for state in mixer.state():
            size = Fraction(batch_size * n * int(state.numbers.value) * state.bits, 8)
            parts[state.part] = parts.get(state.part, Fraction(0)) + size
    return parts


def cached_tokens(model: ModelConfig, n_tokens: int) -> int:
    """Return the cached tokens, summed over the layers."""
    return sum(n * _kept(mixer, n_tokens) for n, mixer in caching(model) if mixer.cached())


def expanded_cache_bytes(model: ModelConfig, n_tokens: int, bits: float = 16) -> int | None:
    """Return the bytes of one sequence if latents were cached expanded, as keys and values of each head.

    None if a layer caches no latent.
    """
    _check(n_tokens, 1, bits, None)
    expanded = [(n * _kept(mixer, n_tokens), mixer.expanded_numbers()) for n, mixer in caching(model) if mixer.cached()]
    if any(numbers is None for _, numbers in expanded):
        return None
    return -(-sum(n * int(numbers.value) for n, numbers in expanded if numbers) * Fraction(bits) // 8)


def _kept(mixer: Mixer, n_tokens: int) -> int:
    """Return the tokens that one layer keeps of n_tokens."""
    return int(mixer.kept(letter("S", n_tokens)).value)


def _check(n_tokens: int, batch_size: int, bits: float, block_size: int | None) -> None:
    whole("n_tokens", n_tokens, high=LARGEST_CONTEXT)
    whole("batch_size", batch_size, high=LARGEST_BATCH)
    number("bits", bits, 1, 64)
    if block_size is not None:
        whole("block_size", block_size, high=LARGEST_BATCH)
