"""Models and traces for the current settings, in caches of limited size that all sessions share; never modified."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from cachetools import LRUCache, TTLCache, cached
from cachetools.keys import hashkey

from attnviz.characters import Span, graphemes, whole
from attnviz.checkpoints import CheckpointError, OpenError, hub, load_checkpoint, refusals, shipped_config
from attnviz.checkpoints.opened import open_config, open_folder, open_tokenizer
from attnviz.compute import recorded
from attnviz.compute.byte_cache import ByteCache, Sized
from attnviz.compute.recorded import RecordedRun
from attnviz.config import ConfigError, ModelConfig
from attnviz.cost import attention_name, count_parameters
from attnviz.cost.variants import with_latent
from attnviz.layerwise import LayerwiseTrace, layer_bytes
from attnviz.mechanisms import Recorded
from attnviz.modules import Transformer
from attnviz.session import openable
from attnviz.session.kinds import MAX_CHARACTERS
from attnviz.session.openable import MAX_HEADS, MAX_LAYERS, MODELS
from attnviz.session.settings import Settings
from attnviz.session.shared import widths
from attnviz.text import Tokenizer, tokenizer
from attnviz.trace import Trace, predict, trace, trace_bytes, use_one_thread

T = TypeVar("T", bound=Sized)
MAX_TOKENS = 512
MAX_TRACE_BYTES = 50_000_000
MAX_RESULT_BYTES = 30_000_000  # of all cached traces and other results, if more than one
MAX_SHIPPED_BYTES = 90_000_000  # of the checkpoints' weights: the nine take 75
MAX_OWN_BYTES = 30_000_000  # of untrained models: one with the default settings takes 9
MAX_WEIGHT_BYTES = 70_000_000  # of one untrained model: 8 layers with d_model 384 take 60, 32 with d_model 192 take 58

FEWEST_POSITIONS = 64
LONG_TEXT = Path(__file__).with_name("long_text.txt").read_text(encoding="utf-8")  # a story in plain English, our own
MAX_OPENED_BYTES = 2_500_000_000  # of opened models, if more than one: the largest suggested one takes 2.2 GB


class _OpenedCache(ByteCache):
    """Cache of opened models by (name, files, …), in which there can be room before a model is read."""

    def make_room(self, model: str, nbytes: int) -> None:
        """Discard other versions of a model, and as many other models as leave room for its bytes."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == model]:
                del self._entries[key]
            while self._entries and self._entries.currsize + nbytes > self._entries.maxsize:
                self._entries.popitem()


_shipped, _own, _results = (ByteCache(most) for most in (MAX_SHIPPED_BYTES, MAX_OWN_BYTES, MAX_RESULT_BYTES))
_opened = _OpenedCache(MAX_OPENED_BYTES)
_refused: TTLCache = TTLCache(16, ttl=10)  # seconds: a page asks for each part, and the files may be repaired

use_one_thread()


