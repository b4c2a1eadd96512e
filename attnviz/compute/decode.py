"""What the Decode page computes: a text that the model writes, and what each of its steps cached, read and drew from.

T tokens of the text, S tokens cached, H query heads, V tokens of the vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from attnviz import decode
from attnviz.compute import models
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.view import View
from attnviz.decode.generate import read
from attnviz.decode.sampling import draw, uniform
from attnviz.modules import Transformer
from attnviz.session.settings import Settings

AHEAD = 24  # tokens written beyond those of the link
MOST_TOKENS = 512  # of the text and what continues it
CANDIDATES = 8
ROWS_BEFORE = 24  # rows of the maps that come before the first token written
MAX_RUN_BYTES = 24_000_000
SHIPPED = ("mha", "gqa-4", "gqa-2", "mqa", "mla")

_runs = ByteCache(MAX_RUN_BYTES)


class Step(NamedTuple):
    """One token written, and what it was drawn from."""

    id: int
    probability: float  # that the model gave it, before the filters
    candidates: tuple[int, ...]  # the most probable tokens, and the one written
    stages: tuple[tuple[str, tuple[float, ...]], ...]  # (filter, the candidates' probabilities after it)
    layer_bytes: tuple[int, ...]  # of each layer's cached tensors, counted
    rows: np.ndarray  # (H, S) weights of the last token read, in the layer that is looked at


@dataclass(frozen=True, eq=False)
class Written:
    """The text's own rows of the maps, and the steps after it."""

    rows: np.ndarray  # (H, up to ROWS_BEFORE, T): of the text's last tokens but one
    steps: tuple[Step, ...]

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(step.rows.nbytes + 2000 for step in self.steps)


def causal(view: View) -> View:
    """The same with a causal mask: a cache is of use only where earlier tokens never look ahead."""
    return view if view.config.causal else view.but(causal=True)


def sampling_of(s: Settings) -> decode.Sampling:
    """Return how the next token is chosen."""
    return decode.Sampling(
        s.temperature, s.top_k or None, s.top_p if s.top_p < 1 else None, s.min_p or None, s.penalty, s.draw_seed
    )


def usable(view: View) -> tuple[int, ...]:
    """Return the ids of the link that the model has, up to the first that it lacks and as far as there is room."""
    most = view.config.vocab_size
    known = [i < most for i in view.settings.written]
    end = known.index(False) if False in known else len(known)
    return view.settings.written[: max(0, min(end, room(view)))]


def room(view: View) -> int:
    """Count the tokens that can be written behind the text."""
    return max(0, min(MOST_TOKENS, view.max_tokens) - len(view.ids))


def written_of(view: View) -> Written:
    """Let the model write: first the tokens of the link, then as many more as are shown ahead."""
    view = causal(view)
    s, fixed, layer = view.settings, usable(view), view.layer_and_head[0]
    n = min(len(fixed) + AHEAD, room(view))
    key = "written", models.weights_key(s), view.config, view.ids, fixed, n, sampling_of(s), layer
    return models.computed_once(key, lambda: _write(view.model, view.ids, fixed, n, sampling_of(s), layer), _runs)


class _Rows:
    """Keeps one layer's weights of each pass: layers run in their order."""

    def __init__(self, layer: int, n_layers: int) -> None:
        self.layer, self.n_layers, self.n_calls = layer, n_layers, 0
        self.weights: list[np.ndarray] = []  # (H, T, S) for each pass

    def __call__(self, **computed: Any) -> None:
        if self.n_calls % self.n_layers == self.layer:
            self.weights.append(computed["weights"][0].numpy().copy())
        self.n_calls += 1


def _write(
    model: Transformer, prompt: Sequence[int], fixed: Sequence[int], n: int, sampling: decode.Sampling, layer: int
) -> Written:
    ids, cache, rows = list(prompt), model.new_cache(), _Rows(layer, len(model.blocks))
    steps: list[Step] = []
    for i in range(n):
        logits = read(model, ids[len(cache[0]) :], cache, rows)[-1]
        stages = decode.stages(logits, ids, sampling)
        chosen = fixed[i] if i < len(fixed) else draw(stages[-1].probabilities, uniform(sampling.seed, len(ids)))
        steps.append(_step(chosen, stages, cache, rows.weights[-1][:, -1]))
        ids.append(chosen)
    if not steps:  # no room: the text's maps alone
        read(model, ids, cache, rows)
    return Written(rows.weights[0][:, -1 - ROWS_BEFORE : -1], tuple(steps))


