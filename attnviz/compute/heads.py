"""Computations of the Heads page besides the trace, cached and shared between sessions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from attnviz.analysis import roles as analysis
from attnviz.analysis import values
from attnviz.analysis.groups import next_token_losses
from attnviz.analysis.heads import HeadStatistics, first_token_weight, statistics
from attnviz.analysis.layers import Each, by_head
from attnviz.analysis.rollout import reachable, rollout
from attnviz.analysis.search import Found
from attnviz.analysis.standing_out import strongest_of_layer
from attnviz.analysis.values import Writes
from attnviz.analysis.words import Words, words_of
from attnviz.checkpoints import OpenError
from attnviz.compute import models, queue
from attnviz.compute.byte_cache import ArrayList, ByteCache
from attnviz.compute.models import Run
from attnviz.compute.view import View
from attnviz.figures import role_captions
from attnviz.figures.recorded_captions import HUE_PER_HEAD, ON_THIS_TEXT, text_role
from attnviz.figures.role_captions import Probes
from attnviz.layerwise import LayerwiseTrace
from attnviz.modules import Transformer
from attnviz.modules.recording import shares_of
from attnviz.phrases import count
from attnviz.session.settings import Settings
from attnviz.trace import LayerTrace, allowed_of, cross_weights, final_stream, weights_of

PERIOD, N_PROBES = 32, 3
MAX_COMPARED = 128  # tokens, for runs shown side by side
MAX_WRITTEN_BYTES = 10_000_000  # two heads at 512 tokens of a checkpoint
MAX_MAP_BYTES = 15_000_000  # rollout and mean maps at 512 tokens of a checkpoint

_written, _maps = ByteCache(MAX_WRITTEN_BYTES), ByteCache(MAX_MAP_BYTES)


def roles_of(settings: Settings) -> list[list[analysis.Role]]:
    """Return the role of each head, [layer][head], scored on the probes.

    Heads of an untrained model have none, nor have those of a saved run, whose model cannot read the probes.
    """
    n_heads = [layer.mixer.n_heads for layer in models.config_of(settings).layers]
    if settings.model == "own" or settings.recorded:
        return [[analysis.Role(analysis.NO_ROLE)] * n for n in n_heads]
    scores = scores_of(settings)
    return [[analysis.role_of(scores.of(i, h)) for h in range(n)] for i, n in enumerate(n_heads)]


def probes_of(settings: Settings) -> Probes:
    """Return the parameters of the probes: the page's mask and position settings, without padding."""
    return Probes(N_PROBES, PERIOD, models.config_of(settings), settings.model != "own")


def scores_of(settings: Settings) -> analysis.Scores:
    """Score each role for each head on repeated random tokens, independent of the page's text."""
    if settings.window >= 2 * PERIOD:
        settings = replace(settings, window=0)  # a window as wide as the probes masks nothing
    return _scores(models.run_of(settings))


@lru_cache(512)
def _scores(run: Run) -> analysis.Scores:
    model, probes = run.model, analysis.probes(run.config.vocab_size, PERIOD, N_PROBES)
    layers = zip(weights_of(model, probes), run.config.layers, strict=True)
    shares = [shares_of(weights, layer.mixer) for weights, layer in layers]
    return analysis.score_probes(shares, allowed_of(model, 2 * PERIOD), probes)


def most_similar(settings: Settings, layer: int, head: int, other: Settings) -> list[tuple[int, int, float]]:
    """Rank the heads (layer, head, difference) of another model by similarity to this head, most similar first.

    The difference is the mean of |a - b| over the shares of weight that the roles are scored by, and the entropy; the
    probes are random tokens of each model's own vocabulary. Heads that share no score with this one are left out.
    """
    apart = np.abs(_profiles(other) - _profiles(settings)[layer, head])  # (L, H, R), NaN where a score is missing
    comparable = np.argwhere(~np.isnan(apart).all(-1)).tolist()
    return sorted(((i, h, float(np.nanmean(apart[i, h]))) for i, h in comparable), key=lambda found: found[2])


