"""Computations of the Query grouping page besides the trace: other models on the same text, in bounded caches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter

import numpy as np

from attnviz.analysis import groups as analysis
from attnviz.checkpoints import FOLDER
from attnviz.compute import models
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.models import Run
from attnviz.config import FAMILY, SHIPPED, ModelConfig, divisors
from attnviz.cost import attention_name, count_parameters
from attnviz.cost.cached import cached_in_layer
from attnviz.cost.variants import with_heads
from attnviz.experiments.conversion import copy_kv_heads, group_kv_heads, reorder_heads
from attnviz.experiments.equalities import Comparison, cached_bytes, equalities_in_both, tiling
from attnviz.figures.group_quality import AVERAGED, BEST, FIRST, TRAINED, Member
from attnviz.modules import Transformer
from attnviz.session.settings import Settings
from attnviz.trace import Trace, layer_weights, predict

MAX_COMPARED = 256  # tokens; the checkpoints were trained on texts of this length
MAX_CHECKED = 64  # tokens of the numerical checks
MAX_MAPPED = 128  # tokens of the maps before and after
MAX_CONVERTED = 12_000_000  # parameters of a model to convert: several copies are in memory at once
MAX_CONVERSION_BYTES = 20_000_000  # of cached comparisons with converted models


# ---- the family


def variants(settings: Settings) -> list[Settings]:
    """List the comparable models: the shipped checkpoints, or the user's with each number of KV heads, and as MLA.

    An opened model has no variants: no other model was trained like it.
    """
    if settings.opened:
        return [settings]
    if settings.model == "own":
        return list(settings.variants())
    family = [replace(settings, model=name) for name in FAMILY]
    return [variant for variant in family if not models.problem_of(variant)]


def beside_family(settings: Settings) -> bool:
    """Check whether this is a shipped checkpoint with another attention than those that are compared."""
    return settings.model in SHIPPED and settings.model not in FAMILY


def base_of(settings: Settings) -> Settings:
    """Return the multi-head model that the others are converted from: the MHA checkpoint, or the user's as MHA.

    The seed stays the same. For an opened model, return it unchanged, multi-head or not.
    """
    if settings.opened:
        return settings
    if settings.model != "own":
        return replace(settings, model="mha")
    return settings.multi_head()


def compared(settings: Settings) -> list[ModelConfig]:
    """Return the models with KV heads, starting with MHA, and MLA if it is selected.

    For an opened model, they are its own configuration with other numbers of KV heads, which can only be counted.
    """
    if settings.opened:
        own = models.config_of(settings)
        return [with_heads(own, n) for n in divisors(own.n_heads)]
    configs, selected = map(models.config_of, variants(settings)), models.config_of(settings)
    others = [] if selected.mixer.shares_kv_heads else [selected]
    return [c for c in configs if c.mixer.shares_kv_heads] + others


def cache_of_family(settings: Settings) -> dict[ModelConfig, int]:
    """Return the cache bytes per token of each variant, counted from tensors."""
    return {config: cached_bytes(config, 1) for config in map(models.config_of, variants(settings))}


def members_of(settings: Settings, ids: tuple[int, ...]) -> list[Member]:
    """Return each checkpoint's cache size, held-out quality, and losses on the first MAX_COMPARED tokens."""
    known = losses_of_sharing(settings, ids)[TRAINED]
    return [_member(variant, ids[:MAX_COMPARED], known) for variant in variants(settings)]


def _member(variant: Settings, ids: tuple[int, ...], known: dict[int, np.ndarray]) -> Member:
    """Return one checkpoint's entry. known: losses on these tokens by number of KV heads; not used for MLA."""
    config = models.config_of(variant)
    shares = config.mixer.shares_kv_heads
    losses = known[config.n_kv_heads] if shares else _losses_of(models.run_of(variant), ids)
    held_out = _scores().get(variant.model, {}).get("bits_per_character")
    return Member(attention_name(config), config.mixer.kind, cached_bytes(config, 1), held_out, losses)


