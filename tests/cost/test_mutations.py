"""Each field that a reader reads, with a value other than its default: counted as transformers builds it or refused."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from attnviz.checks import ConfigError
from attnviz.cost import count_parameters
from attnviz.cost.hf_architectures import LAYERED
from attnviz.cost.hf_config import read_hf_config
from tests.cost import decoders
from tests.cost.test_decoders import COUNTED, shortened, written

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "layer_types", "mlp_layer_types")
KEPT = re.compile(  # fields that may change what a model keeps
    r"head|kv|window|chunk|sliding|state|conv|expand|group|lora|rope_dim|shared_layers|period|offset|pattern|"
    r"interval|hidden_size$|index|global|taps|rank$|laurel|altup|d_ssm|swa|size_per_layer"
)


def others(name: str, value: object, given: dict[str, Any]) -> list[object]:
    """Return values that are not this field's default, the likeliest to be valid first."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        small = [5] if re.search(r"window|chunk|topk$", name) else []
        return [*small, value * 2, value // 2 if value % 2 == 0 and value > 1 else value + 2, value + 1]
    if value is None and re.search(r"layers$|types?$|idxs|indices|ids$|config$", name):
        return []  # lists of layers: test_spellings.py
    if value is None:
        heads = given.get("num_attention_heads", 8)
        return [5] if "window" in name else [heads // 2, 1] if "num_key_value" in name else [24, 48]
    return [24] if value == "auto" else []


def read_fields(model_type: str, short: dict[str, Any]) -> set[str]:
    found = read_hf_config(written(model_type, **short))
    return {*found.used, *found.assumed}


@pytest.mark.slow
@pytest.mark.parametrize("model_type", [name for name in COUNTED if name in LAYERED and name not in decoders.REAL])
def test_a_changed_field_is_followed_or_refused(model_type):
    short, wrong = shortened(model_type), []
    kept_by_default = decoders.expected(read_hf_config(written(model_type, **short)).model, 9)
    read, defaults = read_fields(model_type, short), {f.name: f.default for f in _fields(model_type)}
    for name in sorted((read & defaults.keys()) - {*LAYERS, *decoders.NEEDED.get(model_type, {})}):
        for value in others(name, _plain(defaults[name]), defaults):
            fields = {**short, name: value}
            try:
                live = decoders.built(decoders.configured(model_type, **fields))
            except Exception:  # not a configuration that transformers builds: the next value
                continue
            if problem := _differs(live, model_type, fields, bool(KEPT.search(name)), kept_by_default):
                wrong.append(f"{name} = {value}: {problem}")
            break
    assert not wrong, "; ".join(wrong)


def _fields(model_type: str) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(CONFIG_MAPPING[decoders.configured(model_type).model_type])


def _plain(value: object) -> object:
    return None if value is dataclasses.MISSING else value


def _differs(live: Any, model_type: str, fields: dict[str, Any], keeps: bool, kept_by_default: int) -> str:
    """Return how the count differs from the live model, "" if it does not or the field is refused."""
    try:
        model = read_hf_config(written(model_type, **fields)).model
    except ConfigError as refused:
        return "" if len(str(refused)) > 20 else "refused without a sentence"
    counted, built = count_parameters(model).total, decoders.n_parameters(live)
    if counted != built:
        return f"{counted:,} parameters, {built:,} in transformers"
    kept = decoders.expected(model, 9)
    if not keeps and kept == kept_by_default:
        return ""
    try:
        held = decoders.held(live, 9)
    except (RuntimeError, ValueError):  # it can be built and not run
        return ""
    return "" if kept == held else f"{kept:,} numbers kept, {held:,} in transformers"