def _profiles(settings: Settings) -> np.ndarray:
    """Return each head's share of weight for each role, and its entropy, on the probes: (L, H, R)."""
    scores = scores_of(settings)
    return np.stack([*(scores.weight[role] for role in analysis.NAMED), scores.entropy], axis=-1)


@dataclass(eq=False)
class OnText:
    """Scores, labels and measures of the heads on the text, appended layer by layer."""

    scores: list[tuple[analysis.Scores, list[analysis.Column | None]]] = field(default_factory=list)  # of one layer
    labels: list[list[str]] = field(default_factory=list)  # [layer][head]: the keys with most of its weight
    measures: list[np.ndarray] = field(default_factory=list)  # per layer, (MEASURES, H)
    strongest: list[Found | None] = field(default_factory=list)  # per layer, the cell that stands out most
    lock: Lock = field(default_factory=Lock, repr=False)

    def by_name(self) -> dict[str, np.ndarray]:
        """Return each of MEASURES, by which the grid sorts heads: {name: (layers, H)}."""
        numbers = zip(*self.measures, strict=True)  # of each measure, (H,) per layer
        return {name: by_head(layers) for name, layers in zip(MEASURES, numbers, strict=False)}


MEASURES = "entropy", "distance", "weight on the first token"
GridRole = tuple[str, float | None, str]  # name, score, label
LayerCallback = Callable[[int, LayerTrace], object]


def on_text(view: View, on_layer: LayerCallback | None = None, *, stopped: bool = False) -> OnText:
    """Return labels and measures of the heads on the text, in one pass over the layers.

    on_layer: callback with each layer that is not cached and its number; with it, the pass stops early when the session
    requests a rerun, and the next call resumes from there. stopped: return what is cached and compute nothing.
    """
    scored, trace = _on_text(view.run, view.ids, view.n_padding), view.trace
    if stopped:
        return scored
    words = words_in(view.run, view.ids)
    with scored.lock, suppress(queue.Interrupted):
        for layer in range(len(scored.labels), view.config.n_layers):
            if on_layer and queue.rerun_requested():
                raise queue.Interrupted
            one = trace.layers[layer]
            shares = one.shares
            scores = analysis.score([shares], [one.allowed], None if view.two_texts else trace.tokens)
            columns = analysis.largest_columns(shares, one.allowed)
            first = first_token_weight([shares], [one.allowed])
            scored.scores.append((scores, columns))
            searched = one.mixer.attends and not view.two_texts
            strongest = strongest_of_layer(layer, shares, one.allowed, words) if searched else None
            scored.strongest.append(strongest)
            scored.measures.append(np.concatenate((scores.entropy, scores.distance, first)))
            scored.labels.append([role_captions.text_label(scores.of(0, h), c) for h, c in enumerate(columns)])
            if on_layer:
                on_layer(layer, one)
    return scored


def grid_roles(view: View, found: OnText) -> list[list[GridRole]]:
    """Return what the grid sorts and filters heads by: their roles on the probes; of a saved run, on its text."""
    if view.settings.recorded:
        return [[text_role(s.of(0, h), column) for h, column in enumerate(columns)] for s, columns in found.scores]
    return [[(r.name, r.score, role_captions.role_label(r)) for r in layer] for layer in roles_of(view.settings)]


def grid_note(view: View) -> str:
    """Explain how the roles in the grid were scored."""
    if view.settings.recorded:
        return (
            ON_THIS_TEXT if view.mixer.keys_known else f"{HUE_PER_HEAD} {view.mixer.cannot('sharing')} {ON_THIS_TEXT}"
        )
    return role_captions.grid_note(probes_of(view.settings))


def is_layerwise(view: View) -> bool:
    """Check, without loading the model, whether it is so large that its layers are computed one by one."""
    if view.config_problem:
        return False
    try:
        return models.is_layerwise(view.config, len(view.ids))
    except OpenError:  # no tokenizer
        return False


def draws_layerwise(view: View) -> bool:
    """Check whether the grid is drawn layer by layer: a large model or run with layers that are not scored yet."""
    whole = len(view.rows) == len(view.ids)
    layerwise = isinstance(view.trace, LayerwiseTrace) or (view.settings.recorded and whole and is_layerwise(view))
    return layerwise and len(_on_text(view.run, view.ids, view.n_padding).labels) < view.config.n_layers


