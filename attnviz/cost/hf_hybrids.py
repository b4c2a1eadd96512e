"""Readers of hybrid and recurrent decoders with Mamba, short convolutions, lightning attention or RWKV."""

from __future__ import annotations

from typing import Any

from attnviz.checks import ConfigError, number, shown, whole
from attnviz.cost.hf_fields import Fields
from attnviz.cost.hf_layer_kinds import CONV, FULL, HYBRID, LINEAR, SLIDING, kinds
from attnviz.cost.hf_layers import (
    Parts,
    attention,
    by_kind,
    chosen,
    dense,
    experts,
    optional_size,
    outside,
    sizes,
    stacked,
)
from attnviz.equations import Value
from attnviz.mechanisms import (
    Again,
    ChannelMix,
    Dense,
    Grouped,
    Lightning,
    Mamba,
    Mamba2,
    Other,
    ShortConvolution,
    TimeMix,
    letter,
)

# ---- Mamba


def _mamba2(f: Fields, s: dict[str, Any], inner: int, **more: Any) -> Mamba2:
    """Read Mamba-2 under the names of Bamba, whose heads divide its inner width."""
    n_heads, width = f.size("mamba_n_heads"), f.value("mamba_d_head")
    width = inner // n_heads if width == "auto" else width
    whole("mamba_d_head", width)
    if width * n_heads != inner:
        raise ConfigError(f"mamba_n_heads · mamba_d_head must be {inner:,}, not {n_heads:,} · {width:,}")
    return Mamba2(
        n_heads=n_heads, head_dim=width, state_size=f.size("mamba_d_state"), n_groups=f.size("mamba_n_groups"),
        taps=f.size("mamba_d_conv"), conv_bias=f.flag("mamba_conv_bias"), bias=f.flag("mamba_proj_bias"), **more,
    )  # fmt: skip


def _biased_attention(f: Fields, s: dict[str, Any]) -> Parts:
    bias = f.flag("attention_bias")
    return (attention(f, s, qkv_bias=bias, o_bias=bias),)