def held_out_characters() -> int:
    """Return the number of characters of the held-out text that the checkpoints were scored on."""
    return _scores().get("mha", {}).get("characters", 0)


def _scores() -> dict[str, dict]:
    """Load the checkpoints' scores, measured when they were trained."""
    file = FOLDER / "scores.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def predicted_characters(settings: Settings, ids: tuple[int, ...]) -> float:
    """Count the characters of the predicted tokens: all but the first of the first MAX_COMPARED."""
    return sum(models.tokenizer_of(settings.model).characters(list(ids[:MAX_COMPARED]))[1:])


@lru_cache(256)
def _losses_of(run: Run, ids: tuple[int, ...]) -> np.ndarray:
    return _losses(run.model, ids)


def _losses(model: Transformer, ids: tuple[int, ...]) -> np.ndarray:
    """Return the loss in nats of each predicted token: (T - 1,)."""
    return analysis.next_token_losses(predict(model, ids), np.array(ids))


# ---- numerical checks, and the wrong order of KV heads


def equalities_of(settings: Settings, ids: tuple[int, ...], layer: int) -> list[tuple[Comparison, Comparison]]:
    """Run the numerical checks in float32 and in float64, on the first MAX_CHECKED tokens."""
    return _equalities(models.run_of(settings), ids[:MAX_CHECKED], layer)


@lru_cache(64)
def _equalities(run: Run, ids: tuple[int, ...], layer: int) -> list[tuple[Comparison, Comparison]]:
    return equalities_in_both(run.model, ids, layer)


def merged_kv_heads(settings: Settings) -> int:
    """Return how many KV heads MHA's are merged into beside this model: as many as it has.

    MLA merges none, so beside it the number is that whose cache is nearest in size.
    """
    config = models.config_of(settings)
    if config.mixer.shares_kv_heads:
        return config.n_kv_heads
    fewer = [k for k in divisors(config.n_heads) if k < config.n_heads] or [1]
    cached = cached_in_layer(config.mixer).value
    return min(fewer, key=lambda k: abs(cached_in_layer(merged_config(settings, k).mixer).value - cached))


def merged_config(settings: Settings, n_kv_heads: int) -> ModelConfig:
    """Return MHA with its heads merged into n_kv_heads."""
    return models.config_of(base_of(settings)).with_kv_heads(n_kv_heads)


def has_shipped_latent(settings: Settings) -> bool:
    """Check whether the MLA to compare with is the shipped checkpoint."""
    return settings.model != "own" and not models.problem_of(replace(settings, model="mla"))


def latent_equalities(settings: Settings, ids: tuple[int, ...], layer: int) -> tuple[ModelConfig, list]:
    """Return the MLA shown beside this model and its checks: the shipped one, or an untrained one of the same sizes."""
    beside = replace(settings, model="mla")
    if has_shipped_latent(settings):
        return models.config_of(beside), equalities_of(beside, ids, layer)
    config = models.config_of(settings.with_latent())
    return config, _random_equalities(config, settings.seed, ids[:MAX_CHECKED], layer)


@lru_cache(maxsize=64)
def _random_equalities(config: ModelConfig, seed: int, ids: tuple[int, ...], layer: int) -> list:
    return equalities_in_both(Transformer.random(config, seed), ids, layer)


@dataclass(frozen=True, eq=False)
class Tiling:
    """Effect of the wrong order of KV heads on one layer's output and on the losses (T - 1,) in nats.

    The losses are empty for a single token and for untrained weights, which predict nothing.
    """

    layer: Comparison
    losses: np.ndarray
    tiled_losses: np.ndarray

    @property
    def change(self) -> analysis.Difference:
        """How much the wrong order adds to the loss."""
        return analysis.paired_difference(self.tiled_losses, self.losses)


def tiling_of(settings: Settings, ids: tuple[int, ...], layer: int) -> Tiling:
    """Compare the model with its version with tiled KV heads, on the first MAX_COMPARED tokens."""
    return _tiling(models.run_of(settings), ids[:MAX_COMPARED], layer)