@lru_cache(64)
def words_in(run: Run, ids: tuple[int, ...]) -> Words:
    """Return the words of these tokens."""
    return words_of(run.tokenizer.spans(ids))


@lru_cache(64)
def _on_text(run: Run, ids: tuple[int, ...], n_padding: int) -> OnText:
    return OnText()


def text_scores_of(view: View, layer: int, head: int) -> tuple[analysis.HeadScores, analysis.Column | None]:
    """Return one head's scores on the text, and the key with most of its weight."""
    scored = on_text(view, stopped=True).scores
    if layer < len(scored):
        scores, columns = scored[layer]
        return scores.of(0, head), columns[head]
    one = view.trace.layers[layer]
    shares = one.shares[head][None]  # (1, T, T)
    scores = analysis.score([shares], [one.allowed], None if view.two_texts else view.trace.tokens)
    return scores.of(0, 0), analysis.largest_columns(shares, one.allowed)[0]


@dataclass(frozen=True)
class Mask:
    """One mask, in the fields of the settings."""

    name: str
    causal: bool = True
    window: int = 0
    n_sinks: int = 0
    padding: int = 0

    def selected(self, settings: Settings) -> bool:
        """Check whether the page's settings have this mask."""
        return all(getattr(settings, name) == value for name, value in self.fields().items())

    def fields(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "name"}


def masks_of(settings: Settings) -> list[Mask]:
    """List the masks to compare, with their sizes from the settings."""
    window, n_sinks, padding = settings.mask_window, settings.mask_sinks, settings.mask_padding
    trained = models.trained_config(settings)
    return [
        Mask("As trained" if trained and trained.windows else "Causal"),
        Mask(f"Window of {window}", window=window),
        Mask(f"Window of {window}, {count(n_sinks, 'sink')}", window=window, n_sinks=n_sinks),
        Mask(f"Padding of {padding}", padding=padding),
        Mask("Bidirectional", causal=False),
    ]


@dataclass(frozen=True, eq=False)
class Masked:
    """One layer under each mask: weights (masks, H, T, T), allowed (masks, T, T).

    losses: nats per token over the T - 1 predictions in these tokens, for the first three masks: only these predict
    every token without seeing it.
    """

    weights: np.ndarray
    allowed: np.ndarray
    losses: list[float]


def masked_of(settings: Settings, ids: tuple[int, ...], layer: int) -> Masked:
    """Run the same layer under each mask, on the first MAX_COMPARED tokens."""
    ids = ids[:MAX_COMPARED]
    traces = [models.trace_of(replace(settings, **m.fields()), ids, m.padding) for m in masks_of(settings)]
    return Masked(
        np.stack([t.layers[layer].weights for t in traces]),
        np.stack([t.masks[layer] for t in traces]),
        [float(next_token_losses(t.logits, t.tokens).mean()) for t in traces[:3]] if len(ids) > 1 else [],
    )


def writes_of(view: View) -> Writes:
    """Return what the selected head writes to the residual stream at each token."""
    s, (layer, head) = view.settings, view.layer_and_head
    key = *_run(view), layer, head
    return models.computed_once(key, lambda: _writes(s, view.ids, view.n_padding, layer, head), _written)


def _run(view: View) -> tuple[Hashable, ...]:
    """Return the cache key of the model's run on the text."""
    return view.run, view.ids, view.n_padding


def _writes(settings: Settings, ids: tuple[int, ...], n_padding: int, layer: int, head: int) -> Writes:
    one, model = models.trace_of(settings, ids, n_padding).layers[layer], models.model_of(settings)
    return values.writes(one.weights[head], one.values_of(head), w_o(model, layer, head))


def logit_effects_of(view: View) -> np.ndarray:
    """Return the selected head's direct effect on each logit at the selected query: (V,)."""
    query = view.query
    return values.logit_effects(writes_of(view).outputs[query], _final_stream(view)[query], *readout(view.model))


