"""Drawings, counts and timings of live modules for the Cost page; one measurement runs at a time."""

from __future__ import annotations

import json
import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from attnviz.compute import counting
from attnviz.compute.models import MAX_WEIGHT_BYTES, weight_bytes
from attnviz.compute.view import View
from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import (
    Answer,
    Serving,
    attention_name,
    count_parameters,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
    of_accelerators,
    of_memory,
    of_models,
    what_if,
)
from attnviz.cost.by_transformers import counted_model, counted_text
from attnviz.cost.hf_config import Description, UnknownArchitecture
from attnviz.cost.placed import without_windows
from attnviz.cost.presets import model_from
from attnviz.cost.variants import kind_of
from attnviz.experiments import measurement as measure
from attnviz.experiments.measurement import Timing
from attnviz.figures import cost as figures
from attnviz.figures.drawing import Drawing
from attnviz.session.pages.cost import PASTED, SELECTED, SIZES
from attnviz.session.settings import Settings

MEASURED_CONTEXTS = (256, 1024, 2048, 4096, 8192)  # tokens in the cache when a step is timed
MAX_SECONDS = 30  # after which a measurement stops and keeps its results so far
MAX_PASTED = 100_000  # characters of a pasted configuration
SECONDS_TO_STOP = 5.0  # to wait for a cancelled measurement to finish its current step


@dataclass(frozen=True)
class Counted:
    """Parameters and cache bytes counted from live models, in the order of the models compared."""

    attention: tuple[int, ...]  # parameters of one layer's attention
    model: tuple[int, ...]  # parameters
    cache: tuple[int, ...]  # bf16 bytes


def counted(models: list[ModelConfig], s: Settings) -> Counted:
    """Count parameters and cache bytes of live models. ConfigError names what the live modules cannot run."""
    whole, layer = zip(*map(measure.counted_parameters, models), strict=True)
    return Counted(layer, whole, tuple(measure.counted_cache_bytes(m, s.context, s.batch) for m in models))


def differing(models: list[ModelConfig], live: Counted, s: Settings) -> tuple[list[str], list[str]]:
    """List the attention types whose formula and count of parameters differ, and those whose bytes of cache do.

    The live modules keep every token, also those outside a window, so the caches are compared with the formula for all.
    """
    parameters = zip(models, live.model, strict=True)
    caches = zip(models, live.cache, strict=True)
    return (
        [attention_name(m) for m, count in parameters if count != count_parameters(m).total],
        [attention_name(m) for m, count in caches if count != kv_cache_bytes(without_windows(m), s.context, s.batch)],
    )


def pasted_model(facts: str) -> tuple[ModelConfig, Description | None]:
    """Parse a pasted model configuration. Raises ConfigError.

    For a Hugging Face config.json, also return which fields were used, what was assumed and what cannot be counted.
    """
    if len(facts) > MAX_PASTED:
        raise ConfigError(f"A configuration must have at most {MAX_PASTED:,} characters, not {len(facts):,}")
    try:
        pasted = json.loads(facts)
    except (ValueError, RecursionError) as error:  # a number with too many digits is a plain ValueError
        raise ConfigError(f"Invalid JSON: {error}.") from None
    try:
        return model_from(pasted)
    except UnknownArchitecture as unknown:
        return _by_transformers(pasted, unknown)


def count_again(facts: str) -> None:
    """Let transformers count a pasted configuration anew, if it has tried and nothing came of it."""
    with suppress(ValueError, RecursionError):
        counting.forget(json.loads(facts[:MAX_PASTED]))


def _by_transformers(config: dict, unknown: UnknownArchitecture) -> tuple[ModelConfig, Description]:
    """Return the model that transformers counts where no reader knows it. ConfigError as above, or BeingCounted."""
    if why := counting.why_not():
        raise ConfigError(f"{unknown}. {why.removesuffix('.')}") from None
    try:
        found = counting.counted(config)
    except counting.BeingCounted:
        raise
    except ConfigError as problem:
        raise ConfigError(f"{unknown}. transformers has not counted it either: {problem}") from None
    model = counted_model(found)
    return model, Description(model, found["kind"], {}, {}, {}, counted=counted_text(found))


def asked_id(s: Settings) -> str:
    """Return whose cost is asked: a published model's id, PASTED or SELECTED. On its own tab it is the pasted one."""
    return PASTED if s.tab == "facts" and s.facts.strip() else s.preset


