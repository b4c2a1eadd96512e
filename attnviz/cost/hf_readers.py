"""Readers of config.json, one per architecture: what its fields say of the model's sizes, biases, norms and layers.

Each returns arguments of `ModelConfig`; hf_architectures.py says which architecture has which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnviz.checks import ConfigError, shown, whole
from attnviz.config import MoEConfig
from attnviz.cost.hf_fields import Fields, whole_field
from attnviz.cost.hf_layer_kinds import FULL, SLIDING

# ---- shared by several architectures


def llama(f: Fields) -> dict[str, Any]:
    """Read RMSNorm, SwiGLU, RoPE, one flag for the biases of q, k, v and o and one for those of the feed-forward."""
    bias = f.flag("attention_bias")
    return _usual(f) | {"qkv_bias": bias, "o_bias": bias, "ffn_bias": f.flag("mlp_bias")}


def _usual(f: Fields) -> dict[str, Any]:
    """Read the sizes under the names that most architectures share."""
    sizes = _divided(f)
    return sizes | {"head_dim": f.size_or(sizes["head_dim"], "head_dim")}


def _divided(f: Fields) -> dict[str, Any]:
    """Read the sizes of an architecture whose heads always divide the width, whatever head_dim says."""
    sizes = multi_head(f)
    return sizes | {"n_kv_heads": kv_heads(f, sizes["n_heads"], "num_key_value_heads")}


def multi_head(f: Fields) -> dict[str, Any]:
    """Read the sizes of an architecture whose heads divide the width, with as many KV heads as query heads."""
    n_heads, d_model = f.size("num_attention_heads"), f.size("hidden_size")
    return {
        "n_layers": f.size("num_hidden_layers"),
        "d_model": d_model,
        "n_heads": n_heads,
        "head_dim": _head_dim(d_model, n_heads),
        "d_ff": f.size("intermediate_size"),
        "vocab_size": f.size("vocab_size"),
        "max_context": f.size("max_position_embeddings", "model_max_length"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
    }


def kv_heads(f: Fields, n_heads: int, *names: str) -> int:
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


def biased(f: Fields, name: str = "attention_bias") -> dict[str, Any]:
    """Read one flag for the biases of q, k, v and o."""
    bias = f.flag(name)
    return {"qkv_bias": bias, "o_bias": bias}


def _windowed_throughout(f: Fields) -> dict[str, Any]:
    """Read the sliding window of an architecture whose layers all have it: transformers ignores its `layer_types`."""
    window = f.size_or(None, "sliding_window")
    return {} if window is None else {"sliding_window": window}


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


def mistral(f: Fields) -> dict[str, Any]:
    return _usual(f) | _windowed_throughout(f)


def ministral(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    return sizes | _windowed(f, sizes["n_layers"])


def mixtral(f: Fields) -> dict[str, Any]:
    sizes = mistral(f)
    return sizes | {"moe": _experts(f, sizes["d_ff"], "num_local_experts")}


def granite_moe(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    return sizes | biased(f) | {"moe": _experts(f, sizes["d_ff"], "num_local_experts")}


def phi_moe(f: Fields) -> dict[str, Any]:
    """Read Phi-3.5-MoE: Mixtral's mixture with biases in attention and layer norms."""
    return mixtral(f) | biased(f) | LAYER_NORM | {"lm_head_bias": f.flag("lm_head_bias")}


def minimax_m2(f: Fields) -> dict[str, Any]:
    """Read MiniMax-M2: a norm over the whole width of q and of k, and experts balanced by biases."""
    f.must_be(True, "use_qk_norm")
    f.must_be("per_layer", "qk_norm_type")
    f.must_be(0, "shared_intermediate_size")
    sizes = _usual(f) | {"qk_norm": "width"}
    sizes |= {"moe": _experts(f, sizes["d_ff"], "num_local_experts", "num_experts")}
    _balanced(f, sizes)
    return sizes


