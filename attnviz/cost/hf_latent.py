"""Readers of decoders with MLA whose layers differ in more than experts: indexers, gates, two mixers in a layer."""

from __future__ import annotations

from typing import Any

from attnviz.checks import ConfigError, shown, whole
from attnviz.cost.hf_fields import Fields
from attnviz.cost.hf_layer_kinds import INDEXED, SLIDING, kinds
from attnviz.cost.hf_layers import (
    Parts,
    after,
    by_kind,
    chosen,
    dense,
    experts,
    outside,
    shared_width,
    sparse_layers,
    stacked,
)
from attnviz.mechanisms import Compressed, Dense, Experts, IndexedLatent, Latent, Layer, Other, letter


def latent_sizes(
    f: Fields, layers: str = "num_hidden_layers", context: str = "max_position_embeddings"
) -> dict[str, Any]:
    """Read the sizes of a decoder with MLA."""
    f.ignored |= {"head_dim", "qk_head_dim", "num_key_value_heads"}
    n_heads = f.size("num_attention_heads")
    width = f.size("qk_nope_head_dim") + f.size("qk_rope_head_dim")
    return {
        "n_layers": f.size(layers), "d_model": f.size("hidden_size"), "n_heads": n_heads, "head_dim": width,
        **outside(f, context),
    }  # fmt: skip


