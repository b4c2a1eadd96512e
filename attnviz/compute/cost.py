"""What the Cost page counts and times with the live modules: cached, bounded, one measurement at a time."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, replace

from attnviz.compute.models import MAX_WEIGHT_BYTES, weight_bytes
from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import (
    Serving,
    attention_name,
    comparison,
    count_parameters,
    kv_cache_bytes,
    load_accelerators,
    load_presets,
    what_if,
)
from attnviz.cost.hf_config import Description, is_hf_config, read_hf_config
from attnviz.experiments import measurement as measure
from attnviz.experiments.measurement import Timing
from attnviz.facts import published_facts
from attnviz.session.settings import Settings

CONTEXTS = (256, 1024, 2048, 4096, 8192)  # tokens in the cache when a step is timed
MOST_SECONDS = 30  # after which a measurement ends with what it has
SECONDS_TO_STOP = 5.0  # that one which was stopped may take until it notices


@dataclass(frozen=True)
class Counted:
    """What live models were counted to hold, in the order of the models compared."""

    attention: tuple[int, ...]  # parameters of one layer's attention
    model: tuple[int, ...]  # parameters
    cache: tuple[int, ...]  # bf16 bytes


def counted(models: list[ModelConfig], s: Settings) -> Counted | None:
    """Count the live models; None for what the live modules do not run and only the formulas know."""
    try:
        whole, layer = zip(*map(measure.counted_parameters, models), strict=True)
        return Counted(layer, whole, tuple(measure.counted_cache_bytes(m, s.context, s.batch) for m in models))
    except ConfigError:
        return None


def differing(models: list[ModelConfig], live: Counted, s: Settings) -> list[str]:
    """List the attentions whose formulas and counts are not the same."""
    formulas = [(count_parameters(m).total, kv_cache_bytes(m, s.context, s.batch)) for m in models]
    pairs = zip(models, formulas, live.model, live.cache, strict=True)
    return [attention_name(m) for m, formula, *count in pairs if formula != tuple(count)]


def pasted_model(facts: str) -> tuple[ModelConfig, Description | None]:
    """Read the model of a pasted configuration; a ConfigError says what is wrong with it.

    With a Hugging Face config.json comes what of it was used, what was assumed, and what cannot be counted.
    """
    try:
        pasted = json.loads(facts)
    except (ValueError, RecursionError) as error:  # a number of too many digits is a ValueError
        raise ConfigError(f"Invalid JSON: {error}.") from None
    if not is_hf_config(pasted):
        return ModelConfig.from_dict(pasted), None
    found = read_hf_config(pasted)
    return found.model, found


def facts_of(preset: str) -> str:
    """Return a published model's configuration without sources and notes, to be edited."""
    facts = {name: value for name, value in published_facts()[preset].items() if name not in ("source", "notes", "id")}
    return json.dumps(facts, indent=1)


def compared(config: ModelConfig) -> list[ModelConfig]:
    """List the model with each attention it could have, as it runs."""
    return comparison(config)


def serving(s: Settings) -> Serving:
    """Put the chosen published model on the chosen accelerator, or on several of it taken together."""
    machine = load_accelerators()[s.machine].times(s.n_machines)
    return Serving(load_presets()[s.preset], machine, s.context, s.precision, s.weights, s.reserve / 100)


_MEASURING = threading.Semaphore(1)  # two at once would measure each other


class Measurement:
    """Decode steps of a model as MHA, GQA, MQA and MLA, timed in a thread of its own: results as they come.

    problem: why nothing is measured, as a sentence. share: of the work that is done.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config, self.results, self.share = config, list[Timing](), 0.0
        self.problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="measurement", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the step that is being timed; what has been measured stays."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Whether more results are to come."""
        return self._thread.is_alive()

    def _run(self) -> None:
        if not _MEASURING.acquire(timeout=SECONDS_TO_STOP):
            self.problem = "Somebody else is measuring on this server just now; try again in half a minute."
            return
        try:
            models = what_if(replace(self.config, sliding_window=None))
            if max(map(weight_bytes, models)) > MAX_WEIGHT_BYTES:
                self.problem = f"A model of more than {MAX_WEIGHT_BYTES / 1e6:.0f} MB of weights is not measured."
                return
            end = time.monotonic() + MOST_SECONDS
            for i, timing in enumerate(measure.timings(models, CONTEXTS)):
                self.results.append(timing)
                self.share = (i + 1) / (len(models) * len(CONTEXTS))
                if time.monotonic() > end or self._stop.is_set():
                    return
        finally:
            _MEASURING.release()
