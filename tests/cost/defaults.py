"""Write the defaults of transformers' configuration classes: python -m tests.cost.defaults

A config.json leaves out what is its class's default. attnviz/cost/hf_defaults.json has these for the architectures
whose readers describe each layer; a test compares it with the installed version.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import transformers

from attnviz.cost import hf_architectures
from attnviz.cost.hf_unknown import IRRELEVANT

FILE = Path(hf_architectures.__file__).with_name("hf_defaults.json")


def _plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def defaults_of(model_type: str) -> dict[str, dict[str, Any]]:
    """Return the class's own defaults, before anything is computed from them, and its other names of fields."""
    kind = transformers.models.auto.configuration_auto.CONFIG_MAPPING[model_type]
    fields = {f.name: None if f.default is dataclasses.MISSING else f.default for f in dataclasses.fields(kind)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    plain = {kind.attribute_map.get(name, name): value for name, value in plain.items()}
    kept = {n: v for n, v in plain.items() if (_plain(v) or isinstance(v, list)) and not IRRELEVANT.search(n)}
    return {"defaults": kept, "aliases": {a: n for a, n in kind.attribute_map.items() if not IRRELEVANT.search(n)}}


def table() -> dict[str, dict[str, Any]]:
    return {name: defaults_of(name) for name in sorted(hf_architectures.LAYERED)}


if __name__ == "__main__":
    rows = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in table().items())
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
