"""Readers of hybrids with the gated delta rule: Qwen3-Next and its successors, OLMo Hybrid, Kimi Linear, Ling."""

from __future__ import annotations

from typing import Any

from attnviz.checks import ConfigError, shown, whole
from attnviz.cost.hf_fields import Fields
from attnviz.cost.hf_latent import latent, latent_sizes
from attnviz.cost.hf_layer_kinds import FULL, LINEAR, every, kinds
from attnviz.cost.hf_layers import (
    Parts,
    after,
    attention,
    by_kind,
    chosen,
    dense,
    experts,
    shared_width,
    sizes,
    sparse_layers,
    stacked,
)
from attnviz.mechanisms import (
    GatedDelta,
)


def _qwen_delta(f: Fields) -> Parts:
    n_heads, n_key_heads = f.size("linear_num_value_heads"), f.size("linear_num_key_heads")
    return (GatedDelta(
        n_heads=n_heads, n_key_heads=n_key_heads, key_dim=f.size("linear_key_head_dim"),
        head_dim=f.size("linear_value_head_dim"), taps=f.size("linear_conv_kernel_dim"),
    ),)  # fmt: skip


def _qwen_mixers(f: Fields, s: dict[str, Any]) -> list[Parts]:
    """Read which layers have the delta rule, and which gated attention."""
    interval = f.older("full_attention_interval", 4)
    if f.config.get("layer_types") is None:
        whole("full_attention_interval", interval)
    types = kinds(f, s["n_layers"], every(interval, FULL, LINEAR), (LINEAR, FULL))
    bias = f.flag("attention_bias")
    full: dict[str, Any] = {"qk_norm": "head", "gate": "width", "qkv_bias": bias, "gate_bias": bias, "o_bias": bias}
    return by_kind(types, {LINEAR: lambda: _qwen_delta(f), FULL: lambda: (attention(f, s, **full),)})


def _qwen_experts(f: Fields) -> Parts:
    shared = f.size("shared_expert_intermediate_size")
    return experts(f, "num_experts", shared_d_ff=shared, shared_gate=True)


def qwen3_next(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    step, without = f.size("decoder_sparse_step"), f.value("mlp_only_layers") or []
    if not isinstance(without, list) or not all(isinstance(i, int) for i in without):
        raise ConfigError(f"mlp_only_layers must be a list of layers, not {shown(without)}")
    sparse = [i not in without and (i + 1) % step == 0 for i in range(s["n_layers"])]
    return stacked(s, _qwen_mixers(f, s), chosen(sparse, lambda: _qwen_experts(f), lambda: dense(f)))


def qwen3_5(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, _qwen_mixers(f, s), dense(f))


def qwen3_5_moe(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, _qwen_mixers(f, s), _qwen_experts(f))


def olmo_hybrid(f: Fields) -> dict[str, Any]:
    """Read OLMo Hybrid, whose attention normalises its output and whose linear layers normalise their input."""
    s = sizes(f)
    n, bias = s["n_layers"], f.flag("attention_bias")

    def pattern(i: int) -> str:
        return FULL if i % 4 == 3 or (n < 4 and i == n - 1) else LINEAR

    types = kinds(f, n, pattern, (LINEAR, FULL))
    n_keys = f.size_or(s["n_heads"], "linear_num_key_heads")
    key_dim = f.size_or(int(0.75 * s["d_model"] / n_keys), "linear_key_head_dim")
    return stacked(s, by_kind(types, {
        LINEAR: lambda: (GatedDelta(
            n_heads=f.size_or(s["n_heads"], "linear_num_value_heads"), n_key_heads=n_keys, key_dim=key_dim,
            head_dim=f.size_or(2 * key_dim, "linear_value_head_dim"), taps=f.size("linear_conv_kernel_dim")),),
        FULL: lambda: (attention(f, s, qk_norm="width", qkv_bias=bias, o_bias=bias),),
    }), dense(f))  # fmt: skip


KIMI_LINEAR = {
    "full_attn_layers", "kda_layers", "head_dim", "num_heads", "short_conv_kernel_size", "gate_lower_bound",
}  # fmt: skip


def kimi_linear(f: Fields) -> dict[str, Any]:
    """Read Kimi Linear: the delta rule with a decay per channel, and MLA without RoPE."""
    f.must_be(False, "tie_word_embeddings")  # transformers does not tie them
    s = latent_sizes(f, context="model_max_length")
    n, given = s["n_layers"], f.optional("linear_attn_config") or {}
    if not isinstance(given, dict):
        raise ConfigError(f"linear_attn_config must be a mapping of names to values, not {shown(given)}")
    own = Fields(given, {"head_dim": f.optional("linear_head_dim"), "num_heads": f.optional("linear_num_heads"),
                         "short_conv_kernel_size": f.optional("linear_conv_kernel_dim")})  # fmt: skip
    for name in given.keys() - KIMI_LINEAR:
        if given[name]:
            raise ConfigError(f"linear_attn_config.{name} is a field that AttnViz does not know and cannot count")
    full = given.get("full_attn_layers")
    if full is not None and not (isinstance(full, list) and {"kda_layers"} <= given.keys()):
        raise ConfigError(f"linear_attn_config must list full_attn_layers and kda_layers, not {shown(full)}")
    if full is not None and sorted(full + given["kda_layers"]) != list(range(1, n + 1)):
        raise ConfigError("full_attn_layers and kda_layers must name each layer once, counted from 1")

    def pattern(i: int) -> str:
        is_full = i + 1 in full if full is not None else i > 0 and i % 4 == 0
        return FULL if is_full else LINEAR

    types = kinds(f, n, pattern, (LINEAR, FULL))
    width = own.size("head_dim")
    linear = GatedDelta(
        n_heads=own.size("num_heads"), n_key_heads=own.size("num_heads"), key_dim=width, head_dim=width,
        taps=own.size("short_conv_kernel_size"), decay="low rank", gate="low rank",
    )  # fmt: skip
    sparse = sparse_layers(f, n, after(f, "first_k_dense_replace", 1))
    return stacked(s, by_kind(types, {LINEAR: lambda: (linear,), FULL: lambda: (latent(f, s),)}), chosen(
        sparse, lambda: experts(f, "num_experts", k="num_experts_per_token",
                                shared_d_ff=shared_width(f, "num_shared_experts")), lambda: dense(f)))  # fmt: skip


def bailing_hybrid(f: Fields) -> dict[str, Any]:
    """Read Ling's hybrid: the delta rule with a decay per channel, and MLA with a gate per head."""
    s = latent_sizes(f, context="model_max_length")
    f.must_be(False, "tie_word_embeddings")  # transformers does not tie them
    f.ignored |= {"linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim"}
    n, width = s["n_layers"], f.size("head_dim")
    period = f.size("layer_group_size")
    types = kinds(f, n, every(period, FULL, LINEAR), (LINEAR, FULL))
    linear = GatedDelta(
        n_heads=s["n_heads"], n_key_heads=s["n_heads"], key_dim=width, head_dim=width,
        taps=f.size("short_conv_kernel_size"), decay="full",
    )  # fmt: skip
    sparse = sparse_layers(f, n, after(f, "first_k_dense_replace"))
    return stacked(s, by_kind(types, {LINEAR: lambda: (linear,), FULL: lambda: (latent(f, s, gate="head"),)}), chosen(
        sparse, lambda: experts(f, "num_experts", k="num_experts_per_token",
                                shared_d_ff=shared_width(f, "num_shared_experts")), lambda: dense(f)))  # fmt: skip
