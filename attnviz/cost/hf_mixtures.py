"""Readers of decoders with grouped-query attention and experts, in the form of layers."""

from __future__ import annotations

from typing import Any

from attnviz.checks import ConfigError, shown, whole
from attnviz.cost.hf_dense import biases, everywhere, exaone_mixers
from attnviz.cost.hf_fields import Fields
from attnviz.cost.hf_layer_kinds import CHUNKED, FULL, SLIDING, every, kinds
from attnviz.cost.hf_layers import (
    Parts,
    after,
    attention,
    by_kind,
    chosen,
    dense,
    experts,
    optional_size,
    shared_width,
    sizes,
    sparse_layers,
    stacked,
    windowed,
)
from attnviz.mechanisms import Dense, Other, letter


def afmoe(f: Fields) -> dict[str, Any]:
    """Read Arcee's Trinity: gated attention with windows, and experts balanced by biases that are parameters."""
    s = sizes(f)
    types = kinds(f, s["n_layers"], every(f.size("global_attn_every_n_layers")), (FULL, SLIDING))
    sparse = [i >= _whole(f, "num_dense_layers") for i in range(s["n_layers"])]
    mixers = windowed(f, s, types, qk_norm="head", gate="width", **biases(f))
    shared = shared_width(f, "num_shared_experts")
    feeds = chosen(sparse, lambda: experts(f, "num_experts", router_bias=True, shared_d_ff=shared), lambda: dense(f))
    return stacked(s, mixers, feeds, 4)


def _whole(f: Fields, name: str) -> int:
    n = f.value(name)
    whole(name, n, low=0)
    return int(n)


