"""The Hugging Face architectures that can be counted: the fields of each, their defaults, and their meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnviz.checks import ConfigError, shown, whole
from attnviz.config import MoEConfig
from attnviz.cost.hf_fields import Fields, whole_field

SLIDING, FULL = "sliding_attention", "full_attention"

# ---- shared by several architectures


def _llama(f: Fields) -> dict[str, Any]:
    """Read RMSNorm, SwiGLU, RoPE, one flag for the biases of q, k, v and o and one for those of the feed-forward."""
    bias = f.flag("attention_bias")
    return _usual(f) | {"qkv_bias": bias, "o_bias": bias, "ffn_bias": f.flag("mlp_bias")}


def _usual(f: Fields) -> dict[str, Any]:
    """Read the sizes under the names that most architectures share."""
    n_heads, d_model = f.size("num_attention_heads"), f.size("hidden_size")
    return {
        "n_layers": f.size("num_hidden_layers"),
        "d_model": d_model,
        "n_heads": n_heads,
        "n_kv_heads": _kv_heads(f, n_heads, "num_key_value_heads"),
        "head_dim": f.size_or(_head_dim(d_model, n_heads), "head_dim"),
        "d_ff": f.size("intermediate_size"),
        "vocab_size": f.size("vocab_size"),
        "max_context": f.size("max_position_embeddings", "model_max_length"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
    }


def _kv_heads(f: Fields, n_heads: int, *names: str) -> int:
    """Read the number of KV heads, a divisor of the number of query heads and by default equal to it."""
    n_kv_heads = f.size_or(n_heads, *names)
    if n_heads % n_kv_heads:
        assumed = " (assumed)" * (names[0] in f.assumed)
        raise ConfigError(f"{names[0]} must divide num_attention_heads = {n_heads:,}, and {n_kv_heads:,}{assumed} does "
                          "not")  # fmt: skip
    return n_kv_heads


def _head_dim(d_model: int, n_heads: int) -> int:
    if d_model < n_heads:
        raise ConfigError(f"hidden_size must be at least num_attention_heads = {n_heads:,}, not {d_model:,}")
    return d_model // n_heads


def _biased(f: Fields, name: str = "attention_bias") -> dict[str, Any]:
    """Read one flag for the biases of q, k, v and o."""
    bias = f.flag(name)
    return {"qkv_bias": bias, "o_bias": bias}


def _windowed(f: Fields, n_layers: int, full: Callable[[int], bool] = lambda i: False) -> dict[str, Any]:
    """Read the sliding window and the layers without it: from `layer_types`, else by the architecture's pattern."""
    window = f.size_or(None, "sliding_window")
    if window is None:
        return {}
    if f.config.get("layer_types") is None:
        return {"sliding_window": window, "full_layers": tuple(i for i in range(n_layers) if full(i))}
    types = f.value("layer_types")
    if not isinstance(types, list) or len(types) != n_layers:
        raise ConfigError(f"layer_types must be a list of {n_layers:,} names, one per layer, not {shown(types)}")
    for kind in types:
        if kind not in (SLIDING, FULL):
            raise ConfigError(f"layer_types must be {SLIDING} or {FULL} to be counted, not {shown(kind)}")
    return {"sliding_window": window, "full_layers": tuple(i for i, kind in enumerate(types) if kind == FULL)}


def _every(f: Fields, name: str) -> Callable[[int], bool]:
    """Return the pattern in which every n-th layer has no window."""
    period = f.size(name) if f.config.get("layer_types") is None else 1
    return lambda i: (i + 1) % period == 0


def _alternating(i: int) -> bool:
    """Check whether layer i has no window, in the pattern window, none, window, …"""
    return i % 2 == 1


def _experts(f: Fields, d_ff: int, *number: str, **more: Any) -> MoEConfig:
    """Read a mixture of experts of this width; `number`: names of the field with the number of experts."""
    return MoEConfig(f.size(*number), f.size("num_experts_per_tok", "experts_per_token"), d_ff, **more)


