"""Ablated heads on the Heads page: predictions and losses without them, cached and shared between sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from attnviz.analysis.groups import log_softmax, next_token_losses
from attnviz.compute import models, queue
from attnviz.compute.byte_cache import ArrayList, ByteCache
from attnviz.experiments.ablation import N_THREADS, ablated, losses_without_each, mean_loss, mean_outputs
from attnviz.session.settings import Settings
from attnviz.trace import final_stream, logits_of

MAX_ABLATED = 256  # tokens: the model runs once per head
MAX_EFFECT_BYTES = 1_000_000
MAX_STREAM_BYTES = 5_000_000  # 25 sets of ablated heads of a checkpoint

_effects, _streams = ByteCache(MAX_EFFECT_BYTES), ByteCache(MAX_STREAM_BYTES)


@dataclass(frozen=True, eq=False)
class Prediction:
    """The next token's probabilities (V,) after one token, and the mean loss of all tokens in nats."""

    odds: np.ndarray
    loss: float


def prediction_of(settings: Settings, ids: tuple[int, ...], off: Collection[tuple[int, int]], query: int) -> Prediction:
    """Predict with the heads `off`, pairs (layer, head), ablated, on the first MAX_ABLATED tokens.

    The model runs once for all queries: its last residual stream is cached, which is smaller than the logits.
    """
    model, ids, way = models.model_of(settings), ids[:MAX_ABLATED], settings.off_way if off else ""
    key = models.run_of(settings), ids, way, frozenset(off)

    def run() -> np.ndarray:
        return final_stream(ablated(model, off, means_of(settings)), ids)

    stream = models.computed_once(key, run, _streams)  # (T, C)

    def loss() -> np.ndarray:
        return next_token_losses(logits_of(model, stream), np.array(ids)).mean(keepdims=True)

    found = models.computed_once((*key, "loss"), loss, _streams)
    return Prediction(np.exp(log_softmax(logits_of(model, stream[query]))), float(found[0]))


@dataclass(frozen=True, eq=False)
class Effects:
    """The loss in nats per token on the first MAX_ABLATED tokens with all heads, and (L, H) with each one ablated.

    losses: NaN where not measured yet. seconds: estimated time to measure all of them.
    """

    before: float
    losses: np.ndarray
    seconds: float

    @property
    def n_measured(self) -> int:
        return int(np.isfinite(self.losses).sum())

    @property
    def complete(self) -> bool:
        return self.n_measured == self.losses.size


def effects_of(
    settings: Settings, ids: tuple[int, ...], progress: Callable[[Effects, float], object] | None
) -> Effects:
    """Ablate each head alone, layer by layer, until the session requests a rerun.

    progress: callback with the results so far and the share done, called while measuring; None returns only cached
    results.
    """
    config, ids, means = models.config_of(settings), ids[:MAX_ABLATED], means_of(settings)
    key = models.run_of(settings), ids
    L, H = config.n_layers, config.n_heads
    before, seconds = models.computed_once((*key, "before"), lambda: _timed_loss(settings, ids), _effects)
    known = Effects(float(before), np.full((L, H), np.nan), seconds * H * (L + 1) / 2 / N_THREADS)

    def measure(layer: int) -> np.ndarray:
        def report(done: int) -> None:
            if queue.rerun_requested():
                raise queue.Interrupted
            if progress:
                progress(known, _share_done(layer, done, L, H))

        report(0)
        return losses_without_each(models.model_of(settings), ids, layer, means, report)

    with suppress(queue.Interrupted):
        for layer in range(L):
            layer_key = (*key, settings.off_way, layer)
            if progress:
                known.losses[layer] = models.computed_once(layer_key, partial(measure, layer), _effects)
            elif (losses := _effects.find(layer_key)) is not None:
                known.losses[layer] = losses
    return known


def _timed_loss(settings: Settings, ids: tuple[int, ...]) -> np.ndarray:
    """Return the loss with all heads and the seconds it took: (2,)."""
    model, began = models.model_of(settings), time.perf_counter()
    return np.array([mean_loss(model, ids), time.perf_counter() - began])


def _share_done(layer: int, heads: int, L: int, H: int) -> float:
    """Return the share of layer runs that are done: ablating a head of layer i reruns the L - i layers from i on."""
    return (sum(H * (L - i) for i in range(layer)) + heads * (L - layer)) / (H * L * (L + 1) / 2)


def means_of(settings: Settings) -> ArrayList | None:
    """Return the mean outputs that mean ablation uses, (H, D) of each layer; None for zero ablation."""
    if settings.off_way == "zero":
        return None
    key = "means", models.run_of(settings)
    return models.computed_once(
        key, lambda: ArrayList(mean_outputs(models.model_of(settings), reference(settings))), _effects
    )


def reference(settings: Settings) -> list[int]:
    """Return the reference text of mean ablation, as ids of the model's tokenizer."""
    return list(models.long_text(settings)[: min(MAX_ABLATED, models.max_tokens(models.config_of(settings)))])