def aria_text(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    shared = shared_width(f, "moe_num_shared_experts", "intermediate_size")
    f.must_be(False, "mlp_bias")
    return stacked(s, everywhere(f, s, **biases(f)), experts(
        f, "moe_num_experts", "intermediate_size", "moe_topk", shared_d_ff=shared))  # fmt: skip


def beam(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    n = s["n_layers"]
    types = kinds(f, n, lambda i: FULL if (i + 1) % 6 == 0 or i == n - 1 else SLIDING, (FULL, SLIDING))
    sparse = sparse_layers(f, n, lambda i: i >= 3)
    mixers = windowed(f, s, types, qk_norm="head", gate="width", **biases(f))
    bias = Other("output gate", None, letter("H", s["n_heads"]))
    return stacked(s, [(*each, bias) for each in mixers], chosen(
        sparse, lambda: experts(f, "num_experts"), lambda: dense(f)), 4)  # fmt: skip


def cohere2_moe(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    n, first = s["n_layers"], f.older("first_k_dense_replace", 0)
    whole("first_k_dense_replace", first, low=0, high=n)
    prefix, rest = every(f.size("prefix_dense_sliding_window_pattern")), every(f.size("sliding_window_pattern"))
    types = kinds(f, n, lambda i: prefix(i) if i < first else rest(i - first), (FULL, SLIDING))
    sparse = sparse_layers(f, n, lambda i: i >= first)
    narrow = f.size_or(f.size("intermediate_size"), "prefix_dense_intermediate_size")
    shared = shared_width(f, "num_shared_experts", "intermediate_size")
    found = stacked(s, windowed(f, s, types, **biases(f)), chosen(
        sparse, lambda: experts(f, "num_experts", "intermediate_size", shared_d_ff=shared),
        lambda: (Dense(narrow),)), 1, parallel=True)  # fmt: skip
    return found | {"norm": "layernorm"}


def exaone_moe(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    sparse = sparse_layers(f, s["n_layers"], after(f, "first_k_dense_replace"))
    return stacked(s, exaone_mixers(f, s), chosen(sparse, lambda: experts(
        f, "num_experts", shared_d_ff=shared_width(f, "num_shared_experts")), lambda: dense(f)))  # fmt: skip


def flex_olmo(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, everywhere(f, s, qk_norm="width", **biases(f)), experts(f, "num_experts", "intermediate_size"))


def flint(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    n = s["n_layers"]
    types = kinds(f, n, lambda i: FULL if i < 2 or i % 4 == 1 or i == n - 1 else SLIDING, (FULL, SLIDING))
    without = f.value("mlp_only_layers")
    without = [0, 1] if without is None else without
    if not isinstance(without, list) or not all(isinstance(i, int) for i in without):
        raise ConfigError(f"mlp_only_layers must be a list of layers, not {shown(without)}")
    step = f.size("decoder_sparse_step")
    sparse = [i not in without and (i + 1) % step == 0 for i in range(n)]
    mixers = windowed(f, s, types, qk_norm="head", sink_logits=True, **biases(f))
    return stacked(s, mixers, chosen(sparse, lambda: experts(
        f, "num_experts", shared_d_ff=f.size("shared_expert_intermediate_size")), lambda: dense(f)))  # fmt: skip


def granite_moe_swa(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: SLIDING if i % 4 else FULL, (FULL, SLIDING))
    return stacked(s, windowed(f, s, types, sink_logits=True, **biases(f)), _granite_experts(f))


def granite_moe_shared(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, everywhere(f, s, **biases(f)), _granite_experts(f))


def _granite_experts(f: Fields) -> Parts:
    return experts(
        f, "num_local_experts", "intermediate_size", shared_d_ff=optional_size(f, "shared_intermediate_size")
    )


def hunyuan_moe(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, everywhere(f, s, qk_norm="head", **biases(f)), experts(
        f, "num_experts", "intermediate_size", "moe_topk", shared_d_ff=f.size("intermediate_size")))  # fmt: skip


def hy_v3(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    f.must_be(False, "mlp_bias")
    sparse = sparse_layers(f, s["n_layers"], lambda i: i > 0)
    return stacked(s, everywhere(f, s, qk_norm="head", **biases(f)), chosen(sparse, lambda: experts(
        f, "num_experts", shared_d_ff=shared_width(f, "num_shared_experts")), lambda: dense(f)))  # fmt: skip


def kolibri1(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    types = kinds(f, s["n_layers"], every(5), (FULL, SLIDING))
    return stacked(s, windowed(f, s, types, qk_norm="head"), experts(
        f, "num_local_experts", shared_d_ff=f.size("shared_expert_intermediate_size")), 4)  # fmt: skip


def laguna(f: Fields) -> dict[str, Any]:
    """Read Laguna: heads whose number may differ per layer, and a gate per head."""
    s = sizes(f)
    n = s["n_layers"]
    types = kinds(f, n, lambda i: FULL, (FULL, SLIDING))
    per_layer = f.optional("num_attention_heads_per_layer") or [s["n_heads"]] * n
    if not isinstance(per_layer, list) or len(per_layer) != n:
        raise ConfigError(f"num_attention_heads_per_layer must be a list of {n:,} numbers, not {shown(per_layer)}")
    for heads in per_layer:
        whole("num_attention_heads_per_layer", heads)
    bias, gating = f.flag("attention_bias"), f.value("gating")
    if gating not in (True, "per-head", "per-element"):
        raise ConfigError(f"gating must be true, per-head or per-element to be counted, not {shown(gating)}")
    gate = "width" if gating == "per-element" else "head"
    more: dict[str, Any] = {"qk_norm": "head", "gate": gate, "qkv_bias": bias, "o_bias": bias}
    pairs = list(zip(types, per_layer, strict=True))
    window = f.size("sliding_window") if SLIDING in types else None
    mixers = {pair: (attention(f, s, window if pair[0] == SLIDING else None, n_heads=pair[1], **more),)
              for pair in dict.fromkeys(pairs)}  # fmt: skip
    sparse, shared = sparse_layers(f, n, lambda i: i > 0), f.size("shared_expert_intermediate_size")
    return stacked(s, [mixers[pair] for pair in pairs], chosen(
        sparse, lambda: experts(f, "num_experts", router_bias=True, shared_d_ff=shared), lambda: dense(f)))  # fmt: skip


def llama4(f: Fields) -> dict[str, Any]:
    """Read Llama 4: chunks of attention in the layers with RoPE, and a shared expert beside the others."""
    s = sizes(f)
    n, given = s["n_layers"], f.optional("no_rope_layers") or None
    period = f.size("no_rope_layer_interval") if given is None else 1
    if given is not None and (not isinstance(given, list) or len(given) != n):
        raise ConfigError(f"no_rope_layers must be a list of {n:,} numbers, not {shown(given)}")
    rotated = [bool((i + 1) % period) for i in range(n)] if given is None else [bool(each) for each in given]
    types = kinds(f, n, lambda i: CHUNKED if rotated[i] else FULL, (FULL, CHUNKED))
    mixed, step = f.optional("moe_layers"), f.size("interleave_moe_layer_step")
    mixed = range(step - 1, n, step) if mixed is None else mixed
    if not isinstance(mixed, list | range):
        raise ConfigError(f"moe_layers must be a list of layers, not {shown(mixed)}")
    more = biases(f)
    return stacked(s, by_kind(types, {
        FULL: lambda: (attention(f, s, **more),),
        CHUNKED: lambda: (attention(f, s, f.size("attention_chunk_size"), chunked=True, **more),),
    }), chosen([i in mixed for i in range(n)], lambda: experts(
        f, "num_local_experts", "intermediate_size", shared_d_ff=f.size("intermediate_size")),
        lambda: dense(f, "intermediate_size_mlp")))  # fmt: skip


def mellum(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: FULL, (FULL, SLIDING))
    sparse = sparse_layers(f, s["n_layers"], lambda i: True)
    return stacked(s, windowed(f, s, types, qk_norm="head", **biases(f)), chosen(
        sparse, lambda: experts(f, "num_local_experts"), lambda: dense(f)))  # fmt: skip


def mimo_v2_flash(f: Fields) -> dict[str, Any]:
    """Read MiMo-V2-Flash: windows with sinks and twice the KV heads, values narrower than keys."""
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: FULL if i == 0 or (i + 1) % 6 == 0 else SLIDING, (FULL, SLIDING))
    sparse = sparse_layers(f, s["n_layers"], lambda i: i > 0)
    bias = f.flag("attention_bias")
    more: dict[str, Any] = {"v_head_dim": f.size("v_head_dim"), "qkv_bias": bias}
    return stacked(s, by_kind(types, {
        FULL: lambda: (attention(f, s, **more),),
        SLIDING: lambda: (attention(f, s, f.size("sliding_window"), n_kv_heads=2 * s["n_kv_heads"], sink_logits=True,
                                    **more),),
    }), chosen(sparse, lambda: experts(f, "n_routed_experts"), lambda: dense(f)))  # fmt: skip


def minimax_m3(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    kinds(f, s["n_layers"], lambda i: FULL, (FULL,))
    sparse = sparse_layers(f, s["n_layers"], lambda i: True)
    shared = optional_size(f, "shared_intermediate_size")
    return stacked(s, everywhere(f, s, qk_norm="head"), chosen(sparse, lambda: experts(
        f, "num_local_experts", "intermediate_size", shared_d_ff=shared),
        lambda: dense(f, "dense_intermediate_size")))  # fmt: skip


def solar_open(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    shared = shared_width(f, "n_shared_experts")
    bias = f.flag("attention_bias")
    return stacked(s, everywhere(f, s, qkv_bias=bias), experts(f, "n_routed_experts", shared_d_ff=shared))
