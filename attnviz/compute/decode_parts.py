"""What the parts of the Decode page compute: caches of limited size, shared blocks, speculation, prefill and decode."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attnviz import decode
from attnviz.compute import models
from attnviz.compute.decode import Spread, causal, sampling_of, spread, usable
from attnviz.compute.view import View
from attnviz.decode.generate import read
from attnviz.modules import Transformer
from attnviz.session.settings import Settings

LONG_TEXT = Path(__file__).with_name("long_text.txt")  # written for this project
N_READ = 192  # tokens of the running text whose loss is plotted
N_SHARED = 12  # tokens that each continuation adds
N_SPECULATED = 24
MATRIX = 512  # rows and columns of the matrices that are multiplied to find this machine's peak
COPIED = 8_000_000  # numbers that are copied to find its bandwidth: 32 MB


def running_text(view: View) -> tuple[tuple[int, ...], bool]:
    """Return the text and what is written after it; where they are shorter than N_READ, a story of the app's own.

    The flag says whether it is the person's own.
    """
    own = (*view.ids, *usable(view))
    if len(own) >= N_READ:
        return own[:N_READ], True
    return tuple(
        models.tokenizer_of(view.settings.model).encode(LONG_TEXT.read_text(encoding="utf-8"))[
            : min(N_READ, view.max_tokens)
        ]
    ), False


# ---- when memory ends


class Bounded(NamedTuple):
    """One way to bound a cache, on a running text."""

    name: str
    losses: tuple[float, ...]  # nats, of each token after the first, until the cache is full
    held: tuple[int, ...]  # the positions that it holds at the end
    nbytes: int  # at the end


class Kept(NamedTuple):
    """A precision in which keys and values are kept, on the same text."""

    name: str
    nbytes: int
    loss: float  # mean over the text
    largest_error: float  # of the last logits, against float32


def bounded(view: View) -> tuple[Bounded, ...]:
    """Read a text with four caches. ValueError where the model has a window, or its RoPE does not allow it."""
    view = causal(view)
    return _bounded(view.settings, running_text(view)[0], view.settings.bound, view.settings.kept_first)


@models.cached_by_model(maxsize=16)
def _bounded(settings: Settings, ids: tuple[int, ...], limit: int, n_sinks: int) -> tuple[Bounded, ...]:
    model = models.model_of(settings)
    n_sinks = min(n_sinks, limit - 1)
    caches: dict[str, list] = {
        "all tokens": model.new_cache(),
        "stop when full": decode.limited_cache(model, limit),
        "slide": decode.sliding_cache(model, limit),
        f"slide, first {n_sinks} kept": decode.sliding_cache(model, limit, n_sinks),
    }
    return tuple(_read_with(name, model, ids, cache) for name, cache in caches.items())


def _read_with(name: str, model: Transformer, ids: tuple[int, ...], cache: list) -> Bounded:
    losses = decode.losses(model, ids, cache)
    layer = cache[0]
    held = layer.positions if isinstance(layer, decode.SlidingCache) else range(len(layer))
    return Bounded(name, tuple(losses), tuple(sorted(held)), sum(each.nbytes for each in cache))


def kept(view: View) -> tuple[Kept, ...]:
    """Read the same text with keys and values in float32, int8 and int4."""
    view = causal(view)
    return _kept(view.settings, running_text(view)[0])


@models.cached_by_model(maxsize=16)
def _kept(settings: Settings, ids: tuple[int, ...]) -> tuple[Kept, ...]:
    model = models.model_of(settings)
    targets = torch.tensor(ids[1:])

    def run(cache: list) -> tuple[Tensor, float, int]:
        logits = torch.cat([read(model, [i], cache) for i in ids])  # (T, V): token by token, as one decodes
        loss = torch.nn.functional.cross_entropy(logits[:-1], targets)
        return logits, float(loss), sum(layer.nbytes for layer in cache)

    exact, loss, n_bytes = run(model.new_cache())
    found = [Kept("float32", n_bytes, loss, 0.0)]
    for bits in (8, 4):
        logits, loss, n_bytes = run(decode.quantised_cache(model, bits))
        found.append(Kept(f"int{bits}", n_bytes, loss, float((logits - exact).abs().max())))
    return tuple(found)


# ---- many at once


class Shared(NamedTuple):
    """Continuations of one text that share its blocks."""

    tables: tuple[tuple[int, ...], ...]  # of each continuation, the numbers of its blocks
    users: tuple[int, ...]  # of each block of the pool, how many continuations have it
    ids: tuple[tuple[int, ...], ...]  # what each wrote
    n_tokens: int  # in each at the end
    block_size: int
    block_bytes: int
    unused: int  # slots of the blocks in use that hold no token
    unused_if_reserved: int
    n_reserved: int
    difference: float  # the largest of the last logits from those of a plain cache


def shared(view: View) -> Shared:
    """Let several continuations share the blocks of the text."""
    view = causal(view)
    s, ids = view.settings, (*view.ids, *usable(view))
    ids = (ids if len(ids) > 1 else ids * 2)[-(view.max_tokens - N_SHARED) :]
    return _shared(s, ids, s.n_texts, s.block_size, s.draw_seed, max(s.temperature, 0.8), view.max_tokens)


@models.cached_by_model(maxsize=16)
def _shared(
    settings: Settings, ids: tuple[int, ...], n: int, block_size: int, seed: int, temperature: float, reserved: int
) -> Shared:
    model = models.model_of(settings)
    n_tokens = len(ids) + N_SHARED - 1  # the last token written is not read
    pool = decode.paged_pool(model, n * -(-n_tokens // block_size) + 1, block_size)
    prompt = decode.PagedSequence(pool)
    read(model, ids[:-1], prompt.cache)
    texts = [prompt, *(prompt.fork() for _ in range(n - 1))]
    written, difference = [], 0.0
    for i, text in enumerate(texts):
        sampling = decode.Sampling(temperature=temperature, seed=seed + i)
        steps = list(decode.generate(model, ids, N_SHARED, sampling, cache=text.cache))
        plain = list(decode.generate(model, ids, N_SHARED, sampling))
        difference = max(difference, float((steps[-1].logits - plain[-1].logits).abs().max()))
        written.append(tuple(step.id for step in steps))
    return Shared(
        tuple(tuple(text.table) for text in texts), tuple(pool.users), tuple(written), n_tokens, block_size,
        pool.block_bytes, decode.paged.unused_slots(texts),
        decode.paged.unused_slots_if_reserved(texts, reserved), reserved, difference,
    )  # fmt: skip


# ---- speculation


class Speculated(NamedTuple):
    """A text written with a drafter's help."""

    rounds: tuple[decode.Round, ...]
    seconds: float
    plain_seconds: float  # for as many tokens without a drafter

    @property
    def n_tokens(self) -> int:
        return sum(len(each.ids) for each in self.rounds)