def _final_stream(view: View) -> np.ndarray:
    """Return the residual stream after the last block, (T, C), which is the same for all heads."""
    if isinstance(view.trace, LayerwiseTrace):
        return view.trace.final_stream
    return models.computed_once(_run(view), lambda: final_stream(view.model, view.ids, view.n_padding), _written)


def rollout_of(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Return the rollout (L, T, T), and bool (L, T, T): True if token j can reach position i by layer l."""
    weights = Each(view.trace.layers, "weights")
    shares = models.computed_once((*_run(view), "rollout"), lambda: rollout(weights), _maps)
    return shares, models.computed_once((*_run(view), "reach"), lambda: reachable(view.trace.masks), _maps)


def average_of(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Return the maps (N, T, T) to average and the cells (T, T) allowed in any of them.

    The maps are those of the selected layer's heads, or the mean of each layer's.
    """
    layer, _ = view.layer_and_head
    if view.settings.average == "layer":
        return view.trace.layers[layer].shares, view.trace.masks[layer]
    means = models.computed_once(
        (*_run(view), "means"), lambda: np.stack([one.shares.mean(0) for one in view.trace.layers]), _maps
    )
    return means, np.any(view.trace.masks, axis=0)


def statistics_of(view: View) -> HeadStatistics | None:
    """Return the statistics of all heads on the text; None if no query may attend to more than one key."""
    if not any((mask.sum(-1) > 1).any() for mask in view.trace.masks):
        return None
    return _statistics(view.run, view.ids, view.n_padding, view.two_texts)


@lru_cache(64)
def _statistics(run: Run, ids: tuple[int, ...], n_padding: int, two_texts: bool) -> HeadStatistics:
    trace = run.trace(ids, n_padding)
    return statistics(Each(trace.layers, "shares"), trace.masks, two_texts=two_texts)


def readout(model: Transformer) -> tuple[np.ndarray, float, np.ndarray, bool]:
    """Return what turns the stream into logits: gain (C,) and eps of the last norm, the unembedding (V, C), and whether
    the norm subtracts the mean."""
    unembedding = (model.embed if model.lm_head is None else model.lm_head).weight.detach().numpy()
    return model.norm.weight.detach().numpy(), model.norm.eps, unembedding, model.config.norm == "layernorm"


def w_o(model: Transformer, layer: int, head: int) -> np.ndarray:
    """Return the columns of the output projection that read this head: (C, D)."""
    weight = model.blocks[layer].attn.o_proj.weight.detach().numpy()  # (C, H·D)
    D = weight.shape[1] // model.config.layers[layer].mixer.n_heads
    return weight[:, head * D : (head + 1) * D]


@dataclass(frozen=True)
class MapPair:
    """Two attention maps of equal size: weights (T, T) and allowed (T, T) of each, with token labels."""

    weights: tuple[np.ndarray, np.ndarray]
    allowed: tuple[np.ndarray, np.ndarray]
    labels: tuple[list[str], list[str]]


def two_texts_of(view: View) -> MapPair | None:
    """Run the selected head on the text and on the second text, both cut to the length of the shorter."""
    other = view.but(text=view.settings.second_text)
    n = min(len(view.ids), len(other.ids))
    if not n:
        return None
    layer, head = view.layer_and_head
    ids = view.ids[:n], other.ids[:n]
    one, two = (models.trace_of(view.settings, each, min(view.n_padding, n - 1)).layers[layer] for each in ids)
    labels = view.labels[:n], other.labels[:n]
    return MapPair((one.shares[head], two.shares[head]), (one.allowed, two.allowed), labels)


def second_text_of(view: View) -> tuple[tuple[int, ...], list[str]]:
    """Return ids and labels of the second text's first MAX_COMPARED tokens."""
    other = view.but(text=view.settings.second_text)
    n = other.first(MAX_COMPARED)
    return other.ids[:n], other.labels[:n]


def crossed_of(settings: Settings, ids: tuple[int, ...], context: tuple[int, ...]) -> ArrayList:
    """Compute each layer's cross-attention weights (H, T, S) of the text's queries on another text's keys."""
    run = models.run_of(settings)
    key = "crossed", run, ids, context
    return models.computed_once(key, lambda: ArrayList(cross_weights(run.model, ids, context)))