@lru_cache(64)
def _tiling(run: Run, ids: tuple[int, ...], layer: int) -> Tiling:
    model = run.model
    difference = tiling(model, ids, layer)
    if not run.trained:
        return Tiling(difference, np.empty(0), np.empty(0))
    return Tiling(difference, _losses(model, ids), _losses(copy_kv_heads(model, "tiled"), ids))


# ---- ways to have fewer KV heads


_conversions = ByteCache(MAX_CONVERSION_BYTES)


class ByName(dict):
    """A dict of numbers or arrays with the `nbytes` that a ByteCache needs."""

    @property
    def nbytes(self) -> int:
        return sum(np.asarray(value).nbytes for value in self.values())


def can_convert(settings: Settings) -> bool:
    """Check whether the multi-head model is small enough to be copied."""
    return count_parameters(models.config_of(base_of(settings))).total <= MAX_CONVERTED


def losses_of_sharing(settings: Settings, ids: tuple[int, ...]) -> dict[str, dict[int, np.ndarray]]:
    """Return losses (T - 1,) in nats on the first MAX_COMPARED tokens: conversion method -> {number of KV heads: …}."""
    base, ids = base_of(settings), ids[:MAX_COMPARED]
    key = "losses", models.run_of(base), ids
    by_way = models.computed_once(key, lambda: _losses_by_way(base, ids), _conversions)
    losses: dict[str, dict[int, np.ndarray]] = {}
    for way, n_kv_heads in sorted(by_way, key=itemgetter(1)):  # lines are drawn in this order
        losses.setdefault(way, {})[n_kv_heads] = by_way[way, n_kv_heads]
    return losses


def _losses_by_way(base: Settings, ids: tuple[int, ...]) -> ByName:
    mha, before = models.model_of(base), models.trace_of(base, ids)
    unchanged = analysis.next_token_losses(before.logits, before.tokens)
    losses = ByName(
        ((way, n_kv_heads), unchanged if model is mha else _losses(model, ids))
        for n_kv_heads in divisors(mha.config.n_heads)
        for way, model in _ways(base, mha, before, n_kv_heads)
    )
    losses[BEST, 1] = losses[AVERAGED, 1]  # all heads form one group only in one way
    return losses


def drifts_of(settings: Settings, ids: tuple[int, ...], n_kv_heads: int) -> dict[str, np.ndarray]:
    """Return the divergence from MHA's predictions, (T,) in nats, per conversion method that keeps the order of heads.

    On the first MAX_COMPARED tokens.
    """
    base, ids = base_of(settings), ids[:MAX_COMPARED]
    key = "drifts", models.run_of(base), ids, n_kv_heads
    return models.computed_once(key, lambda: _drifts(base, ids, n_kv_heads), _conversions)


def _drifts(base: Settings, ids: tuple[int, ...], n_kv_heads: int) -> ByName:
    mha, log_p = models.model_of(base), analysis.log_softmax(models.trace_of(base, ids).logits)  # (T, vocab_size)
    drifts = ByName()
    for way, model in _heads_in_order(base, mha, n_kv_heads):
        log_q = log_p if model is mha else analysis.log_softmax(predict(model, ids))
        drifts[way] = analysis.divergences_of(log_p, log_q)
    return drifts


def _ways(base: Settings, mha: Transformer, before: Trace, n_kv_heads: int) -> Iterator[tuple[str, Transformer]]:
    """Yield (method, converted model) one at a time, so that only one is in memory.

    `mha` itself where nothing is merged; no best grouping for a single group.
    """
    yield from _heads_in_order(base, mha, n_kv_heads)
    if n_kv_heads == mha.config.n_heads:
        yield BEST, mha
    if n_kv_heads in (1, mha.config.n_heads):
        return
    groups = [best_grouping(before, layer, n_kv_heads) for layer in range(mha.config.n_layers)]
    yield BEST, group_kv_heads(reorder_heads(mha, [sum(g, ()) for g in groups]), n_kv_heads)