def _latent(f: Fields, s: dict[str, Any]) -> dict[str, Any]:
    rank = f.optional("q_lora_rank")
    return {
        "n_heads": s["n_heads"], "q_lora_rank": None if rank is None else f.size("q_lora_rank"),
        "bias": f.flag("attention_bias"),
        **{name: f.size(name) for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")},
    }  # fmt: skip


def latent(f: Fields, s: dict[str, Any], **more: Any) -> Latent:
    return Latent(**_latent(f, s), **more)


def indexed(f: Fields, s: dict[str, Any], *, shared: bool = False) -> Parts:
    return (IndexedLatent(
        **_latent(f, s), top_k=f.size("index_topk"), n_index_heads=f.size("index_n_heads"),
        index_dim=f.size("index_head_dim"), shared=shared,
    ),)  # fmt: skip


def _mixture(f: Fields) -> Parts:
    return experts(f, "n_routed_experts", shared_d_ff=shared_width(f, "n_shared_experts"))


def deepseek_v32(f: Fields) -> dict[str, Any]:
    s = latent_sizes(f)
    f.aliases.setdefault("n_routed_experts", []).append("num_experts")
    n = s["n_layers"]
    kinds(f, n, lambda i: INDEXED, (INDEXED,))
    sparse = sparse_layers(f, n, after(f, "first_k_dense_replace"))
    return stacked(s, [indexed(f, s)] * n, chosen(sparse, lambda: _mixture(f), lambda: dense(f)))


def glm_moe_dsa(f: Fields) -> dict[str, Any]:
    """Read GLM-5, in which some layers use the keys that an earlier layer's indexer chose."""
    s = latent_sizes(f)
    f.aliases.setdefault("n_routed_experts", []).append("num_experts")
    n = s["n_layers"]
    kinds(f, n, lambda i: INDEXED, (INDEXED,))
    types = _indexer_types(f, n)
    sparse = sparse_layers(f, n, after(f, "first_k_dense_replace"))
    mixers = {kind: indexed(f, s, shared=kind == "shared") for kind in dict.fromkeys(types)}
    return stacked(s, [mixers[kind] for kind in types], chosen(
        sparse, lambda: _mixture(f), lambda: dense(f)))  # fmt: skip


def _indexer_types(f: Fields, n: int) -> list[str]:
    pattern, period, offset = (f.older(name) for name in ("index_topk_pattern", "index_topk_freq",
                                                               "index_skip_topk_offset"))  # fmt: skip
    if f.config.get("indexer_types") is None and pattern is not None:
        if isinstance(pattern, str) and not set(pattern) - {"F", "S"}:
            pattern = [{"F": "full", "S": "shared"}[each] for each in pattern]
        if not isinstance(pattern, list) or len(pattern) != n:
            raise ConfigError(f"index_topk_pattern must say F or S of {n:,} layers, not {shown(pattern)}")
        return kinds(Fields({"index_topk_pattern": pattern}, {}), n, str, ("full", "shared"), "index_topk_pattern")
    period, offset = 1 if period is None else period, 2 if offset is None else offset
    whole("index_topk_freq", period, low=0)
    whole("index_skip_topk_offset", offset, low=0)
    return kinds(f, n, lambda i: "shared" if max(i - offset + 1, 0) % max(period, 1) else "full",
                 ("full", "shared"), "indexer_types")  # fmt: skip


def glm4_moe_lite(f: Fields) -> dict[str, Any]:
    """Read GLM-4.5-Lite and its successors: MLA and experts in all layers but the first."""
    s = latent_sizes(f)
    n = s["n_layers"]
    sparse = sparse_layers(f, n, lambda i: i > 0)
    return stacked(s, [(latent(f, s),)] * n, chosen(sparse, lambda: _mixture(f), lambda: dense(f)))


def youtu(f: Fields) -> dict[str, Any]:
    s = latent_sizes(f)
    return stacked(s, [(latent(f, s),)] * s["n_layers"], dense(f))


def axk1(f: Fields) -> dict[str, Any]:
    """Read A.X K1: DeepSeek-V3 with a norm after the experts."""
    s = latent_sizes(f)
    n = s["n_layers"]
    first, period = f.older("first_k_dense_replace", 1), f.older("moe_layer_freq", 1)
    whole("first_k_dense_replace", first, low=0)
    whole("moe_layer_freq", period)
    sparse = sparse_layers(f, n, lambda i: i >= first and i % period == 0)
    norm = Other("norm after the experts", None, letter("C", s["d_model"]))
    return stacked(s, [(latent(f, s),)] * n, chosen(sparse, lambda: (*_mixture(f), norm), lambda: dense(f)))


def longcat_flash(f: Fields) -> dict[str, Any]:
    """Read LongCat-Flash: two MLAs and two feed-forwards per layer, and experts beside them, some without weights."""
    s = latent_sizes(f, "num_layers")
    mixture = Experts(f.size("n_routed_experts"), f.size("moe_topk"), f.size("expert_ffn_hidden_size"),
                      n_idle=f.value("zero_expert_num") or 0)  # fmt: skip
    half = (latent(f, s), Dense(f.size("ffn_hidden_size")))
    return s | {"mixed_layers": (Layer((*half, mixture, *half), 4),) * s["n_layers"]}


CSA, HCA = "compressed_sparse_attention", "heavily_compressed_attention"
RATIOS = {0: SLIDING, 4: CSA, 128: HCA}


def deepseek_v4(f: Fields) -> dict[str, Any]:
    """Read DeepSeek-V4: compressed attention by layer, experts in all layers, hyper-connections between streams."""
    f.ignored |= {"num_key_value_heads", "qk_rope_head_dim", "num_hash_layers", "mlp_bias", "attention_bias",
                  "compress_rope_theta", "hc_sinkhorn_iters", "intermediate_size"}  # fmt: skip
    n, d_model, streams = f.size("num_hidden_layers"), f.size("hidden_size"), f.size("hc_mult")
    n_heads, width = f.size("num_attention_heads"), f.size("head_dim")
    groups = f.size("o_groups")
    if n_heads * width % groups:
        raise ConfigError(f"o_groups must divide num_attention_heads · head_dim = {n_heads * width:,}, not {groups}")
    types, rates = _compressed_types(f, n), _rates(f)
    C, h = letter("C", d_model), streams
    offsets = letter("F", 2 * ((2 + h) * h + 3), "offsets and scales")
    hyper = Other("hyper-connections", 2 * (2 + h) * h * h * C, offsets)
    shared: dict[str, Any] = {
        "n_heads": n_heads, "window": f.size("sliding_window"), "n_kv_heads": 1, "head_dim": width,
        "q_lora_rank": f.size("q_lora_rank"), "o_groups": groups, "o_lora_rank": f.size("o_lora_rank"),
    }  # fmt: skip
    build = {
        SLIDING: lambda: (Compressed(**shared),),
        HCA: lambda: (Compressed(**shared, rate=rates[HCA]),),
        CSA: lambda: (Compressed(
            **shared, rate=rates[CSA], top_k=f.size("index_topk"), n_index_heads=f.size("index_n_heads"),
            index_dim=f.size("index_head_dim")),),
    }  # fmt: skip
    given = f.optional("mlp_layer_types")
    if given is not None:
        kinds(f, n, str, ("hash_moe", "moe"), "mlp_layer_types")
    s = {"n_layers": n, "d_model": d_model, "n_heads": n_heads, "head_dim": width, "n_kv_heads": 1, **outside(f)}
    head = Other("hyper-connections", h * h * C, letter("F", h + 1, "offsets and scales"))
    f.must_be(1, "n_shared_experts")
    mixture = experts(f, "n_routed_experts", shared_d_ff=f.size("moe_intermediate_size"))
    return stacked(s, by_kind(types, build), (*mixture, hyper), other_parts=(head,))


def _compressed_types(f: Fields, n: int) -> list[str]:
    """Read the kind of each layer from `layer_types`, else from `compress_ratios`, which also names later layers."""
    ratios = f.older("compress_ratios")
    if f.config.get("layer_types") is None and ratios is not None:
        if not isinstance(ratios, list) or len(ratios) < n or any(ratio not in RATIOS for ratio in ratios):
            raise ConfigError(f"compress_ratios must list 0, 4 or 128 for {n:,} layers, not {shown(ratios)}")
        return [RATIOS[ratio] for ratio in ratios[:n]]
    return kinds(f, n, lambda i: CSA if i >= 2 and i % 2 else HCA, (SLIDING, CSA, HCA))


def _rates(f: Fields) -> dict[str, int]:
    """Read how many tokens an entry stands for, by kind of layer."""
    given = f.optional("compress_rates")
    if given is not None and not (isinstance(given, dict) and {CSA, HCA} <= given.keys()):
        raise ConfigError(f"compress_rates must give {CSA} and {HCA}, not {shown(given)}")
    rates = {CSA: 4, HCA: 128} if given is None else {CSA: given[CSA], HCA: given[HCA]}
    for kind, name in ((CSA, "compress_rate_csa"), (HCA, "compress_rate_hca")):
        rates[kind] = f.older(name, rates[kind])
        whole(name, rates[kind])
    return rates