def speculated(view: View) -> Speculated:
    """Let a drafter propose tokens and the model check them."""
    view = causal(view)
    s, ids = view.settings, (*view.ids, *usable(view))[: view.max_tokens - N_SPECULATED]
    return _speculated(s, ids, s.drafter, s.proposed, sampling_of(s))


@models.cached_by_model(maxsize=16)
def _speculated(
    settings: Settings, ids: tuple[int, ...], drafter: str, k: int, sampling: decode.Sampling
) -> Speculated:
    model = models.model_of(settings)

    def drafts() -> decode.ModelDrafter | decode.NGramDrafter:
        if drafter == "n-grams":
            return decode.NGramDrafter(model.config.vocab_size)
        return decode.ModelDrafter(models.model_of(Settings(model=drafter)))

    def together() -> tuple[decode.Round, ...]:
        return tuple(decode.speculate(model, ids, N_SPECULATED, drafts(), k, sampling))

    rounds = together()
    n = sum(len(each.ids) for each in rounds)
    seconds = spread(together, 3).median
    return Speculated(rounds, seconds, spread(lambda: list(decode.generate(model, ids, n, sampling)), 3).median)


# ---- prefill and decode on the machine's roofline


class Phase(NamedTuple):
    """One pass of the model, measured."""

    name: str
    n_tokens: int  # read in it
    flops: int
    bytes_read: int
    seconds: Spread


class Roofline(NamedTuple):
    """What this machine does at most, and where the two phases lie."""

    flops_per_second: float  # of a product of two matrices of MATRIX x MATRIX
    bytes_per_second: float  # of a copy of COPIED numbers, read and written
    phases: tuple[Phase, ...]


def roofline(view: View) -> Roofline:
    """Measure reading the text at once, and one token after it. ConfigError with a window."""
    view = causal(view)
    ids = (*view.ids, *usable(view))
    return _roofline(view.settings, ids if len(ids) > 1 else ids * 2)


@models.cached_by_model(maxsize=16)
def _roofline(settings: Settings, ids: tuple[int, ...]) -> Roofline:
    model, n = models.model_of(settings), len(ids)
    whole_text, one = decode.step_without_cache(model, n), decode.step_with_cache(model, n)
    cache = model.new_cache()
    read(model, ids[:-1], cache)

    def step() -> None:
        for layer in cache:
            layer.cut(n - 1)
        read(model, ids[-1:], cache)

    phases = (
        Phase("prefill", n, 2 * whole_text.multiplications, whole_text.bytes_read,
              spread(lambda: read(model, ids, model.new_cache()))),
        Phase("decode", 1, 2 * one.multiplications, one.bytes_read, spread(step)),
    )  # fmt: skip
    return Roofline(*_peaks(), phases)


def _peaks() -> tuple[float, float]:
    a, numbers = torch.ones(MATRIX, MATRIX), torch.ones(COPIED)
    there = torch.empty_like(numbers)
    return 2 * MATRIX**3 / _fastest(lambda: a @ a), 2 * numbers.nbytes / _fastest(lambda: there.copy_(numbers))


def _fastest(run: Callable[[], object], n: int = 5) -> float:
    taken = []
    for _ in range(n):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)
