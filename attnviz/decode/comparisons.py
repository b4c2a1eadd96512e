"""Compare ways to decode a text: with and without a cache, bounded, quantised, paged, speculative; and measure them.

T tokens, V tokens of the vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median
from typing import NamedTuple

import torch
from torch import Tensor

from attnviz.decode.bounded import SlidingCache, limited_cache, sliding_cache
from attnviz.decode.generate import Step, generate, losses, read
from attnviz.decode.paged import PagedSequence, paged_pool, unused_slots, unused_slots_if_reserved
from attnviz.decode.quantised import quantised_cache
from attnviz.decode.sampling import Sampling
from attnviz.decode.speculation import Drafter, Round, speculate
from attnviz.decode.work import Work, step_with_cache, step_without_cache, weight_dtype
from attnviz.modules import StateCache, Transformer

STEADY = 1.5  # the third quartile of a measurement by its first, up to which it counts as steady


# ---- time


class Spread(NamedTuple):
    """First quartile, median and third quartile of what some runs took, in seconds."""

    low: float
    median: float
    high: float
    n_runs: int

    @classmethod
    def of(cls, taken: Sequence[float]) -> Spread:
        """Compute the quartiles of some times."""
        ordered = sorted(taken)
        return cls(ordered[len(ordered) // 4], median(ordered), ordered[-1 - len(ordered) // 4], len(ordered))

    @property
    def steady(self) -> bool:
        """Whether the quartiles are close enough to keep the measurement."""
        return self.high <= STEADY * self.low

    def overlaps(self, other: Spread) -> bool:
        """Whether the ranges between the quartiles have a time in common."""
        return self.low <= other.high and other.low <= self.high

    def per_second(self, amount: float) -> Spread:
        """Return the quartiles of the rate at which an amount was done."""
        return Spread(amount / self.high, amount / self.median, amount / self.low, self.n_runs)


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
    with_cache: Work
    without: Work
    difference: float  # the largest of the logits
    weights: str = "float32"  # the dtype in which they are stored


def with_and_without(model: Transformer, ids: Sequence[int]) -> Compared:
    """Compute the last token of a text with the cache of those before, and without. ConfigError with a window."""
    step, all_of_it = _two_ways(model, ids)
    difference = float((step() - all_of_it()).abs().max())
    ways = step_with_cache(model, len(ids)), step_without_cache(model, len(ids))
    return Compared(len(ids), *ways, difference, weight_dtype(model))


def step_seconds(model: Transformer, ids: Sequence[int]) -> tuple[Spread, ...]:
    """Time the last token of a text with the cache of those before, and without, which is also the prefill."""
    return spreads(*_two_ways(model, ids))


def decode_step_seconds(models: Sequence[Transformer], ids: Sequence[int]) -> tuple[Spread, ...]:
    """Time the last token of a text with the cache of those before, in each model, in turn."""
    return spreads(*(_cached_step(model, ids) for model in models))


def _two_ways(model: Transformer, ids: Sequence[int]) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    def full_pass() -> Tensor:
        return read(model, ids, model.new_cache())[-1]

    return _cached_step(model, ids), full_pass


def _cached_step(model: Transformer, ids: Sequence[int]) -> Callable[[], Tensor]:
    cache = model.new_cache()
    read(model, ids[:-1], cache)
    marks = [layer.mark() for layer in cache]

    def step() -> Tensor:
        for layer, mark in zip(cache, marks, strict=True):
            layer.back_to(mark)
        return read(model, ids[-1:], cache)[-1]

    step()  # the first append allocates
    return step


# ---- several models


class Member(NamedTuple):
    """The continuation by one model."""

    model: str
    ids: tuple[int, ...]
    token_bytes: int  # of the cache, for each token, counted
    seconds: Spread  # of a step: the pass, the sampling filters and the draw

    @property
    def steady(self) -> bool:
        """Whether the measurement is."""
        return self.seconds.steady


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


class Quantised(NamedTuple):
    """The result of one precision of cached keys and values on a text."""

    name: str
    nbytes: int
    losses: tuple[float, ...]  # nats, of each token after the first
    largest_error: float  # of the logits, against float32
    n_changed: int  # tokens for which another one is the most likely than with float32

    @property
    def loss(self) -> float:
        """The mean loss over the text, in nats."""
        return mean(self.losses)


def bounded(
    model: Transformer, ids: Sequence[int], limit: int, n_sinks: int, on_read: Callable[[], object] = lambda: None
) -> tuple[Bounded, ...]:
    """Run a text through four caches. ValueError if the model has a sliding window or length-dependent RoPE.

    on_read: called after each token that was read, `bounded_reads` times in all.
    """
    n_sinks = min(n_sinks, limit - 1)
    caches: dict[str, list] = {
        "all tokens": model.new_cache(),
        "stop when full": limited_cache(model, limit),
        "slide": sliding_cache(model, limit),
        f"slide, first {n_sinks} kept": sliding_cache(model, limit, n_sinks),
    }
    return tuple(_read_with(name, model, ids, cache, on_read) for name, cache in caches.items())


def bounded_reads(n_tokens: int, limit: int) -> int:
    """Return how many tokens `bounded` reads: all but the last with three caches, `limit` at most with the fourth."""
    return 3 * (n_tokens - 1) + min(limit, n_tokens - 1)


def _read_with(
    name: str, model: Transformer, ids: Sequence[int], cache: list, on_read: Callable[[], object]
) -> Bounded:
    found = losses(model, ids, cache, on_read)
    layer = next((each for each in cache if not isinstance(each, StateCache)), cache[0])
    held = layer.positions if isinstance(layer, SlidingCache) else range(len(layer))
    return Bounded(name, tuple(found), tuple(sorted(held)), sum(each.nbytes for each in cache))


def quantised(
    model: Transformer, ids: Sequence[int], on_read: Callable[[], object] = lambda: None
) -> tuple[Quantised, ...]:
    """Read a text token by token with keys and values in float32, int8 and int4; its last token is only predicted.

    on_read: called after each token that was read, 3 (T - 1) times in all.
    """
    targets = torch.tensor(ids[1:])

    def run(cache: list) -> Tensor:
        logits = []
        for i in ids[:-1]:  # token by token, as one decodes
            logits.append(read(model, [i], cache))
            on_read()
        return torch.cat(logits)  # (T - 1, V)

    exact, found = None, []
    for name, cache in (
        ("float32", model.new_cache()), ("int8", quantised_cache(model, 8)), ("int4", quantised_cache(model, 4)),
    ):  # fmt: skip
        logits = run(cache)
        exact = logits if exact is None else exact
        found.append(
            Quantised(
                name,
                sum(layer.nbytes for layer in cache),
                tuple(torch.nn.functional.cross_entropy(logits, targets, reduction="none").tolist()),
                float((logits - exact).abs().max()),
                int((logits.argmax(-1) != exact.argmax(-1)).sum()),
            )
        )
    return tuple(found)


# ---- sequences that share blocks


class Shared(NamedTuple):
    """Continuations of one text that share its blocks."""

    tables: tuple[tuple[int, ...], ...]  # of each continuation, the numbers of its blocks
    users: tuple[int, ...]  # of each block of the pool, how many continuations have it
    copied: dict[int, int]  # block that is a copy -> the shared block it was copied from
    ids: tuple[tuple[int, ...], ...]  # what each wrote
    n_tokens: int  # in each at the end
    block_size: int
    block_bytes: int
    unused: int  # empty slots of the blocks in use
    unused_if_reserved: int
    n_reserved: int
    difference: float  # the largest, of the last logits, from a plain cache
    samplings: tuple[Sampling, ...]  # of each continuation


WARMER = 0.5  # by which the temperature rises where too many continuations are equal
MOST_RISES = 8


def differing(
    model: Transformer, ids: Sequence[int], n_texts: int, n: int, sampling: Sampling
) -> list[tuple[Sampling, list[Step]]]:
    """Generate continuations of n tokens that all differ, with other seeds or, where these do not do, more temperature.

    Two seeds per text are tried at each temperature. Some are equal if not even the highest gives enough.
    """
    by_text: dict[tuple[int, ...], tuple[Sampling, list[Step]]] = {}
    for rise in range(MOST_RISES + 1):
        by_text = {}
        for seed in range(sampling.seed, sampling.seed + 2 * n_texts):
            own = replace(sampling, temperature=sampling.temperature + rise * WARMER, seed=seed)
            steps = list(generate(model, ids, n, own))
            by_text.setdefault(tuple(step.id for step in steps), (own, steps))
            if len(by_text) == n_texts:
                return list(by_text.values())
    return (list(by_text.values()) * n_texts)[:n_texts]


def shared(
    model: Transformer, ids: Sequence[int], n_texts: int, n: int, block_size: int, sampling: Sampling, reserved: int
) -> Shared:
    """Generate several continuations of a text, n tokens each and all different, that share its blocks.

    reserved: tokens that each would reserve without paging.
    """
    n_tokens = len(ids) + n - 1  # the last generated token is not cached
    pool = paged_pool(model, n_texts * -(-n_tokens // block_size) + 1, block_size)
    prompt = PagedSequence(pool)
    read(model, ids[:-1], prompt.cache)
    texts = [prompt, *(prompt.fork() for _ in range(n_texts - 1))]
    written, difference = [], 0.0
    alone = differing(model, ids, n_texts, n, sampling)
    for text, (own, plain) in zip(texts, alone, strict=True):
        steps = list(generate(model, ids, n, own, cache=text.cache))
        difference = max(difference, float((steps[-1].logits - plain[-1].logits).abs().max()))
        written.append(tuple(step.id for step in steps))
    return Shared(
        tuple(tuple(text.table) for text in texts), tuple(pool.users), pool.copied, tuple(written), n_tokens,
        block_size, pool.block_bytes, unused_slots(texts), unused_slots_if_reserved(texts, reserved), reserved,
        difference, tuple(own for own, _ in alone),
    )  # fmt: skip


# ---- speculation


class Speculated(NamedTuple):
    """A text generated by speculative decoding."""

    rounds: tuple[Round, ...]

    @property
    def n_tokens(self) -> int:
        """The number of generated tokens."""
        return sum(len(each.ids) for each in self.rounds)

    @property
    def n_proposed(self) -> int:
        """Count the tokens proposed."""
        return sum(len(each.proposed) for each in self.rounds)

    @property
    def n_accepted(self) -> int:
        """Count the tokens accepted."""
        return sum(each.n_accepted for each in self.rounds)


def speculated(
    model: Transformer, ids: Sequence[int], n: int, drafter: Callable[[], Drafter], k: int, sampling: Sampling
) -> Speculated:
    """Write n tokens with a drafter that proposes k at a time; drafter: makes a fresh one."""
    return Speculated(tuple(speculate(model, ids, n, drafter(), k, sampling)))


def speculation_seconds(
    model: Transformer, ids: Sequence[int], n: int, drafter: Callable[[], Drafter], k: int, sampling: Sampling
) -> tuple[Spread, ...]:
    """Time n tokens written with a drafter, and as many without."""
    return spreads(
        lambda: speculated(model, ids, n, drafter, k, sampling), lambda: list(generate(model, ids, n, sampling)), n=5
    )
