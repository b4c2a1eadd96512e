"""Questions on smaller caches: quantised ones, and layers that share one. Answers come from attnviz.decode.quantised
and attnviz.cost."""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from attnviz.config import ModelConfig
from attnviz.cost import kv_cache_bytes, precision_of
from attnviz.cost.precisions import SCALE_BITS
from attnviz.decode.quantised import LARGEST, dequantise, quantise
from attnviz.equations import Equation, Value, function
from attnviz.mechanisms import Grouped, Layer, letter
from attnviz.phrases import listed
from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.cost import cache_page, described, plain, ungrouped
from attnviz.practice.drills.heads import published_with
from attnviz.practice.drills.question import Question, kind, tries

QUANTISED = ("decode", {"tab": "bounded"})
FLOAT = torch.float64


# ---- the bytes


@kind("cost", 1, "cache-cost", drawn=True)
def times_smaller_when_quantised(rng: random.Random) -> Question:
    bits, block = rng.choice(((4, 32), (4, 64), (4, 128), (8, 32), (8, 64)))  # not (8, 128): 1.97 is almost 2
    id, m = published_with(rng, lambda m: m.attention in ("mha", "gqa") and m.head_dim % block == 0)
    times = kv_cache_bytes(m, 1) / kv_cache_bytes(m, 1, bits=bits, block_size=block)
    number, scale = Value(bits, "q", "bits per number"), Value(SCALE_BITS, "s", "bits per scale")
    group = Value(block, "Bₛ", "numbers per scale", latex="B_s")
    return Question(
        f"The cache of {m.name}, head_dim {m.head_dim}, is quantised from bf16 to int{bits}, with a {SCALE_BITS}-bit "
        f"scale per {block} numbers. How many times smaller does it become?",
        NumberAnswer(
            times,
            tolerance=0.01,
            wrong=known(
                (16 / bits, "You left out the scales."),
                (16 / (bits + SCALE_BITS), f"A scale is shared by {block} numbers."),
                (1 / times, "That is the size that is left, as a share."),
                (bits + SCALE_BITS / block, "These are the bits per number."),
            ),
        ),
        f"A number takes {bits} bits and its share of a scale, in place of 16 bits.",
        (Equation(16 / (number + scale / group)),),
        cache_page(id, context=1, precision=precision_of(bits, block)),
    )


