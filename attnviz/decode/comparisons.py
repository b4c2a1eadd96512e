"""Compare ways to decode a text: with and without a cache, bounded, quantised, paged, speculative; and measure them.

T tokens, V tokens of the vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from attnviz.decode.bounded import SlidingCache, limited_cache, sliding_cache
from attnviz.decode.counts import Work, step_with_cache, step_without_cache
from attnviz.decode.generate import Step, generate, losses, read
from attnviz.decode.paged import PagedSequence, paged_pool, unused_slots, unused_slots_if_reserved
from attnviz.decode.quantised import quantised_cache
from attnviz.decode.sampling import Sampling
from attnviz.decode.speculation import Drafter, Round, speculate
from attnviz.modules import Transformer

MATRIX = 512  # rows and columns of the matrices multiplied to measure this machine's peak FLOP rate
COPIED = 8_000_000  # numbers copied to measure its bandwidth: 32 MB


# ---- time


class Spread(NamedTuple):
    """The quartiles of the times of some runs, in seconds."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, taken: Sequence[float]) -> Spread:
        """Compute the quartiles of some times."""
        ordered = sorted(taken)
        return cls(ordered[len(ordered) // 4], median(ordered), ordered[-1 - len(ordered) // 4])


def spreads(*runs: Callable[[], object], n: int = 9) -> tuple[Spread, ...]:
    """Time each run n times, interleaved, so that a slowdown of the machine affects all of them."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(n):
        for run, seconds in zip(runs, taken, strict=True):
            began = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - began)
    return tuple(map(Spread.of, taken))


# ---- with and without a cache


class Compared(NamedTuple):
    """A decode step computed with a cache and without."""

    n_tokens: int
    cached: Work
    anew: Work
    cached_seconds: Spread
    anew_seconds: Spread
    difference: float  # the largest, of the logits


def with_and_without(model: Transformer, ids: Sequence[int], seconds: tuple[Spread, Spread] | None = None) -> Compared:
    """Compute the last token of a text with the cache of those before, and without. ConfigError for a sliding window.

    seconds: the result of `step_seconds` for the same number of tokens.
    """
    with_cache, without = step_with_cache(model, len(ids)), step_without_cache(model, len(ids))
    step, full_pass = _two_ways(model, ids)
    difference = float((step() - full_pass()).abs().max())
    return Compared(len(ids), with_cache, without, *(seconds or step_seconds(model, ids)), difference)


def step_seconds(model: Transformer, ids: Sequence[int]) -> tuple[Spread, Spread]:
    """Time the last token of a text with the cache of those before, and without a cache."""
    with_cache, without = spreads(*_two_ways(model, ids))
    return with_cache, without


def _two_ways(model: Transformer, ids: Sequence[int]) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    cache = model.new_cache()
    read(model, ids[:-1], cache)

    def step() -> Tensor:
        for layer in cache:
            layer.cut(len(ids) - 1)
        return read(model, ids[-1:], cache)[-1]

    def full_pass() -> Tensor:
        return read(model, ids, model.new_cache())[-1]

    step()  # the first append allocates
    return step, full_pass


# ---- several models


class Member(NamedTuple):
    """The continuation by one model."""

    model: str
    ids: tuple[int, ...]
    token_bytes: int  # bytes cached per token, counted from tensors
    seconds: Spread  # per step


def side_by_side(
    models: Mapping[str, Transformer], ids: Sequence[int], n: int, sampling: Sampling
) -> tuple[Member, ...]:
    """Continue the same text by n tokens with each model, interleaved, so that a slowdown affects all of them."""
    runs = {name: generate(model, ids, n, sampling) for name, model in models.items()}
    steps: dict[str, list[Step]] = {name: [] for name in models}
    taken: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(n):
        for name, run in runs.items():
            began = time.perf_counter()
            steps[name].append(next(run))
            taken[name].append(time.perf_counter() - began)
    return tuple(_member(name, steps[name], taken[name][1:]) for name in models)  # the first step is the prefill


def _member(name: str, steps: Sequence[Step], taken: Sequence[float]) -> Member:
    cache = steps[-1].cache
    token_bytes = sum(layer.nbytes for layer in cache) // len(cache[0])
    return Member(name, tuple(step.id for step in steps), token_bytes, Spread.of(taken))


# ---- bounded and quantised caches


class Bounded(NamedTuple):
    """The result of one bounded cache on a text."""

    name: str
    losses: tuple[float, ...]  # nats, of each token after the first, until the cache is full
    held: tuple[int, ...]  # positions cached at the end
    nbytes: int  # at the end


class Kept(NamedTuple):
    """The result of one precision of cached keys and values on a text."""

    name: str
    nbytes: int
    loss: float  # mean over the text
    largest_error: float  # of the last logits, against float32


def bounded(model: Transformer, ids: Sequence[int], limit: int, n_sinks: int) -> tuple[Bounded, ...]:
    """Run a text through four caches. ValueError if the model has a sliding window or length-dependent RoPE."""
    n_sinks = min(n_sinks, limit - 1)
    caches: dict[str, list] = {
        "all tokens": model.new_cache(),
        "stop when full": limited_cache(model, limit),
        "slide": sliding_cache(model, limit),
        f"slide, first {n_sinks} kept": sliding_cache(model, limit, n_sinks),
    }
    return tuple(_read_with(name, model, ids, cache) for name, cache in caches.items())


def _read_with(name: str, model: Transformer, ids: Sequence[int], cache: list) -> Bounded:
    found = losses(model, ids, cache)
    layer = cache[0]
    held = layer.positions if isinstance(layer, SlidingCache) else range(len(layer))
    return Bounded(name, tuple(found), tuple(sorted(held)), sum(each.nbytes for each in cache))


def kept(model: Transformer, ids: Sequence[int]) -> tuple[Kept, ...]:
    """Run a text token by token with keys and values in float32, int8 and int4."""
    targets = torch.tensor(ids[1:])

    def run(cache: list) -> tuple[Tensor, float, int]:
        logits = torch.cat([read(model, [i], cache) for i in ids])  # (T, V): token by token, as in decoding
        loss = torch.nn.functional.cross_entropy(logits[:-1], targets)
        return logits, float(loss), sum(layer.nbytes for layer in cache)

    exact, loss, n_bytes = run(model.new_cache())
    found = [Kept("float32", n_bytes, loss, 0.0)]
    for bits in (8, 4):
        logits, loss, n_bytes = run(quantised_cache(model, bits))
        found.append(Kept(f"int{bits}", n_bytes, loss, float((logits - exact).abs().max())))
    return tuple(found)


# ---- sequences that share blocks


class Shared(NamedTuple):
    """Continuations of one text that share its blocks."""

    tables: tuple[tuple[int, ...], ...]  # the block table of each continuation
    users: tuple[int, ...]  # reference count of each block in the pool
    ids: tuple[tuple[int, ...], ...]  # tokens generated by each
    n_tokens: int  # in each at the end
    block_size: int
    block_bytes: int
    unused: int  # empty slots of the blocks in use
    unused_if_reserved: int
    n_reserved: int
    difference: float  # the largest, of the last logits, from a plain cache


def shared(
    model: Transformer, ids: Sequence[int], n_texts: int, n: int, block_size: int, sampling: Sampling, reserved: int
) -> Shared:
    """Generate several continuations of a text, n tokens each with different seeds, that share its blocks.

    reserved: tokens that each would reserve without paging.
    """
    n_tokens = len(ids) + n - 1  # the last generated token is not cached
    pool = paged_pool(model, n_texts * -(-n_tokens // block_size) + 1, block_size)
    prompt = PagedSequence(pool)
    read(model, ids[:-1], prompt.cache)
    texts = [prompt, *(prompt.fork() for _ in range(n_texts - 1))]
    written, difference = [], 0.0
    for i, text in enumerate(texts):
        own = replace(sampling, seed=sampling.seed + i)
        steps = list(generate(model, ids, n, own, cache=text.cache))
        plain = list(generate(model, ids, n, own))
        difference = max(difference, float((steps[-1].logits - plain[-1].logits).abs().max()))
        written.append(tuple(step.id for step in steps))
    return Shared(
        tuple(tuple(text.table) for text in texts), tuple(pool.users), tuple(written), n_tokens, block_size,
        pool.block_bytes, unused_slots(texts), unused_slots_if_reserved(texts, reserved), reserved, difference,
    )  # fmt: skip


# ---- speculation


class Speculated(NamedTuple):
    """A text generated by speculative decoding."""

    rounds: tuple[Round, ...]
    seconds: float
    plain_seconds: float  # for the same number of tokens without a drafter

    @property
    def n_tokens(self) -> int:
        """The number of generated tokens."""
        return sum(len(each.ids) for each in self.rounds)


def speculated(
    model: Transformer, ids: Sequence[int], n: int, drafter: Callable[[], Drafter], k: int, sampling: Sampling
) -> Speculated:
    """Generate n tokens with a drafter that proposes k at a time, and the same number without. drafter: a factory."""

    def with_drafter() -> tuple[Round, ...]:
        return tuple(speculate(model, ids, n, drafter(), k, sampling))

    rounds = with_drafter()
    n_written = sum(len(each.ids) for each in rounds)
    drafted, alone = spreads(with_drafter, lambda: list(generate(model, ids, n_written, sampling)), n=5)
    return Speculated(rounds, drafted.median, alone.median)


# ---- prefill and decode on the machine's roofline


class Phase(NamedTuple):
    """A measured pass of the model."""

    name: str
    n_tokens: int  # processed in it
    flops: int
    bytes_read: int
    seconds: Spread


class Roofline(NamedTuple):
    """This machine's peak rates, and the two phases."""

    flops_per_second: float  # of a product of two matrices of MATRIX x MATRIX
    bytes_per_second: float  # of a copy of COPIED numbers, read and written
    phases: tuple[Phase, ...]


def roofline(model: Transformer, ids: Sequence[int]) -> Roofline:
    """Measure the prefill of a text and the decode step of its last token. ConfigError for a sliding window."""
    n = len(ids)
    whole_text, one = step_without_cache(model, n), step_with_cache(model, n)
    cache = model.new_cache()
    read(model, ids[:-1], cache)

    def step() -> None:
        for layer in cache:
            layer.cut(n - 1)
        read(model, ids[-1:], cache)

    prefill, decode = spreads(lambda: read(model, ids, model.new_cache()), step)
    phases = (
        Phase("prefill", n, 2 * whole_text.multiplications, whole_text.bytes_read, prefill),
        Phase("decode", 1, 2 * one.multiplications, one.bytes_read, decode),
    )
    return Roofline(*_peaks(), phases)


def _peaks() -> tuple[float, float]:
    a, numbers = torch.ones(MATRIX, MATRIX), torch.ones(COPIED)
    target = torch.empty_like(numbers)
    return 2 * MATRIX**3 / _fastest(lambda: a @ a), 2 * numbers.nbytes / _fastest(lambda: target.copy_(numbers))


def _fastest(run: Callable[[], object], n: int = 5) -> float:
    taken = []
    for _ in range(n):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)
