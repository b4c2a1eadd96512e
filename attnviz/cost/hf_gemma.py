"""Readers of Gemma 3n and Gemma 4: per-layer embeddings, and last layers that read the cache of earlier ones."""

from __future__ import annotations

from typing import Any

from attnviz.checks import ConfigError, shown, whole
from attnviz.cost.hf_fields import Fields
from attnviz.cost.hf_layer_kinds import FULL, SLIDING, kinds
from attnviz.cost.hf_layers import Parts, attention, optional_size, sizes
from attnviz.mechanisms import Dense, Experts, Layer, Other, letter, per_layer_embeddings


def _producers(types: list[str], n_shared: int) -> list[int | None]:
    """Return for each layer the earlier layer whose cache it reads: the last of its kind that has its own."""
    first = len(types) - n_shared
    if n_shared and set(types[:first]) != set(types):
        raise ConfigError(f"num_kv_shared_layers must leave a layer of each kind with a cache, and {n_shared} do not")
    last = {kind: first - 1 - types[:first][::-1].index(kind) for kind in set(types)} if n_shared else {}
    return [None if i < first else last[kind] for i, kind in enumerate(types)]


def _widths(f: Fields, n: int) -> list[int]:
    """Read the feed-forwards' width, one for all layers or a list."""
    given = f.value("intermediate_size")
    widths = given if isinstance(given, list) else [given] * n
    if len(widths) != n:
        raise ConfigError(f"intermediate_size must be a number or a list of {n:,} numbers, not {shown(given)}")
    for each in widths:
        whole("intermediate_size", each)
    return widths


def gemma3n(f: Fields) -> dict[str, Any]:
    """Read Gemma 3n: AltUp over several streams, LAuReL, per-layer embeddings, and a shared cache."""
    s = sizes(f)
    n, C = s["n_layers"], letter("C", s["d_model"])
    types = kinds(f, n, lambda i: SLIDING if (i + 1) % 5 else FULL, (FULL, SLIDING))
    n_shared = f.value("num_kv_shared_layers")
    whole("num_kv_shared_layers", n_shared, low=0, high=n - 1)
    readers, streams = _producers(types, n_shared), f.size("altup_num_inputs")
    bias, width = f.flag("attention_bias"), f.size("hidden_size_per_layer_input")
    P, rank = letter("N", width, "width of a per-layer embedding"), f.size("laurel_rank")
    scale = C if f.flag("altup_correct_scale") else None
    inside = (
        Other("AltUp", C * streams + streams**2 * (streams + 1), C if scale is None else C + C),
        Other("LAuReL", 2 * C * rank, C),
        Other("per-layer input", 2 * C * P, C),
    )  # fmt: skip
    layers = []
    for kind, width_of, reader in zip(types, _widths(f, n), readers, strict=True):
        window = f.size("sliding_window") if kind == SLIDING else None
        mixer = attention(f, s, window, qk_norm="head", qkv_bias=bias, o_bias=bias, reads_cache=reader is not None)
        layers.append(Layer((mixer, Dense(width_of), *inside), 4, shares_cache_of=reader))
    around = Other("AltUp", 2 * (streams - 1) * C * C)
    embeddings = per_layer_embeddings(n, f.size("vocab_size_per_layer_input"), width, C)
    return s | {"mixed_layers": tuple(layers), "other_parts": (embeddings, around)}


def _overrides(f: Fields, types: list[str], *, ungated: bool) -> list[dict[str, Any]]:
    """Read what differs per layer: the full layers' heads, under their older names, or a mapping by layer."""
    given = f.optional("per_layer_config")
    if given is None:
        one: dict[str, Any] = {"head_dim": f.older("global_head_dim", 512)}
        whole("global_head_dim", one["head_dim"])
        kv = f.older("num_global_key_value_heads")
        if kv is not None and (ungated or f.flag("attention_k_eq_v")):
            whole("num_global_key_value_heads", kv)
            one["n_kv_heads"] = kv
        return [one if kind == FULL else {} for kind in types]
    found: list[dict[str, Any]] = [{} for _ in types]
    names = {"head_dim": "head_dim", "num_key_value_heads": "n_kv_heads", "intermediate_size": "d_ff"}
    if not isinstance(given, dict):
        raise ConfigError(f"per_layer_config must be a mapping of layers to fields, not {shown(given)}")
    for layer, fields in given.items():
        if (
            not str(layer).isdigit()
            or int(layer) >= len(types)
            or not isinstance(fields, dict)
            or fields.keys() - names
        ):
            raise ConfigError(f"per_layer_config must give {', '.join(names)} of a layer, not {shown({layer: fields})}")
        for name, value in fields.items():
            whole(name, value)
        found[int(layer)] = {names[name]: value for name, value in fields.items()}
    return found


def gemma4(f: Fields) -> dict[str, Any]:
    return _gemma4(f, unified=False)


def gemma4_unified(f: Fields) -> dict[str, Any]:
    return _gemma4(f, unified=True)


def _gemma4(f: Fields, *, unified: bool) -> dict[str, Any]:
    """Read Gemma 4: wider heads in the full layers, whose values may be their keys, a feed-forward beside experts."""
    s = sizes(f)
    n, C = s["n_layers"], letter("C", s["d_model"])
    types = kinds(f, n, lambda i: SLIDING if (i + 1) % 6 else FULL, (FULL, SLIDING))
    types[-1] = FULL  # as transformers does
    n_shared = f.value("num_kv_shared_layers")
    whole("num_kv_shared_layers", n_shared, low=0, high=n - 1)
    readers, bias = _producers(types, n_shared), f.flag("attention_bias")
    width = None if unified else optional_size(f, "hidden_size_per_layer_input")
    inside: Parts = ()
    if width is not None:
        inside = (Other("per-layer input", 2 * C * letter("N", width, "width of a per-layer embedding"), C),)
    mixture = () if unified or not f.flag("enable_moe_block") else (
        Experts(f.size("num_experts"), f.size("top_k_experts"), f.size("moe_intermediate_size")),
        Other("router", None, C + f.size("num_experts")), Other("norms of the experts", None, 3 * C),
    )  # fmt: skip
    double, tied = f.flag("use_double_wide_mlp"), f.flag("attention_k_eq_v")
    layers = []
    for kind, given, reader in zip(types, _overrides(f, types, ungated=False), readers, strict=True):
        own, d_ff = dict(given), given.get("d_ff", f.size("intermediate_size"))
        own.pop("d_ff", None)
        window = f.size("sliding_window") if kind == SLIDING else None
        mixer = attention(
            f, s, window, qk_norm="head", qkv_bias=bias, o_bias=bias, reads_cache=reader is not None,
            values_are_keys=tied and kind == FULL, **own,
        )  # fmt: skip
        feed = Dense(d_ff * (2 if double and reader is not None else 1))
        layers.append(Layer((mixer, feed, *mixture, *inside), 4, shares_cache_of=reader))
    fields = s | {"mixed_layers": tuple(layers)}
    if width is None:
        return fields
    rows = f.size("vocab_size_per_layer_input")
    return fields | {"other_parts": (per_layer_embeddings(n, rows, width, C),)}