def files_of(model: str) -> Hashable:
    """Return what identifies an opened model's files as they are now; None for other models and one that is not there.

    A part of each cache key: files that were replaced or written to are read again.
    """
    if model in MODELS:
        return None
    if openable.is_run(model):
        return recorded.files_of(model)
    try:
        folder = folder_of(model)
        used = [file for file in os.scandir(folder) if file.name in hub.USED or ".safetensors" in file.name]
        stats = {file.name: file.stat() for file in used}
    except (OpenError, OSError):
        return None
    return folder, *sorted((name, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in stats.items())


def _cached_by_files(maxsize: int, model_of: Callable[..., str] = lambda model: model) -> Callable:
    """Decorate a function with an LRU cache by its arguments and the files of the model that `model_of` them names."""
    return cached(LRUCache(maxsize), key=lambda *args: hashkey(*args, files_of(model_of(*args))), lock=Lock())


class Read(NamedTuple):
    """A tokenized text: how long it is, and its first MAX_TOKENS tokens, cut at whole characters."""

    n_tokens: int
    ids: tuple[int, ...]
    labels: tuple[str, ...]  # printable, one per token
    spans: tuple[Span, ...]  # which of the tokens together are one character as it is read
    n_characters: int


@_cached_by_files(64, lambda text, model="own": model)
def read(text: str, model: str = "own") -> Read:
    """Tokenize a text with the tokenizer of this model."""
    reader = tokenizer_of(model)
    ids = reader.encode(text)
    spans = reader.spans(ids)
    shown, first = whole(spans, MAX_TOKENS), [span for span in spans if span.stop <= MAX_TOKENS]
    return Read(len(ids), tuple(ids[:shown]), tuple(reader.labels(ids[:shown])), tuple(first), len(graphemes(text)))


def read_of(settings: Settings) -> Read:
    """Tokenize the text of these settings; of a saved run, return its own tokens."""
    if not settings.recorded:
        return read(settings.text[:MAX_CHARACTERS], settings.tokenizer)
    run = recorded.run_of(settings.model, settings.run_kind)
    ids, tokens = run.recorded.tokens.tolist(), run.tokenizer
    return Read(len(ids), tuple(ids), tuple(tokens.labels(ids)), tuple(tokens.spans(ids)), len(ids))


def long_text(settings: Settings) -> tuple[int, ...]:
    """Return the first MAX_TOKENS ids of LONG_TEXT, by the tokenizer of these settings."""
    return read(LONG_TEXT, settings.tokenizer).ids


def tokenizer_of(model: str) -> Tokenizer:
    """Return the tokenizer of a model, by its name in the settings. OpenError if an opened model's cannot be read."""
    return tokenizer() if model in MODELS else _opened_tokenizer(model)


@_cached_by_files(4)
def _opened_tokenizer(model: str) -> Tokenizer:
    return open_tokenizer(folder_of(model))


def folder_of(model: str) -> Path:
    """Return the folder of an opened model on this machine. OpenError if there is none."""
    path = Path(model)
    if not path.is_absolute():
        return _folder_in_cache(model)
    if not path.is_dir():
        raise OpenError(why_no_model(path))
    return path


def why_no_model(path: Path) -> str:
    """Return why a path is no folder with a model. What else is on the disk is told on the user's own machine only."""
    return (openable.may_choose() and refusals.of_path(path)) or f"There is no folder {path} with a config.json."


@cached(TTLCache(16, ttl=1), lock=Lock())  # seconds: needed for each cache key, and a large model's index is long
def _folder_in_cache(model: str) -> Path:
    folder = hub.cached(model)
    if folder is None:
        raise OpenError(refusals.not_here(model, openable.may_choose()))
    return folder


@_cached_by_files(16)
def opened_config(model: str) -> ModelConfig:
    """Return an opened model's own configuration. OpenError if it cannot be run or drawn."""
    config = open_config(folder_of(model))
    if config.n_layers > MAX_LAYERS or config.n_heads > MAX_HEADS:
        raise OpenError(
            f"The model {model} has {config.n_layers} layers of {config.n_heads} heads; at most {MAX_LAYERS} layers "
            f"of {MAX_HEADS} heads can be drawn."
        )
    if config.learned_position_rows is not None and config.learned_position_rows < FEWEST_POSITIONS:
        raise OpenError(
            f"The model {model} has {config.learned_position_rows} learned positions; at least {FEWEST_POSITIONS} are "
            "needed to score the heads' roles."
        )
    return replace(config, name=model)


@dataclass(frozen=True)
class Loaded:
    """A model, the bytes of its weights, and a cached function that runs the same weights with another config."""

    model: Transformer
    nbytes: int
    run_as: Callable[[ModelConfig], Transformer]


def _loaded(model: Transformer, name: str) -> Loaded:
    """Run the model once; OpenError if its logits are not finite."""
    logits = predict(model, [0])  # also reads the weights from disk, which the time of a trace must not contain
    if not np.isfinite(logits).all():
        raise OpenError(
            f"The model {name} computes numbers that are not finite (NaN or infinity): its weights are too large."
        )
    nbytes = sum(p.numel() * p.element_size() for p in model.parameters())
    return Loaded(model, nbytes, lru_cache(maxsize=16)(model.with_config))


def _load_opened(model: str, files: Hashable) -> Loaded:
    """Load a model, one caller at a time. One that was refused is refused for some seconds without reading it."""
    if problem := _refused.get((model, files)):
        raise OpenError(problem)
    try:
        _opened.make_room(model, sum(path.stat().st_size for path in folder_of(model).glob("*.safetensors")))
        opened, reader = open_folder(folder_of(model))
        _check_vocabulary(model, reader, opened.config.vocab_size)
        loaded = _loaded(opened, model)
        if files_of(model) != files:
            raise OpenError(f"The files of the model {model} changed while they were read; open it again.")
        return loaded
    except OpenError as error:
        _refused[model, files] = str(error)
        raise


def _check_vocabulary(model: str, reader: Tokenizer, n_embeddings: int) -> None:
    """Raise OpenError if the tokenizer is another model's: plain English has tokens beyond the embeddings."""
    ids = reader.encode(LONG_TEXT)
    if problem := beyond_embeddings(ids, reader.labels(ids), n_embeddings):
        raise OpenError(
            f"The tokenizer.json of {model} is not that of its weights: {problem}. Copy the right one there."
        )


def beyond_embeddings(ids: Sequence[int], labels: Sequence[str], n_embeddings: int) -> str:
    """Return a clause that names the first token without an embedding; "" if there is none."""
    at = next((at for at, token in enumerate(ids) if token >= n_embeddings), None)
    if at is None:
        return ""
    return f"the token “{labels[at]}” (id {ids[at]:,}) is beyond the model's {n_embeddings:,} embeddings"


@lru_cache(maxsize=16)
def _shipped_config(model: str) -> ModelConfig:
    return shipped_config(model)


def computed_once(key: Hashable, compute: Callable[[], T], cache: ByteCache | None = None) -> T:
    """Return a value from the cache that all sessions share, or compute and cache it.

    cache: by default that of traces; a separate one for slow computations, which traces should not wait for.
    """
    return (cache or _results).get(key, compute)


@_cached_by_files(128, lambda settings: settings.model)  # called ten times or more per run
def config_of(settings: Settings) -> ModelConfig:
    """Return the configuration that runs: the model's own, with RoPE and masks from the settings."""
    if settings.recorded:
        return recorded.run_of(settings.model, settings.run_kind).config
    own = trained_config(settings)
    return settings.own_config() if own is None else settings.run_of(own)


def trained_config(settings: Settings) -> ModelConfig | None:
    """Return the configuration the checkpoint was trained with; None for an untrained model and for a saved run."""
    if settings.recorded:
        return None
    if settings.opened:
        return opened_config(settings.model)
    return None if settings.model == "own" else _shipped_config(settings.model)


def weights_key(settings: Settings) -> tuple[str, Hashable, int]:
    """Return the cache key of the weights: a name and an opened model's files, or a configuration and seed."""
    if settings.model != "own":
        return settings.model, files_of(settings.model), 0
    return "own", settings.own_weights(), settings.seed


@dataclass(frozen=True)
class Run:
    """A model as it runs: all that its numbers depend on besides the tokens, so the key of caches."""

    weights: tuple[str, Hashable, int]
    config: ModelConfig
    problem: str = field(default="", compare=False)  # why it cannot be built

    @property
    def model(self) -> Transformer:
        """The live model; its weights are shared by all sessions. ConfigError if it is too large."""
        name, version, seed = self.weights
        if self.problem:
            raise ConfigError(self.problem)
        if isinstance(version, ModelConfig):
            loaded = _own.get(self.weights, lambda: _loaded(Transformer.random(version, seed), name))
        elif name in MODELS:
            loaded = _shipped.get(self.weights, lambda: _loaded(load_checkpoint(name)[0], name))
        else:
            loaded = _opened.get(self.weights, lambda: _load_opened(name, version))
        return loaded.run_as(self.config)

    def ready(self) -> None:
        """Load the model. ConfigError if it cannot run."""
        self.model  # noqa: B018

    @property
    def trained(self) -> bool:
        """True unless the weights are random."""
        return not isinstance(self.weights[1], ModelConfig)

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""
        return tokenizer_of(self.weights[0])

    def trace(self, ids: tuple[int, ...], n_padding: int = 0) -> Trace:
        """Return the trace of these tokens, the first n_padding of them padding."""
        key = "trace", self, ids, n_padding
        if is_layerwise(self.config, len(ids)):
            return computed_once(key, lambda: LayerwiseTrace(lambda: self.model, ids, n_padding))
        return computed_once(key, lambda: trace(self.model, ids, n_padding))


@_cached_by_files(128, lambda settings: settings.model)
def run_of(settings: Settings) -> Run | RecordedRun:
    """Return the run of the model that these settings name, with their mask and position, or the saved run."""
    if settings.recorded:
        return recorded.run_of(settings.model, settings.run_kind)
    return Run(weights_key(settings), config_of(settings), _memory_problem(settings) if settings.model == "own" else "")


def live_run(settings: Settings) -> Run:
    """Return the run of a model, which can run otherwise too. OpenError for a saved run."""
    run = run_of(settings)
    if isinstance(run, RecordedRun):
        raise OpenError(Recorded.refusals["run"])
    return run


def model_of(settings: Settings) -> Transformer:
    """Return the live model. ConfigError if it is too large."""
    return run_of(settings).model


def weight_bytes(config: ModelConfig) -> int:
    """Return the bytes of a model's weights in float32."""
    return 4 * count_parameters(config).total


def _memory_problem(settings: Settings) -> str:
    """Return why this untrained model, or one that pages compare it with, would be too large; "" if none is."""
    family = _family(settings)
    largest = _largest(family)
    if _fits(largest):
        return ""
    compared = "" if largest == family[0] else f"as {attention_name(largest)}, which it is compared with, "
    return (
        f"This model is too large: {compared}its weights would take {weight_bytes(largest) / 1e6:,.0f} MB, and at most "
        f"{MAX_WEIGHT_BYTES / 1e6:.0f} MB are allowed. {_smaller(settings)}"
    )


def _family(settings: Settings) -> tuple[ModelConfig, ...]:
    """Return an untrained model, also as MHA and as MLA."""
    return tuple(each.own_weights() for each in (settings, settings.multi_head(), settings.with_latent()))


@lru_cache(maxsize=64)
def _largest(family: tuple[ModelConfig, ...]) -> ModelConfig:
    """Return the largest of the family and of the MLA that the Cost page compares it with."""
    return max((*family, with_latent(family[1])), key=weight_bytes)


def _fits(config: ModelConfig) -> bool:
    return weight_bytes(config) <= MAX_WEIGHT_BYTES


def _smaller(settings: Settings) -> str:
    """Return a sentence on the largest d_model that fits with as many layers and heads."""
    narrower = (replace(settings, d_model=width) for width in reversed(widths(settings.n_heads)))
    fitting = next((each.d_model for each in narrower if _fits(_largest(_family(each)))), None)
    if fitting is None:
        return "Choose fewer layers or heads, or a smaller head_dim or latent."
    return f"With {settings.n_layers} layers of {settings.n_heads} heads, a d_model of {fitting} fits."


def problem_of(settings: Settings) -> str | None:
    """Return the reason why these settings cannot run (a missing or damaged checkpoint), or None."""
    try:
        config_of(settings)
    except (CheckpointError, ConfigError) as error:
        return str(error)
    return None


def max_tokens(config: ModelConfig) -> int:
    """Return the maximum number of tokens that can be traced: one layer's attention stays below MAX_TRACE_BYTES."""
    n = min(MAX_TOKENS, config.learned_position_rows or MAX_TOKENS)
    while n > 1 and layer_bytes(config, n) > MAX_TRACE_BYTES:
        n -= 1
    return n


def trace_of(settings: Settings, ids: tuple[int, ...], n_padding: int = 0) -> Trace:
    """Return the trace of these tokens under these settings, the first n_padding of them padding."""
    return run_of(settings).trace(ids, n_padding)


def is_layerwise(config: ModelConfig, n_tokens: int) -> bool:
    """Check whether a trace of n_tokens is too large to hold all layers."""
    return trace_bytes(config, n_tokens) > MAX_TRACE_BYTES
