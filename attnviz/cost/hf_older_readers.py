"""Readers of config.json for architectures with field names of their own, most of them older than Llama.

As in hf_readers.py, each returns arguments of `ModelConfig`.
"""

from __future__ import annotations

from typing import Any

from attnviz.checks import ConfigError
from attnviz.cost.hf_fields import Fields
from attnviz.cost.hf_readers import PLAIN, biased, kv_heads, multi_head


def chatglm(f: Fields) -> dict[str, Any]:
    """Read GLM-4-9B as first published, with its own field names."""
    f.must_be(True, "rmsnorm")
    n_heads, bias = f.size("num_attention_heads"), f.flag("add_bias_linear")
    return {
        "n_layers": f.size("num_layers"),
        "d_model": f.size("hidden_size"),
        "n_heads": n_heads,
        "n_kv_heads": kv_heads(f, n_heads, "multi_query_group_num") if f.flag("multi_query_attention") else n_heads,
        "head_dim": f.size("kv_channels"),
        "d_ff": f.size("ffn_hidden_size"),
        "vocab_size": f.size("padded_vocab_size"),
        "max_context": f.size("seq_length"),
        "tie_embeddings": f.flag("tie_word_embeddings"),
        "qkv_bias": f.flag("add_qkv_bias") or bias,
        "o_bias": bias,
        "ffn_bias": bias,
    }


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


def gpt2(f: Fields) -> dict[str, Any]:
    f.must_be(False, "add_cross_attention")
    sizes = _gpt(f)
    return sizes | {"position": "learned", "learned_position_rows": sizes["max_context"]}


def gpt_bigcode(f: Fields) -> dict[str, Any]:
    sizes = gpt2(f)
    return sizes | {"n_kv_heads": 1 if f.flag("multi_query") else sizes["n_heads"]}


def gptj(f: Fields) -> dict[str, Any]:
    block = {"qkv_bias": False, "o_bias": False, "lm_head_bias": True, "norms_per_layer": 1, "parallel_block": True}
    return _gpt(f) | block


def gpt_neox(f: Fields) -> dict[str, Any]:
    sizes = multi_head(f)
    return sizes | PLAIN | biased(f) | {"parallel_block": f.flag("use_parallel_residual")}


def opt(f: Fields) -> dict[str, Any]:
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
        "ffn": "relu",
        "qkv_bias": bias,
        "o_bias": bias,
        "ffn_bias": bias,
        "position": "learned",
        "learned_position_rows": n + 2,  # OPT counts positions from 2
    }


def _width(f: Fields) -> int:
    """Read the width, which an older name sets even if the newer one is given."""
    return f.size("hidden_size" if f.config.get("n_embed") is None else "n_embed")


def bloom(f: Fields) -> dict[str, Any]:
    d_model = _width(f)
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


def mpt(f: Fields) -> dict[str, Any]:
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


def falcon(f: Fields) -> dict[str, Any]:
    d_model, n_heads = _width(f), f.size("num_attention_heads", "n_head")
    grouped, parallel = f.flag("new_decoder_architecture"), f.flag("parallel_attn")
    if grouped:
        n_kv_heads = kv_heads(f, n_heads, "num_kv_heads", "n_head_kv")
    else:
        n_kv_heads = 1 if f.flag("multi_query") else n_heads
    bias, n_norms = f.flag("bias"), f.size_or(2 if grouped else 1, "num_ln_in_parallel_attn")
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
        "qkv_bias": bias,
        "o_bias": bias,
        "ffn_bias": bias,
        "norms_per_layer": 1 if parallel and n_norms != 2 else 2,
        "parallel_block": grouped or parallel,
        "position": "alibi" if f.flag("alibi") else "rope",
    }
