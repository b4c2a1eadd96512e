"""Prefill and a decode step on this machine's roofline: its peak arithmetic and bandwidth, measured."""

from __future__ import annotations

from typing import NamedTuple

import torch

from attnviz.decode.comparisons import Spread, spreads
from attnviz.decode.work import step_with_cache, step_without_cache, weight_dtype
from attnviz.modules import Transformer

MATRIX = 512  # rows and columns of the matrices that are multiplied to find the peak
COPIED = 8_000_000  # numbers that are copied to find the bandwidth: 32 MB


class Phase(NamedTuple):
    """A measured pass of the model."""

    name: str
    n_tokens: int  # processed in it
    flops: int
    bytes_read: int
    seconds: Spread


class Roofline(NamedTuple):
    """The rates of this machine's roofline, per second, and where the two phases lie."""

    flops: Spread  # of a product of two matrices of MATRIX x MATRIX
    nbytes: Spread  # of a copy of COPIED numbers, read and written
    phases: tuple[Phase, ...]
    weights: str = "float32"  # the dtype in which they are stored


def place(model: Transformer, n_tokens: int, seconds: tuple[Spread, ...], peaks: tuple[Spread, ...]) -> Roofline:
    """Place the prefill of n_tokens and the decode step of the last of them. ConfigError with a window.

    seconds: `step_seconds`; peaks: `peak_seconds`.
    """
    whole_text, one = step_without_cache(model, n_tokens), step_with_cache(model, n_tokens)
    (decode, prefill), (product, copy) = seconds, peaks
    phases = (
        Phase("prefill", n_tokens, 2 * whole_text.multiplications, whole_text.bytes_read, prefill),
        Phase("decode", 1, 2 * one.multiplications, one.bytes_read, decode),
    )
    return Roofline(product.per_second(2 * MATRIX**3), copy.per_second(2 * 4 * COPIED), phases, weight_dtype(model))


def peak_seconds() -> tuple[Spread, ...]:
    """Time a matrix product and a copy. Not in turns with the model, whose weights the copy would evict from caches."""
    a, numbers = torch.ones(MATRIX, MATRIX), torch.ones(COPIED)
    there = torch.zeros_like(numbers)
    return spreads(lambda: a @ a, lambda: there.copy_(numbers))