def jamba(f: Fields) -> dict[str, Any]:
    """Read Jamba: attention in one layer of a period, and experts in another period of layers."""
    s = sizes(f)
    inner, rank = f.size("mamba_expand") * s["d_model"], f.value("mamba_dt_rank")
    rank = -(-s["d_model"] // 16) if rank == "auto" else rank
    whole("mamba_dt_rank", rank)
    mamba = Mamba(
        head_dim=inner, state_size=f.size("mamba_d_state"), step_rank=rank, taps=f.size("mamba_d_conv"),
        conv_bias=f.flag("mamba_conv_bias"), bias=f.flag("mamba_proj_bias"), normed=True,
    )  # fmt: skip
    full, sparse = _periodic(f, s["n_layers"], "attn_layer"), _periodic(f, s["n_layers"], "expert_layer")
    n_experts = f.size("num_experts")
    return stacked(s, [(attention(f, s),) if each else (mamba,) for each in full], chosen(
        [each and n_experts > 1 for each in sparse], lambda: experts(f, "num_experts", "intermediate_size"),
        lambda: dense(f)))  # fmt: skip


def _periodic(f: Fields, n_layers: int, name: str) -> list[bool]:
    period, offset = f.size(f"{name}_period"), f.value(f"{name}_offset")
    whole(f"{name}_offset", offset, low=0, high=period - 1)
    return [i % period == offset for i in range(n_layers)]


def bamba(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    listed = f.optional("attn_layer_indices") or []
    if not isinstance(listed, list):
        raise ConfigError(f"attn_layer_indices must be a list of layers, not {shown(listed)}")
    types = [FULL if i in listed else LINEAR for i in range(s["n_layers"])]
    inner = f.size("mamba_expand") * s["d_model"]
    return stacked(s, by_kind(types, {
        LINEAR: lambda: (_mamba2(f, s, inner),), FULL: lambda: _biased_attention(f, s),
    }), dense(f, bias=f.flag("mlp_bias")))  # fmt: skip


def falcon_h1(f: Fields) -> dict[str, Any]:
    """Read Falcon-H1: attention and Mamba-2 in parallel in each layer."""
    s = sizes(f)
    inner = f.size_or(f.size("mamba_expand") * s["d_model"], "mamba_d_ssm")
    projected = f.flag("projectors_bias")
    mamba = _mamba2(f, s, inner, normed=f.flag("mamba_rms_norm"), out_bias=projected)
    both = (mamba, *_biased_attention(f, s))
    return stacked(s, [both] * s["n_layers"], dense(f, bias=f.flag("mlp_bias")))


def granite_hybrid(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: LINEAR, (LINEAR, FULL), "layer_types")
    inner = f.size("mamba_expand") * s["d_model"]
    n_experts = f.value("num_local_experts")
    shared = Dense(f.size("shared_intermediate_size"))
    feeds = (*(experts(f, "num_local_experts", "intermediate_size") if n_experts else ()), shared)
    return stacked(s, by_kind(types, {
        LINEAR: lambda: (_mamba2(f, s, inner),), FULL: lambda: _biased_attention(f, s),
    }), feeds)  # fmt: skip


PATTERN = {"M": LINEAR, "*": FULL, "E": "moe", "-": "mlp"}


def nemotron_h(f: Fields) -> dict[str, Any]:
    """Read Nemotron-H, in which each layer is one part: Mamba-2, attention, experts or a feed-forward."""
    f.must_be(False, "tie_word_embeddings")  # transformers does not tie them
    types = _nemotron_types(f)
    s = sizes(f, len(types))
    bias = f.flag("mlp_bias")
    build = {
        LINEAR: lambda: _nemotron_mamba(f), FULL: lambda: (attention(f, s),),
        "mlp": lambda: dense(f, gated=False, bias=bias), "moe": lambda: _nemotron_experts(f),
    }  # fmt: skip
    return stacked(s, by_kind(types, build), [()] * len(types), n_norms=1)


def _nemotron_types(f: Fields) -> list[str]:
    pattern, given = f.older("hybrid_override_pattern"), f.optional("layers_block_type")
    if given is None and pattern is not None:
        if not isinstance(pattern, str) or not pattern or set(pattern) - PATTERN.keys():
            raise ConfigError(f"hybrid_override_pattern must be text of M, *, E and -, not {shown(pattern)}")
        return [PATTERN[each] for each in pattern]
    n = len(given) if isinstance(given, list) else 4
    return kinds(f, n, [LINEAR, "moe", FULL, "mlp"].__getitem__, (LINEAR, FULL, "moe", "mlp"), "layers_block_type")


def _nemotron_mamba(f: Fields) -> Parts:
    return (Mamba2(
        n_heads=f.size("mamba_num_heads"), head_dim=f.size("mamba_head_dim"), state_size=f.size("ssm_state_size"),
        n_groups=f.size("n_groups", "mamba_n_groups"), taps=f.size("conv_kernel", "mamba_d_conv"),
        conv_bias=f.flag("use_conv_bias"), bias=f.flag("use_bias"),
    ),)  # fmt: skip


def _nemotron_experts(f: Fields) -> Parts:
    f.must_be(False, "mlp_bias")
    n_shared = f.value("n_shared_experts")
    shared = f.size("moe_shared_expert_intermediate_size") if n_shared else None
    return experts(f, "n_routed_experts", gated=False, shared_d_ff=shared, latent=optional_size(f, "moe_latent_size"))


def mamba(f: Fields) -> dict[str, Any]:
    d_model = f.size("hidden_size")
    rank = f.value("time_step_rank")
    rank = -(-d_model // 16) if rank == "auto" else rank
    whole("time_step_rank", rank)
    inner = f.size("expand") * d_model
    part = Mamba(
        head_dim=inner, state_size=f.size("state_size"), step_rank=rank, taps=f.size("conv_kernel"),
        conv_bias=f.flag("use_conv_bias"), bias=f.flag("use_bias"),
    )  # fmt: skip
    return _recurrent(f, d_model, 1, inner, part)


def mamba2(f: Fields) -> dict[str, Any]:
    d_model, n_heads, width = f.size("hidden_size"), f.size("num_heads"), f.size("head_dim")
    if f.size("expand") * d_model != n_heads * width:
        raise ConfigError(f"expand · hidden_size must be num_heads · head_dim = {n_heads * width:,}")
    part = Mamba2(
        n_heads=n_heads, head_dim=width, state_size=f.size("state_size"), n_groups=f.size("n_groups"),
        taps=f.size("conv_kernel"), conv_bias=f.flag("use_conv_bias"), bias=f.flag("use_bias"),
    )  # fmt: skip
    return _recurrent(f, d_model, n_heads, width, part)


def _recurrent(f: Fields, d_model: int, n_heads: int, width: int, *parts: Any, **more: Any) -> dict[str, Any]:
    """Return a decoder without attention whose layers are all these parts."""
    n = f.size("num_hidden_layers")
    s = {"n_layers": n, "d_model": d_model, "n_heads": n_heads, "head_dim": width, **outside(f)}
    return stacked(s, [parts] * n, [()] * n, **{"n_norms": 1, **more})


# ---- a shared transformer block between Mamba's layers


def zamba(f: Fields) -> dict[str, Any]:
    """Read Zamba: one attention and feed-forward, over the layer's input and the embeddings, used by several layers."""
    f.must_be(True, "tie_word_embeddings")  # else transformers unties the block as well
    d_model, n = f.size("hidden_size"), f.size("num_hidden_layers")
    wide, n_heads = f.size_or(2 * d_model, "attention_hidden_size"), f.size("num_attention_heads")
    width = f.size_or(2 * d_model // n_heads, "attention_head_dim")
    period, offset = f.size("attn_layer_period"), f.value("attn_layer_offset")
    whole("attn_layer_offset", offset, low=0)
    if n < 3:
        raise ConfigError(f"num_hidden_layers must be at least 3 for this architecture to be counted, not {n}")
    default = [LINEAR, LINEAR, HYBRID] + [HYBRID if i % period == offset else LINEAR for i in range(n - 3)]
    types = kinds(f, n, default.__getitem__, (LINEAR, HYBRID), "layers_block_type")
    rank = f.value("mamba_dt_rank")
    rank = -(-d_model // 16) if rank == "auto" else rank
    whole("mamba_dt_rank", rank)
    inner, n_parts = f.size("mamba_expand") * d_model, f.size("n_mamba_heads")
    if inner % n_parts:
        raise ConfigError(f"n_mamba_heads must divide mamba_expand · hidden_size = {inner:,}, and {n_parts:,} does not")
    parts_of = Mamba(
        n_heads=n_parts, head_dim=inner // n_parts, state_size=f.size("mamba_d_state"), step_rank=rank,
        taps=f.size("mamba_d_conv"), conv_bias=f.flag("mamba_conv_bias"), bias=f.flag("mamba_proj_bias"),
    )  # fmt: skip
    C = letter("C", d_model)
    n_kv_heads = f.size("num_key_value_heads")
    block = (Grouped(n_heads, n_kv_heads=n_kv_heads, head_dim=width),
             Other("concatenated input", Value(wide - d_model) * (n_heads + 2 * n_kv_heads) * width, C + wide),
             *dense(f))  # fmt: skip
    return _shared_block(f, types, parts_of, block, Other("projection into the layer", C * C), n_heads, width)


def _shared_block(
    f: Fields, types: list[str], part: Any, block: Parts, projection: Other, n_heads: int, width: int
) -> dict[str, Any]:
    """Return layers of Mamba, some with a block before it whose weights the first of them has."""
    mixers, seen = list[Parts](), False
    for kind in types:
        own = tuple(Again(each) for each in block) if seen else block
        mixers.append((*own, projection, part) if kind == HYBRID else (part,))
        seen = seen or kind == HYBRID
    s = {"n_layers": len(types), "d_model": f.size("hidden_size"), "n_heads": n_heads, "head_dim": width, **outside(f)}
    return stacked(s, mixers, [()] * len(types), n_norms=1)


# ---- short convolutions, lightning attention, RWKV


def _lfm_width(f: Fields, *names: str) -> int:
    """Return the feed-forward's width, which LFM2 cuts to two thirds and rounds up."""
    d_ff = f.size(*names)
    if not f.flag("block_auto_adjust_ff_dim"):
        return d_ff
    d_ff = int(2 * d_ff / 3)
    if (factor := f.value("block_ffn_dim_multiplier")) is not None:
        number("block_ffn_dim_multiplier", factor, 0.01, 100)
        d_ff, multiple = int(factor * d_ff), f.size("block_multiple_of")
        d_ff = multiple * -(-d_ff // multiple)
    return d_ff


def _conv(f: Fields, d_model: int) -> Parts:
    return (ShortConvolution(head_dim=d_model, taps=f.size("conv_L_cache"), bias=f.flag("conv_bias")),)


def lfm2(f: Fields) -> dict[str, Any]:
    f.aliases |= {"tie_word_embeddings": ["tie_embedding"], "intermediate_size": ["block_ff_dim"]}
    s = sizes(f)
    listed = f.optional("full_attn_idxs")
    if listed is not None and not isinstance(listed, list):
        raise ConfigError(f"full_attn_idxs must be a list of layers, not {shown(listed)}")
    types = kinds(f, s["n_layers"], lambda i: FULL if listed is None or i in listed else CONV, (FULL, CONV))
    feed = (Dense(_lfm_width(f, "intermediate_size")),)
    return stacked(s, by_kind(types, {
        CONV: lambda: _conv(f, s["d_model"]), FULL: lambda: (attention(f, s, qk_norm="head"),)}), feed)  # fmt: skip


def lfm2_moe(f: Fields) -> dict[str, Any]:
    f.aliases |= {"tie_word_embeddings": ["tie_embedding"]}
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: "missing", (FULL, CONV))
    if "missing" in types:
        raise ConfigError("layer_types must be given for this architecture to be counted: it has no default")
    n_dense = f.value("num_dense_layers")
    whole("num_dense_layers", n_dense, low=0)
    sparse = [i >= n_dense for i in range(s["n_layers"])]
    return stacked(s, by_kind(types, {
        CONV: lambda: _conv(f, s["d_model"]), FULL: lambda: (attention(f, s, qk_norm="head"),),
    }), chosen(sparse, lambda: experts(f, "num_experts"), lambda: dense(f)))  # fmt: skip


def lfm3(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: FULL if i % 4 == 2 else SLIDING if i % 4 == 0 and i else CONV,
                  (FULL, SLIDING, CONV))  # fmt: skip
    bias = f.flag("attention_bias")
    more: dict[str, Any] = {"qk_norm": "head", "qkv_bias": bias, "o_bias": bias,
                            "gate": "head" if f.flag("use_attention_gate") else None}  # fmt: skip
    return stacked(s, by_kind(types, {
        CONV: lambda: _conv(f, s["d_model"]), FULL: lambda: (attention(f, s, **more),),
        SLIDING: lambda: (attention(f, s, f.size("sliding_window"), **more),),
    }), dense(f), 4 if f.flag("use_sandwich_norm") else 2)  # fmt: skip


def minimax(f: Fields) -> dict[str, Any]:
    """Read MiniMax-Text-01: lightning attention in every other layer, or where layer_types says."""
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: LINEAR if i % 2 else FULL, (LINEAR, FULL))
    f.must_be(None, "sliding_window")
    return stacked(s, by_kind(types, {
        LINEAR: lambda: (Lightning(n_heads=s["n_heads"], head_dim=s["head_dim"]),),
        FULL: lambda: (attention(f, s),),
    }), experts(f, "num_local_experts", "intermediate_size"))  # fmt: skip


def rwkv(f: Fields) -> dict[str, Any]:
    d_model = f.size("hidden_size")
    width = f.size_or(d_model, "attention_hidden_size")
    parts = (TimeMix(head_dim=width, d_model=d_model), ChannelMix(f.size_or(4 * d_model, "intermediate_size")))
    found = _recurrent(f, d_model, 1, width, *parts, n_norms=2, norm_bias=True)
    return found | {"embedding_norm": True}  # the first layer's pre_ln