def _some_experts(f: Fields, n_layers: int, d_ff: int, **more: Any) -> MoEConfig:
    """Read Qwen's mixture: every decoder_sparse_step-th layer, except those in mlp_only_layers."""
    step, dense = f.size("decoder_sparse_step"), f.value("mlp_only_layers") or []
    if not isinstance(dense, list) or not all(isinstance(i, int) for i in dense):
        raise ConfigError(f"mlp_only_layers must be a list of layers, not {shown(dense)}")
    n_mixed = len(set(range(step - 1, n_layers, step)) - set(dense))
    more |= {"n_dense_layers": n_layers - n_mixed, "dense_d_ff": f.size("intermediate_size")}
    return _experts(f, f.size("moe_intermediate_size"), "num_experts", "num_local_experts", **more)


LAYER_NORM = {"norm": "layernorm", "norm_bias": True}
PLAIN = {"ffn": "gelu", "ffn_bias": True, "qkv_bias": True, "o_bias": True, **LAYER_NORM}  # GPT-2 and what followed


# ---- one function per architecture


def _mistral(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    return sizes | _windowed(f, sizes["n_layers"])


def _mixtral(f: Fields) -> dict[str, Any]:
    sizes = _mistral(f)
    return sizes | {"moe": _experts(f, sizes["d_ff"], "num_local_experts")}


def _qwen2(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    return sizes | {"qkv_bias": True} | _qwen_window(f, sizes["n_layers"])


def _qwen2_moe(f: Fields) -> dict[str, Any]:
    f.must_be(True, "qkv_bias")
    sizes = _qwen2(f)
    shared, width = f.size("shared_expert_intermediate_size"), f.size("moe_intermediate_size")
    if shared % width:
        raise ConfigError(f"shared_expert_intermediate_size must be a multiple of moe_intermediate_size = {width:,} "
                          f"to be counted, not {shared:,}")  # fmt: skip
    moe = _some_experts(f, sizes["n_layers"], width, n_shared_experts=shared // width)
    n_gates = (sizes["n_layers"] - moe.n_dense_layers) * sizes["d_model"]
    f.uncounted["shared_expert_gate"] = f"the gates of the shared experts, {n_gates:,} parameters"
    return sizes | {"moe": moe}


def _qwen3(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    return sizes | _biased(f) | {"qk_norm": "head"} | _qwen_window(f, sizes["n_layers"])


def _qwen3_moe(f: Fields) -> dict[str, Any]:
    sizes = _usual(f) | _biased(f) | {"qk_norm": "head"}
    if f.flag("use_sliding_window"):
        sizes |= _windowed(f, sizes["n_layers"])
    return sizes | {"moe": _some_experts(f, sizes["n_layers"], sizes["d_ff"])}


def _qwen_window(f: Fields, n_layers: int) -> dict[str, Any]:
    """Read Qwen's window if it is in use; the first max_window_layers have none."""
    if not f.flag("use_sliding_window"):
        return {}
    first = f.value("max_window_layers")
    whole("max_window_layers", first, low=0)
    return _windowed(f, n_layers, lambda i: i < first)


def _smollm3(f: Fields) -> dict[str, Any]:
    f.must_be(False, "use_sliding_window")
    return _llama(f)


def _gemma(f: Fields) -> dict[str, Any]:
    return _usual(f) | _biased(f) | {"ffn": "geglu"}


def _gemma2(f: Fields) -> dict[str, Any]:
    sizes = _gemma(f)
    return sizes | {"norms_per_layer": 4} | _windowed(f, sizes["n_layers"], _alternating)


def _gemma3(f: Fields) -> dict[str, Any]:
    sizes = _gemma(f)
    windows = _windowed(f, sizes["n_layers"], _every(f, _pattern_name(f)))
    return sizes | {"norms_per_layer": 4, "qk_norm": "head"} | windows


def _pattern_name(f: Fields) -> str:
    """Return the name of the field with the windows' period, which changed over time."""
    return "_sliding_window_pattern" if "_sliding_window_pattern" in f.config else "sliding_window_pattern"


def _phi(f: Fields) -> dict[str, Any]:
    f.must_be(False, "qk_layernorm")
    return _usual(f) | PLAIN | {"lm_head_bias": True, "norms_per_layer": 1, "parallel_block": True}


def _stablelm(f: Fields) -> dict[str, Any]:
    f.must_be(False, "qk_layernorm")
    parallel = f.flag("use_parallel_residual")
    one = {"norms_per_layer": 1, "parallel_block": True} if parallel else {}
    return _usual(f) | LAYER_NORM | {"qkv_bias": f.flag("use_qkv_bias")} | one


def _starcoder2(f: Fields) -> dict[str, Any]:
    sizes, bias = _usual(f), f.flag("use_bias")
    return sizes | PLAIN | {"qkv_bias": bias, "o_bias": bias, "ffn_bias": bias} | _windowed(f, sizes["n_layers"])


def _olmo2(f: Fields) -> dict[str, Any]:
    return _usual(f) | _biased(f) | {"qk_norm": "width"}


def _olmo3(f: Fields) -> dict[str, Any]:
    sizes = _olmo2(f)
    return sizes | _windowed(f, sizes["n_layers"], lambda i: (i + 1) % 4 == 0)


def _olmoe(f: Fields) -> dict[str, Any]:
    sizes = _olmo2(f)
    return sizes | {"moe": _experts(f, sizes["d_ff"], "num_experts")}


def _latent(f: Fields) -> dict[str, Any]:
    """Read MLA: a head is as wide as its two parts; num_key_value_heads and head_dim are not used."""
    f.must_be(False, "attention_bias")
    f.must_be(False, "mlp_bias")
    return {
        "attention": "mla",
        "n_layers": f.size("num_hidden_layers"),
        "d_model": f.size("hidden_size"),
        "n_heads": f.size("num_attention_heads"),
        "d_ff": f.size("intermediate_size"),
        "vocab_size": f.size("vocab_size"),
        "max_context": f.size("max_position_embeddings"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
        "q_lora_rank": _rank(f),
        **{name: f.size(name) for name in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")},
    }


def _rank(f: Fields) -> int | None:
    """Read the width of the queries' latent; null if the queries are not compressed."""
    rank = f.value("q_lora_rank")
    if rank is not None:
        whole_field("q_lora_rank", rank)
    return rank


def _deepseek(f: Fields) -> dict[str, Any]:
    """Read MLA with a mixture of experts after the first dense layers."""
    f.must_be(1, "moe_layer_freq")
    sizes = _latent(f)
    n_dense, n_shared = f.value("first_k_dense_replace"), f.value("n_shared_experts")
    whole("first_k_dense_replace", n_dense, low=0)
    whole("n_shared_experts", n_shared or 0, low=0)
    moe = _experts(
        f, f.size("moe_intermediate_size"), "n_routed_experts", n_shared_experts=n_shared or 0,
        n_dense_layers=min(n_dense, sizes["n_layers"]), dense_d_ff=sizes["d_ff"],
    )  # fmt: skip
    return sizes | {"moe": moe}


def _deepseek_v3(f: Fields) -> dict[str, Any]:
    """Read MLA with a mixture whose load a bias per expert balances: a buffer, as in transformers."""
    sizes = _deepseek(f)
    n = (sizes["n_layers"] - sizes["moe"].n_dense_layers) * sizes["moe"].n_routed_experts
    f.uncounted["n_routed_experts"] = f"the {n:,} numbers that balance the experts, which are buffers"
    return sizes


def _gpt_oss(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    moe = _experts(f, sizes["d_ff"], "num_local_experts", "num_experts", router_bias=True, expert_bias=True)
    windows = _windowed(f, sizes["n_layers"], _alternating)
    return sizes | _biased(f) | {"moe": moe, "ffn_bias": True, "attention_sinks": True} | windows


def _glm(f: Fields) -> dict[str, Any]:
    return _usual(f) | {"qkv_bias": f.flag("attention_bias")}


def _glm4(f: Fields) -> dict[str, Any]:
    return _glm(f) | {"norms_per_layer": 4}


def _chatglm(f: Fields) -> dict[str, Any]:
    """Read GLM-4-9B as first published, with its own field names."""
    f.must_be(True, "rmsnorm")
    n_heads, bias = f.size("num_attention_heads"), f.flag("add_bias_linear")
    return {
        "n_layers": f.size("num_layers"),
        "d_model": f.size("hidden_size"),
        "n_heads": n_heads,
        "n_kv_heads": _kv_heads(f, n_heads, "multi_query_group_num") if f.flag("multi_query_attention") else n_heads,
        "head_dim": f.size("kv_channels"),
        "d_ff": f.size("ffn_hidden_size"),
        "vocab_size": f.size("padded_vocab_size"),
        "max_context": f.size("seq_length"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
        "qkv_bias": f.flag("add_qkv_bias") or bias,
        "o_bias": bias,
        "ffn_bias": bias,
    }


def _cohere(f: Fields) -> dict[str, Any]:
    qk_norm = "width" if f.flag("use_qk_norm") else None  # per head, with separate weights: as many as the width
    return _usual(f) | _biased(f) | {"norm": "layernorm", "norms_per_layer": 1, "parallel_block": True,
                                     "qk_norm": qk_norm}  # fmt: skip


def _cohere2(f: Fields) -> dict[str, Any]:
    sizes = _usual(f) | _biased(f) | {"norm": "layernorm", "norms_per_layer": 1, "parallel_block": True}
    return sizes | _windowed(f, sizes["n_layers"], _every(f, _pattern_name(f)))


def _ernie(f: Fields) -> dict[str, Any]:
    return _usual(f) | _biased(f, "use_bias") | {"ffn_bias": f.flag("use_bias")}


def _seed_oss(f: Fields) -> dict[str, Any]:
    return _usual(f) | {"qkv_bias": f.flag("attention_bias"), "o_bias": f.flag("attention_out_bias"),
                        "ffn_bias": f.flag("mlp_bias")}  # fmt: skip


def _gpt(f: Fields) -> dict[str, Any]:
    """Read the sizes under GPT-2's names."""
    d_model = f.size("n_embd", "hidden_size")
    return {
        "n_layers": f.size("n_layer", "num_hidden_layers"),
        "d_model": d_model,
        "n_heads": f.size("n_head", "num_attention_heads"),
        "d_ff": f.size_or(4 * d_model, "n_inner"),
        "vocab_size": f.size("vocab_size"),
        "max_context": f.size("n_positions", "max_position_embeddings"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
        **PLAIN,
    }


def _gpt2(f: Fields) -> dict[str, Any]:
    f.must_be(False, "add_cross_attention")
    sizes = _gpt(f)
    return sizes | {"position": "learned", "learned_position_rows": sizes["max_context"]}


def _gpt_bigcode(f: Fields) -> dict[str, Any]:
    sizes = _gpt2(f)
    return sizes | {"n_kv_heads": 1 if f.flag("multi_query") else sizes["n_heads"]}


def _gptj(f: Fields) -> dict[str, Any]:
    block = {"qkv_bias": False, "o_bias": False, "lm_head_bias": True, "norms_per_layer": 1, "parallel_block": True}
    return _gpt(f) | block


def _gpt_neox(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    return sizes | PLAIN | _biased(f) | {"parallel_block": f.flag("use_parallel_residual")}


def _opt(f: Fields) -> dict[str, Any]:
    f.must_be(True, "do_layer_norm_before")
    d_model, bias, n = f.size("hidden_size"), f.flag("enable_bias"), f.size("max_position_embeddings")
    f.must_be(d_model, "word_embed_proj_dim")
    f.must_be(True, "layer_norm_elementwise_affine")
    return {
        "n_layers": f.size("num_hidden_layers"),
        "d_model": d_model,
        "n_heads": f.size("num_attention_heads"),
        "d_ff": f.size("ffn_dim"),
        "vocab_size": f.size("vocab_size"),
        "max_context": n,
        "tie_embeddings": f.flag("tie_word_embeddings"),
        **PLAIN,
        **{"ffn": "relu", "qkv_bias": bias, "o_bias": bias, "ffn_bias": bias},
        "position": "learned",
        "learned_position_rows": n + 2,  # OPT counts positions from 2
    }


def _bloom(f: Fields) -> dict[str, Any]:
    d_model = f.size("hidden_size", "n_embed")
    return {
        "n_layers": f.size("n_layer", "num_hidden_layers"),
        "d_model": d_model,
        "n_heads": f.size("n_head", "num_attention_heads"),
        "d_ff": 4 * d_model,
        "vocab_size": f.size("vocab_size"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
        **PLAIN,
        "embedding_norm": True,
        "position": "alibi",
    }


def _mpt(f: Fields) -> dict[str, Any]:
    f.must_be(True, "no_bias")
    attention = f.config.get("attn_config") or {}
    if not isinstance(attention, dict) or attention.get("alibi", True) is not True:
        raise ConfigError("attn_config must say alibi true for this architecture to be counted")
    d_model = f.size("d_model")
    return {
        "n_layers": f.size("n_layers"),
        "d_model": d_model,
        "n_heads": f.size("n_heads"),
        "d_ff": f.size("expansion_ratio") * d_model,
        "vocab_size": f.size("vocab_size"),
        "max_context": f.size("max_seq_len"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
        "ffn": "gelu",
        "norm": "layernorm",
        "position": "alibi",
    }


def _falcon(f: Fields) -> dict[str, Any]:
    d_model, n_heads = f.size("hidden_size"), f.size("num_attention_heads", "n_head")
    grouped, parallel = f.flag("new_decoder_architecture"), f.flag("parallel_attn")
    if grouped:
        n_kv_heads = _kv_heads(f, n_heads, "num_kv_heads", "n_head_kv")
        f.must_be(2, "num_ln_in_parallel_attn")
    else:
        n_kv_heads = 1 if f.flag("multi_query") else n_heads
    bias = f.flag("bias")
    return {
        "n_layers": f.size("num_hidden_layers", "n_layer"),
        "d_model": d_model,
        "n_heads": n_heads,
        "n_kv_heads": n_kv_heads,
        "d_ff": f.size_or(4 * d_model, "ffn_hidden_size"),
        "vocab_size": f.size("vocab_size"),
        "max_context": f.size("max_position_embeddings"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
        **PLAIN,
        **{"qkv_bias": bias, "o_bias": bias, "ffn_bias": bias},
        "norms_per_layer": 1 if parallel and not grouped else 2,
        "parallel_block": grouped or parallel,
        "position": "alibi" if f.flag("alibi") else "rope",
    }


# ---- the architectures: the reader of each, and the defaults of transformers' configuration classes


@dataclass(frozen=True)
class Architecture:
    """One `model_type`. A field without a default is required; the default of head_dim is computed."""

    read: Callable[[Fields], dict[str, Any]]
    defaults: dict[str, Any]


def _defaults(
    vocab: int, width: int, d_ff: int, layers: int, heads: int, kv_heads: int | None, context: int,
    tied: bool = False, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return defaults of the fields that most architectures share; kv_heads None: as many as query heads."""
    return {
        "vocab_size": vocab, "hidden_size": width, "intermediate_size": d_ff, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": context,
        "tie_word_embeddings": tied, **more,
    }  # fmt: skip


UNBIASED = {"attention_bias": False, "mlp_bias": False}
NO_WINDOW: dict[str, Any] = {"use_sliding_window": False, "sliding_window": None, "max_window_layers": 28}
SPARSE: dict[str, Any] = {"decoder_sparse_step": 1, "mlp_only_layers": ()}
GPT = {"n_inner": None, "tie_word_embeddings": True}
FULL_MHA = _defaults(32000, 4096, 11008, 32, 32, None, 2048)
DEEPSEEK_V3 = _defaults(
    129280, 7168, 18432, 61, 128, None, 4096, moe_intermediate_size=2048, n_shared_experts=1, n_routed_experts=256,
    kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, v_head_dim=128, qk_nope_head_dim=128,
    num_experts_per_tok=8, first_k_dense_replace=3,
)  # fmt: skip
DEEPSEEK_V2 = _defaults(
    102400, 4096, 11008, 32, 32, None, 2048, moe_intermediate_size=1407, n_shared_experts=2, n_routed_experts=64,
    kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, v_head_dim=128, qk_nope_head_dim=128,
    first_k_dense_replace=0,
)  # fmt: skip
MINICPM3 = _defaults(
    73448, 2560, 6400, 62, 40, None, 32768, True, kv_lora_rank=256, q_lora_rank=768, qk_nope_head_dim=64,
    qk_rope_head_dim=32, v_head_dim=64,
)  # fmt: skip

ARCHITECTURES = {
    "llama": Architecture(_llama, FULL_MHA | UNBIASED),
    "granite": Architecture(_llama, FULL_MHA | UNBIASED),
    "smollm3": Architecture(_smollm3, _defaults(128256, 2048, 11008, 36, 16, 4, 32768, True, **UNBIASED)),
    "mistral": Architecture(_mistral, _defaults(32000, 4096, 14336, 32, 32, 8, 131072, sliding_window=4096)),
    "ministral": Architecture(_mistral, _defaults(32000, 4096, 14336, 32, 32, 8, 131072, sliding_window=4096)),
    "mixtral": Architecture(_mixtral, _defaults(
        32000, 4096, 14336, 32, 32, 8, 131072, sliding_window=None, num_local_experts=8, num_experts_per_tok=2)),
    "qwen2": Architecture(_qwen2, _defaults(151936, 4096, 22016, 32, 32, 32, 32768, **NO_WINDOW)),
    "qwen2_moe": Architecture(_qwen2_moe, _defaults(
        151936, 2048, 5632, 24, 16, 16, 32768, moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
        num_experts_per_tok=4, num_experts=60, **NO_WINDOW, **SPARSE)),
    "qwen3": Architecture(_qwen3, _defaults(
        151936, 4096, 22016, 32, 32, 32, 32768, head_dim=128, attention_bias=False, **NO_WINDOW)),
    "qwen3_moe": Architecture(_qwen3_moe, _defaults(
        151936, 2048, 6144, 24, 32, 4, 32768, attention_bias=False, use_sliding_window=False, sliding_window=None,
        moe_intermediate_size=768, num_experts_per_tok=8, num_experts=128, **SPARSE)),
    "gemma": Architecture(_gemma, _defaults(
        256000, 3072, 24576, 28, 16, 16, 8192, True, head_dim=256, attention_bias=False)),
    "gemma2": Architecture(_gemma2, _defaults(
        256000, 2304, 9216, 26, 8, 4, 8192, True, head_dim=256, attention_bias=False, sliding_window=4096)),
    "gemma3_text": Architecture(_gemma3, _defaults(
        262208, 2304, 9216, 26, 8, 4, 131072, True, head_dim=256, attention_bias=False, sliding_window=4096,
        sliding_window_pattern=6)),
    "phi": Architecture(_phi, _defaults(51200, 2048, 8192, 24, 32, None, 2048)),
    "phi3": Architecture(_mistral, _defaults(32064, 3072, 8192, 32, 32, None, 4096, sliding_window=None)),
    "stablelm": Architecture(_stablelm, _defaults(
        50304, 2560, 6912, 32, 32, 32, 4096, use_qkv_bias=False, use_parallel_residual=False)),
    "starcoder2": Architecture(_starcoder2, _defaults(
        49152, 3072, 12288, 30, 24, 2, 4096, True, use_bias=True, sliding_window=None)),
    "olmo2": Architecture(_olmo2, _defaults(50304, 4096, 11008, 32, 32, None, 2048, attention_bias=False)),
    "olmo3": Architecture(_olmo3, _defaults(
        50304, 4096, 11008, 32, 32, None, 2048, attention_bias=False, sliding_window=4096)),
    "olmoe": Architecture(_olmoe, _defaults(
        50304, 2048, 2048, 16, 16, None, 4096, attention_bias=False, num_experts_per_tok=8, num_experts=64)),
    "deepseek_v2": Architecture(_deepseek, DEEPSEEK_V2),
    "deepseek_v3": Architecture(_deepseek_v3, DEEPSEEK_V3),
    "minicpm3": Architecture(_latent, MINICPM3),
    "gpt_oss": Architecture(_gpt_oss, _defaults(
        201088, 2880, 2880, 36, 64, 8, 131072, head_dim=64, attention_bias=True, sliding_window=128,
        num_local_experts=128, num_experts_per_tok=4)),
    "glm": Architecture(_glm, _defaults(
        151552, 4096, 13696, 40, 32, 2, 131072, head_dim=128, attention_bias=True)),
    "glm4": Architecture(_glm4, _defaults(
        151552, 4096, 13696, 40, 32, 2, 131072, head_dim=128, attention_bias=True)),
    "chatglm": Architecture(_chatglm, {
        "tie_word_embeddings": False, "add_bias_linear": False, "add_qkv_bias": False, "multi_query_attention": False}),
    "cohere": Architecture(_cohere, _defaults(
        256000, 8192, 22528, 40, 64, None, 8192, True, attention_bias=False, use_qk_norm=False)),
    "cohere2": Architecture(_cohere2, _defaults(
        256000, 8192, 22528, 40, 64, None, 8192, True, attention_bias=False, sliding_window=4096,
        sliding_window_pattern=4)),
    "ernie4_5": Architecture(_ernie, _defaults(103424, 1024, 3072, 18, 16, 2, 131072, True, head_dim=128,
                                               use_bias=False)),
    "seed_oss": Architecture(_seed_oss, _defaults(
        155136, 4096, 27648, 64, 80, 8, 524288, head_dim=128, attention_bias=True, attention_out_bias=False,
        mlp_bias=False)),
    "gpt2": Architecture(_gpt2, GPT | {
        "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}),
    "gpt_bigcode": Architecture(_gpt_bigcode, GPT | {
        "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "multi_query": True}),
    "gptj": Architecture(_gptj, GPT | {
        "vocab_size": 50400, "n_positions": 2048, "n_embd": 4096, "n_layer": 28, "n_head": 16,
        "tie_word_embeddings": False}),
    "gpt_neox": Architecture(_gpt_neox, _defaults(
        50432, 6144, 24576, 44, 64, None, 2048, attention_bias=True, use_parallel_residual=True)),
    "opt": Architecture(_opt, {
        "vocab_size": 50272, "hidden_size": 768, "num_hidden_layers": 12, "ffn_dim": 3072,
        "max_position_embeddings": 2048, "num_attention_heads": 12, "enable_bias": True, "tie_word_embeddings": True}),
    "bloom": Architecture(_bloom, {
        "vocab_size": 250880, "hidden_size": 64, "n_layer": 2, "n_head": 8, "tie_word_embeddings": True}),
    "mpt": Architecture(_mpt, {
        "vocab_size": 50368, "d_model": 2048, "n_heads": 16, "n_layers": 24, "expansion_ratio": 4, "max_seq_len": 2048,
        "tie_word_embeddings": True}),
    "falcon": Architecture(_falcon, {
        "vocab_size": 65024, "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "alibi": False,
        "new_decoder_architecture": False, "multi_query": True, "parallel_attn": True, "bias": False,
        "max_position_embeddings": 2048, "tie_word_embeddings": True}),
}  # fmt: skip
LLAMA_FIELDS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size",
                "rms_norm_eps")  # fmt: skip
LLAMA_LIKE = Architecture(_llama, UNBIASED | {"num_key_value_heads": None, "tie_word_embeddings": False})
UNLIKE_LLAMA = (  # in the names of fields
    "expert", "moe", "lora_rank", "mamba", "ssm", "conv", "linear_", "layer_norm", "layernorm", "qk_norm", "no_bias",
    "type_vocab", "encoder_layers", "cross_attention", "kv_shared", "laurel", "altup", "window_pattern", "vq_config",
    "lambda_std",
)  # fmt: skip
NO_LLAMAS = ("exaone4", "hunyuan_v1_dense", "chameleon", "eurobert")  # their code differs where no field says so
ALIASES = {  # other model types with the same decoder
    "kimi_k2": "deepseek_v3", "gemma3": "gemma3_text", "qwen2_vl": "qwen2", "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe",
    "mistral3": "mistral", "llava": "llama", "llava_next": "llama",
}  # fmt: skip
CLASSES = {  # class name in `architectures`, used if no model_type is given
    name.replace("_", "").removesuffix("text"): name for name in ARCHITECTURES
} | {"gptneox": "gpt_neox", "gptbigcode": "gpt_bigcode", "rw": "falcon"}


def unlike_llama(name: str, decoder: dict) -> str:
    """Return how an architecture differs from Llama: "it has a sliding window, and Llama has none"; "" if no field of
    its config.json says so."""
    if name in NO_LLAMAS:
        return "it normalises queries and keys or is no decoder, which its fields do not say"
    if missing := [field for field in LLAMA_FIELDS if field not in decoder]:
        return f"it lacks {missing[0]}"
    for field, value in decoder.items():
        other_bias = field.endswith("bias") and field not in UNBIASED and value is True
        if value and (other_bias or any(part in field for part in UNLIKE_LLAMA)):
            return f"Llama has no field {field}"
    if decoder.get("hidden_act", "silu") not in ("silu", "swish"):
        return f"hidden_act is {shown(decoder['hidden_act'])}, and in Llama it is 'silu'"
    if decoder.get("sliding_window") is not None and decoder.get("use_sliding_window") is not False:
        return "it has a sliding window, and Llama has none"
    kinds = decoder.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        return "layer_types names layers other than full_attention"
    return ""
