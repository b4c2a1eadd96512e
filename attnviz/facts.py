"""Published facts about models: presets.json, and its entries as the fields of a `ModelConfig`. Standard library only.

Sources and notes beside the numbers are dropped; a misspelt field is refused with the closest known name.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from attnviz.checks import ConfigError, refuse_unknown, shown

DESCRIPTIONS = ("source", "notes")


@cache
def published_facts() -> dict[str, dict]:
    """Load the facts of published models in presets.json, each with its sources: {id: entry}."""
    entries = json.loads(Path(__file__).with_name("presets.json").read_text(encoding="utf-8"))
    return by_id(entries)


def by_id(entries: list[dict]) -> dict[str, dict]:
    """Return the entries by their id. ConfigError for an entry without an id or with the id of another one."""
    named: dict[str, dict] = {}
    for i, entry in enumerate(entries):
        id = entry.get("id")
        if not isinstance(id, str) or id in named:
            raise ConfigError(f"id of entry {i} in presets.json must be a text, unlike all other ids, not {shown(id)}")
        named[id] = entry
    return named


def facts_of(preset: str) -> str:
    """Return a published model's configuration as editable JSON, without sources and notes. KeyError if unknown."""
    facts = {name: value for name, value in published_facts()[preset].items() if name not in ("source", "notes", "id")}
    return json.dumps(facts, indent=1)


def config_fields(facts: dict, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of a `ModelConfig` (fields `known`) from one entry. ConfigError for an unknown field."""
    if not isinstance(facts, dict):
        raise ConfigError(f"a model's configuration must be a JSON object of names and values, not {shown(facts)}")
    given = {name: value for name, value in facts.items() if name not in DESCRIPTIONS}
    refuse_unknown(given, known)
    if "d_ff" in given and given["d_ff"] is None:
        raise ConfigError("d_ff must be given: without the width of the feed-forward nothing can be counted")
    if given.get("qk_norm") is False:
        given["qk_norm"] = None
    if given.get("full_layers") is not None:
        given["full_layers"] = _tuple("full_layers", given["full_layers"])
    if given.get("rope_scaling") is not None:
        given["rope_scaling"] = _pairs("rope_scaling", given["rope_scaling"])
    return given


def _tuple(name: str, value: object) -> tuple:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name} must be a list, not {shown(value)}")
    return tuple(value)


def _pairs(name: str, value: Any) -> tuple[tuple[str, object], ...]:
    """Convert a mapping, or its JSON form as a list of pairs, to hashable pairs."""
    items = value.items() if isinstance(value, dict) else value
    try:
        return tuple((key, tuple(entry) if isinstance(entry, list) else entry) for key, entry in items)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be a mapping of names to values, not {shown(value)}") from None
