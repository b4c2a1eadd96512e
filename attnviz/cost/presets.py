"""The published models, ready to be counted."""

from __future__ import annotations

from functools import cache

from attnviz.config import ModelConfig
from attnviz.facts import published_facts


def load_presets() -> dict[str, ModelConfig]:
    """The published models by id; where each fact was read stands in `presets.json`."""
    return dict(_presets())


@cache
def _presets() -> dict[str, ModelConfig]:
    return {id: ModelConfig.from_dict(facts) for id, facts in published_facts().items()}
