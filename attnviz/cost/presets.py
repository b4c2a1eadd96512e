"""The published models as configurations, read from this project's own fields or from the fields of a config.json."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from attnviz.checks import ConfigError, shown
from attnviz.config import ModelConfig
from attnviz.cost.hf_config import Description, is_hf_config, read_hf_config
from attnviz.facts import DESCRIPTIONS, published_facts

NAMES = ("id", "name", "family", "year", "dtype")  # beside `config`, the fields of a config.json


def load_presets() -> dict[str, ModelConfig]:
    """Return the published models by id; `presets.json` has the source of each fact."""
    return dict(_presets())


def load_described() -> dict[str, ModelConfig]:
    """Return those described in this project's own fields: layers of one kind, with their positions and norms.

    The fields of a config.json are read for what a model costs alone.
    """
    return {id: model for id, model in _presets().items() if "config" not in published_facts()[id]}


def model_from(facts: Any) -> tuple[ModelConfig, Description | None]:
    """Read this project's fields, a config.json, or names and a config.json under `config`. ConfigError.

    For a config.json, also return which fields were used, what was assumed and what cannot be counted.
    """
    if is_hf_config(facts):
        read = read_hf_config(facts)
        return read.model, read
    if not isinstance(facts, dict) or "config" not in facts:
        return ModelConfig.from_dict(facts), None
    if other := sorted(facts.keys() - {*NAMES, *DESCRIPTIONS, "config"}):
        raise ConfigError(f"{other[0]} cannot stand beside config, whose fields describe the whole model")
    if not isinstance(facts["config"], dict):
        raise ConfigError(f"config must be a mapping of names to values, not {shown(facts['config'])}")
    read = read_hf_config(facts["config"])
    return replace(read.model, **{name: facts[name] for name in NAMES if name in facts}), read


@cache
def _presets() -> dict[str, ModelConfig]:
    return {id: _preset(id, facts) for id, facts in published_facts().items()}


def _preset(id: str, facts: dict) -> ModelConfig:
    try:
        return model_from(facts)[0]
    except ConfigError as error:
        raise ConfigError(f"{id} in presets.json: {error}") from None
