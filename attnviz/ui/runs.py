"""Models and traces for the settings in force: computed once, kept within a bound, shared and never changed."""

from __future__ import annotations

import streamlit as st

from attnviz.checkpoints import load_checkpoint, shipped_config
from attnviz.config import ModelConfig
from attnviz.modules import Transformer
from attnviz.text import Tokenizer
from attnviz.trace import Trace, trace, trace_bytes, use_one_thread
from attnviz.ui.byte_cache import ByteCache
from attnviz.ui.settings import Settings

MAX_TOKENS = 512
MAX_TRACE_BYTES = 80_000_000
MAX_KEPT_BYTES = 200_000_000

use_one_thread()


@st.cache_resource
def tokenizer() -> Tokenizer:
    return Tokenizer()


@st.cache_resource(max_entries=8, show_spinner="Loading the model …")
def _weights(model: str, own: ModelConfig | None, seed: int) -> Transformer:
    return Transformer.random(own, seed) if own else load_checkpoint(model)[0]


@st.cache_resource
def _shipped_config(model: str) -> ModelConfig:
    return shipped_config(model)


@st.cache_resource
def _kept_traces() -> ByteCache:
    return ByteCache(MAX_KEPT_BYTES)


def config_of(settings: Settings) -> ModelConfig:
    """What runs, as it runs: the checkpoint's configuration or one's own, with RoPE and masks as chosen."""
    return settings.own_config() if settings.model == "own" else settings.run_of(_shipped_config(settings.model))


def weights_key(settings: Settings) -> tuple[str, ModelConfig | None, int]:
    """What decides the weights, and nothing else: a checkpoint's name, or a configuration and a seed."""
    if settings.model != "own":
        return settings.model, None, 0
    return "own", settings.own_weights(), settings.seed


def model_of(settings: Settings) -> Transformer:
    """The model, its weights shared by everyone who looks at it."""
    return _weights(*weights_key(settings)).with_config(config_of(settings))


def max_tokens(config: ModelConfig) -> int:
    """The longest text whose trace stays below MAX_TRACE_BYTES."""
    n = MAX_TOKENS
    while n > 1 and trace_bytes(config, n) > MAX_TRACE_BYTES:
        n -= 1
    return n


def trace_of(settings: Settings, ids: tuple[int, ...], n_padding: int = 0) -> Trace:
    """The trace of these tokens under these settings, the first n_padding of them padding."""
    key = weights_key(settings), config_of(settings), ids, n_padding
    return _kept_traces().get(key, lambda: trace(model_of(settings), ids, n_padding))