def asked_model(view: View) -> ModelConfig:
    """Return the model that the page answers for. ConfigError if the pasted one cannot be used."""
    s = view.settings
    id = asked_id(s)
    if id == SELECTED and view.settings.recorded:
        raise ConfigError(f"{view.refusal('cost')} Choose another “Model to serve”.")
    if id == SELECTED:
        return selected_model(view)
    if id != PASTED:
        return load_presets()[id]
    if not s.facts.strip():
        raise ConfigError("No configuration is pasted yet: paste one below, or choose another model.")
    model, description = pasted_model(s.facts)
    return model if model.name else replace(model, name=description.architecture if description else "Pasted model")


def selected_model(view: View) -> ModelConfig:
    """Return the model selected in the sidebar, with a name that distinguishes it from the published ones."""
    toy = f"AttnViz toy {attention_name(view.config)}"
    return replace(view.config, name=view.settings.model_name if view.settings.opened else toy)


def answer(view: View) -> Answer:
    """Answer the question on top of the page. ConfigError as above."""
    s = view.settings
    card = load_accelerators().get(s.machine) or of_memory(s.own_memory, s.own_bandwidth)
    serving = Serving(
        asked_model(view), card.times(s.n_machines), s.context, s.precision, s.weights, s.reserve / 100, s.parallel,
        s.full_windows, s.page_tokens,
    )  # fmt: skip
    return Answer(serving, s.batch)


def listed_models(asked: Answer, s: Settings) -> list[Answer]:
    """Return the answers for the published models of the chosen kinds and sizes, those that fit first."""
    low, high = SIZES.get(s.size, (0, math.inf))
    return of_models(
        (
            model
            for model in load_presets().values()
            if (not s.kinds or kind_of(model) in s.kinds) and low <= count_parameters(model).total < high
        ),
        asked,
    )


def listed_accelerators(asked: Answer) -> list[Answer]:
    """Return the answers on all accelerators, those that hold the model first."""
    return of_accelerators(load_accelerators().values(), asked)


@lru_cache(maxsize=16)
def own_drawings(
    models: tuple[ModelConfig, ...],
    selected: ModelConfig,
    live: Counted | None,
    context: int,
    batch: int,
    precision: str,
) -> tuple[Drawing, Drawing, Drawing, Drawing]:
    """Draw attention's parameters, the model's, the cache, and the cache in each precision.

    live: the counts of live models; None if they cannot run.
    """
    return (
        figures.attention_parameters(models, selected, live.attention if live else None),
        figures.model_parameters(models, selected, live.model if live else None),
        figures.cache(models, selected, live.cache if live else None, context, batch, precision),
        figures.precisions(selected, context, batch, precision),
    )


@lru_cache(maxsize=16)
def published(chosen: tuple[str, ...], by: str) -> Drawing:
    """Draw all published models by their parameters or their year, the chosen ones with their names."""
    presets = load_presets()
    return figures.published(list(presets.values()), [presets[id] for id in chosen], by)


@lru_cache(maxsize=16)
def totals(chosen: tuple[str, ...], n_tokens: int) -> Drawing:
    """Draw the cache of the chosen published models over the context."""
    return figures.totals([load_presets()[id] for id in chosen], n_tokens)


@lru_cache(maxsize=16)
def alternatives(model: ModelConfig, n_tokens: int) -> Drawing:
    """Draw the cache of a model with each type of attention."""
    return figures.alternatives(model, n_tokens)


_MEASURING = threading.Semaphore(1)  # concurrent measurements would slow each other down


class Measurement:
    """Background thread that times decode steps of a model as MHA, GQA, MQA and MLA; `results` grows as it runs.

    problem: why nothing is measured, as a sentence. share: of the measurement that is done, 0 to 1.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config, self.results, self.share = config, list[Timing](), 0.0
        self.problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="measurement", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the step that is being timed; results so far are kept."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """True while the measurement is running."""
        return self._thread.is_alive()

    def _run(self) -> None:
        if not _MEASURING.acquire(timeout=SECONDS_TO_STOP):
            self.problem = "Another measurement is running on this server; try again in half a minute."
            return
        try:
            models = what_if(replace(self.config, sliding_window=None))
            if max(map(weight_bytes, models)) > MAX_WEIGHT_BYTES:
                self.problem = f"Models with more than {MAX_WEIGHT_BYTES / 1e6:.0f} MB of weights are not measured."
                return
            end = time.monotonic() + MAX_SECONDS
            for i, timing in enumerate(measure.timings(models, MEASURED_CONTEXTS)):
                self.results.append(timing)
                self.share = (i + 1) / (len(models) * len(MEASURED_CONTEXTS))
                if time.monotonic() > end or self._stop.is_set():
                    return
        finally:
            _MEASURING.release()
