"""Decode one token at a time with a growing cache.

T new tokens, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnviz.checks import whole
from attnviz.decode.bounded import CacheFull, SlidingCache
from attnviz.decode.sampling import Sampling, distribution, draw, uniform
from attnviz.modules import Transformer


class Step(NamedTuple):
    """One generated token."""

    id: int
    probability: float  # the model's: softmax(logits), before the filters
    logits: Tensor  # (V,), from which the token was chosen
    cache: list  # one per layer; holds the text before this token


def generate(
    model: Transformer,
    ids: Sequence[int],
    n_tokens: int,
    sampling: Sampling = Sampling(),  # noqa: B008, frozen
    cache: list | None = None,
    record: Callable[..., None] | None = None,
    ends: Collection[int] = (),
) -> Iterator[Step]:
    """Continue the text `ids` by n_tokens tokens, yielding one `Step` each; fewer if a `LimitedCache` is full.

    cache: one per layer, by default `model.new_cache()`; it holds the first len(cache[0]) tokens of `ids`, fewer than
    all, and is modified. Continuing later with the cache of the last step gives the same text as a single run.
    record: called by each layer's attention with its tensors in each pass, for example a `Recording`.
    ends: tokens that end the text (eos): the first one generated is the last step. `Tokenizer.ends` has a model's.
    """
    ids = checked_ids(model, ids)
    whole("n_tokens", n_tokens, low=0)
    cache = model.new_cache() if cache is None else cache
    if len(cache[0]) >= len(ids):
        raise ValueError(f"the cache holds {len(cache[0])} tokens; ids must have more, but has {len(ids)}")
    return _steps(model, ids, n_tokens, sampling, cache, record, ends)


def _steps(
    model: Transformer,
    ids: list[int],
    n_tokens: int,
    sampling: Sampling,
    cache: list,
    record: Callable[..., None] | None,
    ends: Collection[int],
) -> Iterator[Step]:
    for _ in range(n_tokens):
        try:
            new = ids[len(cache[0]) :]  # first the whole prompt, then one token
            logits = read(model, new, cache, record)[-1]  # (V,)
        except CacheFull:
            return
        chosen = draw(distribution(logits, ids, sampling), uniform(sampling.seed, len(ids)))
        yield Step(chosen, float(logits.softmax(-1)[chosen]), logits, cache)
        if chosen in ends:
            return
        ids.append(chosen)


@torch.no_grad()
def read(model: Transformer, ids: Sequence[int], cache: list, record: Callable[..., None] | None = None) -> Tensor:
    """Run the model on the next T tokens of one text and return the logits after each, (T, V).

    Runs all tokens in one pass, but one at a time once a `SlidingCache` overwrites. MLA processes a single token in its
    absorbed form, unless its keys and values are recorded.
    """
    at_once = min((layer.room for layer in cache if isinstance(layer, SlidingCache)), default=len(ids))
    pieces = [ids[:at_once], *([i] for i in ids[at_once:])] if at_once else [[i] for i in ids]
    absorbed = record is None
    logits = [
        model(torch.tensor([piece]), cache=cache, record=record, absorbed=absorbed and len(piece) == 1)[0]
        for piece in pieces
    ]
    return logits[0] if len(logits) == 1 else torch.cat(logits)


def losses(
    model: Transformer, ids: Sequence[int], cache: list, on_read: Callable[[], object] = lambda: None
) -> list[float]:
    """Run a text token by token and return −log p of each token after the first, in nats, until a cache is full.

    on_read: called after each token that was read.
    """
    so_far: list[float] = []
    ids = checked_ids(model, ids)
    for now, then in pairwise(ids):
        try:
            so_far.append(-float(read(model, [now], cache)[-1].log_softmax(-1)[then]))
        except CacheFull:
            break
        on_read()
    return so_far


def checked_ids(model: Transformer, ids: Any) -> list[int]:
    """Return the ids as a new list. ConfigError for an id that is not in the vocabulary, or for no ids."""
    ids = [int(i) for i in ids]
    whole("the number of ids", len(ids))
    for i in (min(ids), max(ids)):
        whole("an id", i, low=0, high=model.config.vocab_size - 1)
    return ids