@kind("cost", 2, "sinks-and-sharing")
def cache_shared_by_layers(rng: random.Random) -> Question:
    id, m = plain(rng, "mha", "gqa")
    run = rng.choice((2, 3, 4))
    size, whole = kv_cache_bytes(_sharing(m, run), 1), kv_cache_bytes(m, 1)
    kept = -(-m.n_layers // run)
    n_layers, per_layer = function("ceil", letter("L", m.n_layers) / Value(run, "r", "layers that share a cache")), (
        letter("K", m.n_kv_heads) * letter("D", m.head_dim) * letter("b", 2)
    )  # fmt: skip
    return Question(
        f"{described(m)}. Suppose that each run of {run} layers, beginning with the first layer, shared one "
        "cache, that of its first layer. How many bytes would the cache take per token, in bf16?",
        NumberAnswer(
            size,
            "B",
            0.005,  # of 80 layers in runs of 3, 27 caches are 1.2 % more than 80 / 3
            known(
                (whole, "That is with a cache for each layer."),
                (size / 2, "You counted K and V once."),
                (whole - size, "These are the layers that read another layer's cache.") if whole != 2 * size else None,
                (whole / run, "The last run has fewer layers, and a cache all the same.") if m.n_layers % run else None,
                (size / kept, "That is one cache; each run has one."),
                ungrouped(m, size, whole, whole - size),
            ),
        ),
        "The first layer of each run caches its keys and values; the others have queries alone and read these.",
        (Equation(2 * n_layers * per_layer, unit="B"),),
        ("linear", {"model": "shared", "tab": "shared"}),
    )


def _sharing(m: ModelConfig, run: int) -> ModelConfig:
    """Return a model in which each run of layers reads the cache of the run's first layer."""
    (layer,) = {layer for _, layer in m.layer_counts}

    def reading(first: int) -> Layer:
        parts = tuple(replace(p, reads_cache=True) if isinstance(p, Grouped) else p for p in layer.parts)
        return replace(layer, parts=parts, shares_cache_of=first)

    layers = (reading(i - i % run) if i % run else layer for i in range(m.n_layers))
    return replace(m, mixed_layers=tuple(layers))


# ---- the numbers


def _read_back(numbers: list[float], bits: int) -> list[float]:
    """Quantise a vector with one scale and return what is read."""
    x = torch.tensor([numbers], dtype=FLOAT)
    stored, scale = quantise(x, bits)
    return dequantise(stored, scale, len(numbers), bits, FLOAT)[0].tolist()


def _clear(exact: float) -> bool:
    """Check that a number is rounded to the same whole number if the scale, of 16 bits, is itself rounded."""
    return 0.1 < abs(exact) % 1 < 0.9 and abs(abs(exact) % 1 - 0.5) > 0.1


@kind("decoding", 1)
def integer_of_a_quantised_number(rng: random.Random) -> Question:
    m = LARGEST[8]
    for _ in tries():
        largest, x = rng.randrange(150, 900) / 100, rng.choice((-1, 1)) * rng.randrange(20, 140) / 100
        if _clear(x / largest * m):
            break
    stored = int(quantise(torch.tensor([[largest, x]], dtype=FLOAT), 8)[0][0, 1])
    exact, written = x / largest * m, f"{x:.2f}".replace("-", "−")
    number, scale = Value(x, "x", "number", digits=2), Value(largest, "a", "largest magnitude", digits=2)
    half = Value(0.5, digits=1)
    rounded = function("floor", number * Value(m, "m", "largest integer") / scale + half)
    return Question(
        f"A key's numbers are quantised to symmetric int8, −{m} to {m}, with one scale. The largest magnitude among "
        f"them is {largest:.2f}. As which integer is {written} stored?",
        NumberAnswer(
            stored,
            wrong=known(
                (int(exact), "Round to the nearest integer.") if int(exact) != stored else None,
                (exact, "What is stored is an integer: round it."),
                (round(x * m), f"Divide by the scale, {largest:.2f} / {m}."),
                (round(exact + m), "Symmetric int8 has no zero point: 0 is stored as 0."),
                (-stored, "The sign is kept."),
            ),
        ),
        "The scale is the largest magnitude divided by 127; a number is divided by it and rounded.",
        (Equation(rounded),),
        QUANTISED,
    )


@kind("decoding", 2)
def read_back_after_quantising(rng: random.Random) -> Question:
    m, step = LARGEST[4], rng.choice((0.25, 0.5, 1.0, 2.0))
    for _ in tries():
        x = rng.choice((-1, 1)) * rng.randrange(5, int(90 * step * m)) / 100
        if _clear(x / step):
            break
    largest, written = m * step, f"{x:.2f}".replace("-", "−")
    read = _read_back([largest, x], 4)[1]
    scale = Value(largest, "a", "largest magnitude", digits=2) / Value(m, "m", "largest integer")
    number = Value(x, "x", "number", digits=2)
    return Question(
        f"A value's numbers are quantised to symmetric int4, −{m} to {m}, with one scale. The largest magnitude among "
        f"them is {largest:.2f}. What is read back for {written}?",
        NumberAnswer(
            read,
            wrong=known(
                (x, "It is rounded to a multiple of the scale."),
                (read / step, "That is the integer; it is multiplied by the scale again.") if step != 1 else None,
                (int(x / step) * step, "Round to the nearest multiple, not towards 0.")
                if int(x / step) * step != read
                else None,
                (round(x / largest * 8) * largest / 8, f"The scale is the largest magnitude divided by {m}, not by 8.")
                if round(x / largest * 8) * largest / 8 != read
                else None,
                (-read, "The sign is kept.") if read else None,
            ),
        ),
        "The scale is the largest magnitude divided by 7. The stored integer is the nearest one to the number divided "
        "by the scale, and what is read back is that integer times the scale.",
        (Equation(function("floor", number / scale + Value(0.5, digits=1)) * scale),),
        QUANTISED,
    )


@kind("decoding", 3)
def quantised_beside_an_outlier(rng: random.Random) -> Question:
    m, step = LARGEST[4], rng.choice((0.25, 0.5))
    small = [m * step]
    while len(small) < 3:
        x = rng.choice((-1, 1)) * rng.randrange(5, int(90 * step * m)) / 100
        if _clear(x / step) and round(x / step):
            small.append(x)
    outliers = rng.sample((14.0, 21.0, 28.0, 35.0), 3)
    order = rng.sample(range(3), 3)
    keys = [(outliers[i], small[place]) for i, place in enumerate(order)]
    token = order.index(1)  # whose second number is not the largest of its channel
    by_channel = _read_back([key[1] for key in keys], 4)[token]
    by_token = _read_back(list(keys[token]), 4)[1]
    shown = listed(f"({a:g}, {b:.2f})".replace("-", "−") for a, b in keys)
    x = keys[token][1]
    scale = Value(m * step, "a", "largest magnitude of the channel", digits=2) / Value(m, "m", "largest integer")
    number = Value(x, "x", "number", digits=2)
    return Question(
        f"The keys of tokens 0, 1 and 2 have two channels: {shown}. They are quantised to symmetric int4, −{m} to {m}, "
        f"with one scale per channel. What is read back for the second channel of token {token}?",
        NumberAnswer(
            by_channel,
            wrong=known(
                (by_token, "That is with one scale per token, whose first channel makes the scale too large."),
                (x, "It is rounded to a multiple of the scale."),
                (round(x / step), "That is the integer; it is multiplied by the scale again."),
                (-by_channel, "The sign is kept."),
            ),
        ),
        f"The first channel's large numbers do not matter: the second channel's scale is its own largest magnitude, "
        f"{m * step:.2f}, divided by {m}.",
        (Equation(function("floor", number / scale + Value(0.5, digits=1)) * scale),),
        QUANTISED,
    )