def _step(chosen: int, stages: Sequence[decode.Stage], cache: list, row: np.ndarray) -> Step:
    before = stages[0].probabilities
    best = before.topk(min(CANDIDATES, len(before))).indices.tolist()
    shown = best if chosen in best else [*best[:-1], chosen]
    drawn = tuple((stage.name, tuple(stage.probabilities[shown].tolist())) for stage in stages)
    return Step(chosen, float(before[chosen]), tuple(shown), drawn, tuple(layer.nbytes for layer in cache), row)


# ---- with and without a cache


class Spread(NamedTuple):
    """Seconds: what a quarter of the runs took at most, half of them, three quarters."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, taken: Sequence[float]) -> Spread:
        """Summarise the times of some runs."""
        ordered = sorted(taken)
        return cls(ordered[len(ordered) // 4], median(ordered), ordered[-1 - len(ordered) // 4])


class Compared(NamedTuple):
    """One step computed with a cache and without."""

    n_tokens: int
    cached: decode.Work
    anew: decode.Work
    cached_seconds: Spread
    anew_seconds: Spread
    difference: float  # the largest of the logits


@models.cached_by_model(maxsize=32)
def _timed(settings: Settings, ids: tuple[int, ...]) -> tuple[Spread, Spread, float]:
    """Seconds of a step with a cache and anew, and the largest difference of their logits."""
    model = models.model_of(settings)
    cache = model.new_cache()
    read(model, ids[:-1], cache)

    def step() -> torch.Tensor:
        for layer in cache:
            layer.cut(len(ids) - 1)
        return read(model, ids[-1:], cache)[-1]

    def anew() -> torch.Tensor:
        return read(model, ids, model.new_cache())[-1]

    difference = float((step() - anew()).abs().max())
    return spread(step), spread(anew), difference


def spread(run: Callable[[], object], n: int = 9) -> Spread:
    """Time n runs."""
    taken = []
    for _ in range(n):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return Spread.of(taken)


def compared(view: View) -> Compared:
    """Compute the last token of the text and what is written, with a cache and anew. ConfigError with a window."""
    view = causal(view)
    ids = (*view.ids, *usable(view))
    ids = ids if len(ids) > 1 else ids * 2
    cached, anew = decode.step_with_cache(view.model, len(ids)), decode.step_without_cache(view.model, len(ids))
    with_cache, without, difference = _timed(view.settings, ids)
    return Compared(len(ids), cached, anew, with_cache, without, difference)


# ---- the family


class Member(NamedTuple):
    """What one model wrote."""

    model: str
    ids: tuple[int, ...]
    token_bytes: int  # of the cache, for each token, counted
    seconds: Spread  # of a step


@lru_cache(maxsize=16)
def family(ids: tuple[int, ...], sampling: decode.Sampling) -> tuple[Member, ...]:
    """Let the five trained checkpoints continue the same text."""
    runs = {name: decode.generate(models.model_of(Settings(model=name)), ids, AHEAD, sampling) for name in SHIPPED}
    steps: dict[str, list[decode.Step]] = {name: [] for name in SHIPPED}
    taken: dict[str, list[float]] = {name: [] for name in SHIPPED}
    for _ in range(AHEAD):
        for name, run in runs.items():  # in turns: whatever slows the machine down slows all five
            began = time.perf_counter()
            steps[name].append(next(run))
            taken[name].append(time.perf_counter() - began)
    return tuple(_member(name, steps[name], taken[name][1:]) for name in SHIPPED)  # the first reads the whole text


def _member(name: str, steps: Sequence[decode.Step], taken: Sequence[float]) -> Member:
    cache = steps[-1].cache
    token_bytes = sum(layer.nbytes for layer in cache) // len(cache[0])
    return Member(name, tuple(step.id for step in steps), token_bytes, Spread.of(taken))