def _heads_in_order(base: Settings, mha: Transformer, n_kv_heads: int) -> Iterator[tuple[str, Transformer]]:
    """Yield (method, model) where heads keep their order, so that maps can be compared head by head."""
    for variant in variants(base) if base.model != "own" else ():
        config = models.config_of(variant)
        if config.mixer.shares_kv_heads and config.n_kv_heads == n_kv_heads:
            yield TRAINED, models.model_of(variant)
    merged = n_kv_heads != mha.config.n_heads
    yield AVERAGED, group_kv_heads(mha, n_kv_heads) if merged else mha
    yield FIRST, group_kv_heads(mha, n_kv_heads, "first") if merged else mha


def best_grouping(before: Trace, layer: int, n_groups: int) -> analysis.Groups:
    """Find the grouping of a layer's heads with the smallest error in keys and values, each relative to its norm."""
    inner = np.sum([gram / max(float(np.trace(gram)), 1e-30) for gram in grams(before, layer).values()], axis=0)
    return analysis.best_grouping(inner, n_groups)


def grams(before: Trace, layer: int) -> dict[str, np.ndarray]:
    """Return the inner products (H, H) of one layer's keys, and of its values."""
    return {"keys": analysis.gram(before.layers[layer].k), "values": analysis.gram(before.layers[layer].v)}


@dataclass(frozen=True, eq=False)
class Grouping:
    """Similarity (H, H) of one layer's heads before they share KV heads, and two groupings of them."""

    cosines: np.ndarray
    neighbours: analysis.Groups  # as GQA groups them
    best: analysis.Groups  # the grouping that loses the smallest share
    lost: tuple[float, float]  # share of the squared length that each of the two loses
    total: float  # squared length of all heads


def grouping_of(settings: Settings, ids: tuple[int, ...], layer: int, part: str, n_groups: int) -> Grouping:
    """Compare a layer's keys or values in MHA, and group them. part: "keys" or "values"."""
    return _grouping(models.run_of(base_of(settings)), ids, layer, part, n_groups)


@lru_cache(64)
def _grouping(run: Run, ids: tuple[int, ...], layer: int, part: str, n_groups: int) -> Grouping:
    inner = grams(run.trace(ids), layer)[part]
    neighbours, best = analysis.neighbours(len(inner), n_groups), analysis.best_grouping(inner, n_groups)
    lost = analysis.lost_share(inner, neighbours), analysis.lost_share(inner, best)
    return Grouping(analysis.cosines(inner), neighbours, best, lost, float(inner.trace()))


@dataclass(frozen=True, eq=False)
class Maps:
    """One layer's weights per conversion method, for the maps before and after merging; the first row is MHA."""

    names: list[str]
    weights: np.ndarray  # (ways, H, T, T)
    allowed: np.ndarray  # (T, T)
    moved: np.ndarray  # (ways, H), total variation distance from MHA's rows, mean over the queries

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes + self.allowed.nbytes + self.moved.nbytes


def maps_of(settings: Settings, ids: tuple[int, ...], n_kv_heads: int, layer: int) -> Maps:
    """Return one layer's maps in MHA and in the converted and trained models, on the first MAX_MAPPED tokens."""
    base, ids = base_of(settings), ids[:MAX_MAPPED]
    key = "maps", models.run_of(base), ids, n_kv_heads, layer
    return models.computed_once(key, lambda: _maps(base, ids, n_kv_heads, layer), _conversions)


def _maps(base: Settings, ids: tuple[int, ...], n_kv_heads: int, layer: int) -> Maps:
    mha, before = models.model_of(base), models.trace_of(base, ids)
    rows = {"MHA": before.layers[layer].weights}
    for way, model in _heads_in_order(base, mha, n_kv_heads):
        rows[way] = layer_weights(model, ids, layer)
    weights = np.stack(list(rows.values()))  # (ways, H, T, T)
    moved = np.stack([analysis.moved_weight(weights[0], after) for after in weights])
    return Maps(list(rows), weights, before.masks[layer], moved)
