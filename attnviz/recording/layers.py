"""Which layers of a model returned weights, and with how many KV heads."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

from attnviz.phrases import in_a_row, listed
from attnviz.recording.eager import Recorder
from attnviz.recording.returned import Weights

LAYER = re.compile(r"[^.\d]+\.(\d+)")  # of a module's path: "layers.3" of "model.layers.3.self_attn"
KV_HEADS = ("num_key_value_heads", "num_kv_heads")  # attributes of modules and configurations


def about(model: Any, weights: Weights, recorder: Recorder) -> dict[str, Any]:
    """Return the KV heads of each layer and, where not all layers have weights, which have."""
    n_kv_heads = {kind: [_n_kv_heads(model, each, recorder) for each in found] for kind, found in weights.items()}
    paths = [recorder.path(each) for found in weights.values() for each in found]
    missing = _missing(model, paths) if len(weights) == 1 else []
    if not missing:
        return {"n_kv_heads": n_kv_heads}
    types = getattr(model.config.get_text_config(decoder=True), "layer_types", None) or []
    kinds = sorted({types[i] for i in missing if i < len(types)})
    layers = f"Layer {missing[0]}" if len(missing) == 1 else f"Layers {in_a_row(missing)}"
    note = f"{layers}, counted from 0, {'has' if len(missing) == 1 else 'have'} no weight per pair of tokens"
    note += f": {listed(kinds)}." if kinds else "."
    return {"n_kv_heads": n_kv_heads, "names": [LAYER.search(path)[0] for path in paths], "notes": [note]}  # type: ignore[index]


def _missing(model: Any, paths: list[str]) -> list[int]:
    """Return the layers, from 0, without weights; none where the modules' paths do not tell."""
    found = [match for path in paths if (match := LAYER.search(path))]
    present = {int(match[1]) for match in found}
    if not found or len(present) != len(paths):  # one module can be several layers
        return []
    stack = model.get_submodule(found[0].string[: found[0].start(1) - 1])  # "model.layers"
    return [i for i in range(len(stack)) if i not in present] if isinstance(stack, nn.ModuleList) else []


def _n_kv_heads(model: Any, weights: torch.Tensor, recorder: Recorder) -> int | None:
    """Return the KV heads that the weights were computed with, or that their module or the configuration names."""
    n = recorder.n_kv_heads(weights)
    if n is None:
        places = (model.get_submodule(recorder.path(weights)), model.config.get_text_config(decoder=True))
        named = (getattr(place, name, None) for place in places for name in KV_HEADS)
        n = next((each for each in named if isinstance(each, int)), None)
    return n if n and weights.shape[1] % n == 0 else None