def qwen2(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    return sizes | {"qkv_bias": True} | _qwen_window(f, sizes["n_layers"], lambda i, first: i < first)


def qwen2_moe(f: Fields) -> dict[str, Any]:
    """Read Qwen's first mixture, in which every other layer of the first max_window_layers has a window."""
    f.must_be(True, "qkv_bias")
    sizes = _usual(f) | {"qkv_bias": True}
    sizes |= _qwen_window(f, sizes["n_layers"], lambda i, first: i >= first or _alternating(i))
    shared = f.size("shared_expert_intermediate_size")
    moe = _some_experts(f, sizes["n_layers"], sizes["d_ff"], shared_d_ff=shared, shared_gate=True)
    return sizes | {"moe": moe}


def qwen3(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    windows = _qwen_window(f, sizes["n_layers"], lambda i, first: i < first)
    return sizes | biased(f) | {"qk_norm": "head"} | windows


def qwen3_moe(f: Fields) -> dict[str, Any]:
    sizes = _usual(f) | biased(f) | {"qk_norm": "head"}
    if f.flag("use_sliding_window"):
        sizes |= _windowed_throughout(f)
    return sizes | {"moe": _some_experts(f, sizes["n_layers"], sizes["d_ff"])}


def _qwen_window(f: Fields, n_layers: int, full: Callable[[int, int], bool]) -> dict[str, Any]:
    """Read Qwen's window if it is in use; full: whether layer i has none, given max_window_layers."""
    if not f.flag("use_sliding_window"):
        return {}
    return _windowed(f, n_layers, lambda i: full(i, _first_windowed(f)))


def _first_windowed(f: Fields) -> int | Any:
    """Read the number of layers before the first with a window."""
    first = f.value("max_window_layers")
    whole("max_window_layers", first, low=0)
    return first


def smollm3(f: Fields) -> dict[str, Any]:
    f.must_be(False, "use_sliding_window")
    return llama(f)


def gemma(f: Fields) -> dict[str, Any]:
    return _usual(f) | biased(f) | {"ffn": "geglu"}


def gemma2(f: Fields) -> dict[str, Any]:
    sizes = gemma(f)
    return sizes | {"norms_per_layer": 4} | _windowed(f, sizes["n_layers"], _alternating)


def gemma3(f: Fields) -> dict[str, Any]:
    sizes = gemma(f)
    windows = _windowed(f, sizes["n_layers"], _every(f, _pattern_name(f)))
    return sizes | {"norms_per_layer": 4, "qk_norm": "head"} | windows


def _pattern_name(f: Fields) -> str:
    """Return the name of the field with the windows' period, which changed over time."""
    older = "_sliding_window_pattern"
    return older if older in f.config and "sliding_window_pattern" not in f.config else "sliding_window_pattern"


def phi(f: Fields) -> dict[str, Any]:
    f.must_be(False, "qk_layernorm")
    return _usual(f) | PLAIN | {"lm_head_bias": True, "norms_per_layer": 1, "parallel_block": True}


def stablelm(f: Fields) -> dict[str, Any]:
    f.must_be(False, "qk_layernorm")
    parallel = f.flag("use_parallel_residual")
    one = {"norms_per_layer": 1, "parallel_block": True} if parallel else {}
    return _divided(f) | LAYER_NORM | {"qkv_bias": f.flag("use_qkv_bias")} | one


def starcoder2(f: Fields) -> dict[str, Any]:
    sizes, bias = _usual(f), f.flag("use_bias")
    return sizes | PLAIN | {"qkv_bias": bias, "o_bias": bias, "ffn_bias": bias} | _windowed_throughout(f)


def olmo2(f: Fields) -> dict[str, Any]:
    return _usual(f) | biased(f) | {"qk_norm": "width"}


def olmo3(f: Fields) -> dict[str, Any]:
    sizes = olmo2(f)
    return sizes | _windowed(f, sizes["n_layers"], lambda i: (i + 1) % 4 == 0)


def olmoe(f: Fields) -> dict[str, Any]:
    sizes = olmo2(f)
    f.must_be(_head_dim(sizes["d_model"], sizes["n_heads"]), "head_dim")  # with another, its norms do not fit q and k
    return sizes | {"moe": _experts(f, sizes["d_ff"], "num_experts")}


def latent(f: Fields) -> dict[str, Any]:
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


def deepseek(f: Fields) -> dict[str, Any]:
    """Read MLA with a mixture of experts after the first dense layers."""
    f.must_be(1, "moe_layer_freq")
    sizes = latent(f)
    return sizes | {"moe": _experts_after_dense(f, sizes)}


def deepseek_v3(f: Fields) -> dict[str, Any]:
    """Read MLA with a mixture whose load a bias per expert balances."""
    sizes = deepseek(f)
    _balanced(f, sizes)
    return sizes


def _experts_after_dense(f: Fields, sizes: dict[str, Any]) -> MoEConfig:
    """Read the mixture of all layers but the first, dense ones."""
    n_dense, n_shared = f.value("first_k_dense_replace"), f.value("n_shared_experts")
    whole("first_k_dense_replace", n_dense, low=0)
    whole("n_shared_experts", n_shared or 0, low=0)
    return _experts(
        f, f.size("moe_intermediate_size"), "n_routed_experts", n_shared_experts=n_shared or 0,
        n_dense_layers=min(n_dense, sizes["n_layers"]), dense_d_ff=sizes["d_ff"],
    )  # fmt: skip


def _balanced(f: Fields, sizes: dict[str, Any]) -> None:
    """Say that the biases which balance the experts' load are not counted: buffers, as in transformers."""
    n = (sizes["n_layers"] - sizes["moe"].n_dense_layers) * sizes["moe"].n_routed_experts
    f.uncounted["n_routed_experts"] = f"the {n:,} numbers that balance the experts, which are buffers"


def gpt_oss(f: Fields) -> dict[str, Any]:
    sizes = _usual(f)
    moe = _experts(f, sizes["d_ff"], "num_local_experts", "num_experts", router_bias=True, expert_bias=True)
    windows = _windowed(f, sizes["n_layers"], _alternating)
    return sizes | biased(f) | {"moe": moe, "ffn_bias": True, "attention_sinks": True} | windows


def glm(f: Fields) -> dict[str, Any]:
    return _usual(f) | {"qkv_bias": f.flag("attention_bias")}


def glm4(f: Fields) -> dict[str, Any]:
    return glm(f) | {"norms_per_layer": 4}


def glm4_moe(f: Fields) -> dict[str, Any]:
    """Read GLM-4.5 and its successors: grouped heads with DeepSeek-V3's mixture."""
    sizes = glm(f) | {"qk_norm": "head" if f.flag("use_qk_norm") else None}
    sizes |= {"moe": _experts_after_dense(f, sizes)}
    _balanced(f, sizes)
    return sizes


def dots1(f: Fields) -> dict[str, Any]:
    """Read dots.llm1: grouped heads with DeepSeek-V3's mixture, and a window from layer max_window_layers on."""
    sizes = _usual(f) | biased(f) | {"qk_norm": "head"}
    sizes |= _windowed(f, sizes["n_layers"], lambda i: i < _first_windowed(f))
    sizes |= {"moe": _experts_after_dense(f, sizes)}
    _balanced(f, sizes)
    return sizes


def cohere(f: Fields) -> dict[str, Any]:
    qk_norm = "width" if f.flag("use_qk_norm") else None  # per head, with separate weights: as many as the width
    return _usual(f) | biased(f) | {"norm": "layernorm", "norms_per_layer": 1, "parallel_block": True,
                                     "qk_norm": qk_norm}  # fmt: skip


def cohere2(f: Fields) -> dict[str, Any]:
    sizes = _usual(f) | biased(f) | {"norm": "layernorm", "norms_per_layer": 1, "parallel_block": True}
    return sizes | _windowed(f, sizes["n_layers"], _every(f, _pattern_name(f)))


def ernie(f: Fields) -> dict[str, Any]:
    return _usual(f) | biased(f, "use_bias") | {"ffn_bias": f.flag("use_bias")}


def ernie_moe(f: Fields) -> dict[str, Any]:
    """Read Ernie 4.5's mixture; unlike DeepSeek-V3's, the biases that balance its experts are parameters."""
    f.must_be(False, "use_bias")
    f.must_be(1, "moe_layer_interval")
    sizes, n_dense, n_shared = _usual(f), f.value("moe_layer_start_index"), f.value("moe_num_shared_experts")
    if f.config.get("moe_layer_end_index") != -1:
        f.must_be(sizes["n_layers"] - 1, "moe_layer_end_index")
    whole("moe_layer_start_index", n_dense, low=0)
    whole("moe_num_shared_experts", n_shared, low=0)
    moe = MoEConfig(
        f.size("moe_num_experts", "num_experts"), f.size("moe_k", "num_experts_per_tok"),
        f.size("moe_intermediate_size"), n_shared_experts=n_shared, n_dense_layers=min(n_dense, sizes["n_layers"]),
        dense_d_ff=sizes["d_ff"], router_bias=True,
    )  # fmt: skip
    return sizes | {"moe": moe}


def seed_oss(f: Fields) -> dict[str, Any]:
    return _usual(f) | {"qkv_bias": f.flag("attention_bias"), "o_bias": f.flag("attention_out_bias"),
                        "ffn_bias": f.flag("mlp_bias")}  # fmt: skip
