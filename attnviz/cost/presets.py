"""The published models as configurations."""

from __future__ import annotations

from functools import cache

from attnviz.checks import ConfigError
from attnviz.config import ModelConfig
from attnviz.facts import published_facts


def load_presets() -> dict[str, ModelConfig]:
    """Return the published models by id; `presets.json` has the source of each fact."""
    return dict(_presets())


@cache
def _presets() -> dict[str, ModelConfig]:
    return {id: _preset(id, facts) for id, facts in published_facts().items()}


def _preset(id: str, facts: dict) -> ModelConfig:
    try:
        return ModelConfig.from_dict(facts)
    except ConfigError as error:
        raise ConfigError(f"{id} in presets.json: {error}") from None
