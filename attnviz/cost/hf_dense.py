"""Readers of decoders with attention in each layer and one feed-forward, in the form of layers."""

from __future__ import annotations

from typing import Any

from attnviz.checks import ConfigError
from attnviz.cost.hf_fields import Fields
from attnviz.cost.hf_layer_kinds import FULL, SLIDING, every, kinds
from attnviz.cost.hf_layers import Parts, attention, dense, optional_size, sizes, stacked, windowed
from attnviz.mechanisms import Dense, Other, letter


def everywhere(f: Fields, s: dict[str, Any], **more: Any) -> list[Parts]:
    """Return the same attention for all layers."""
    return [(attention(f, s, **more),)] * s["n_layers"]


def biases(f: Fields, name: str = "attention_bias") -> dict[str, Any]:
    bias = f.flag(name)
    return {"qkv_bias": bias, "o_bias": bias}


def apertus(f: Fields) -> dict[str, Any]:
    """Read Apertus, whose activation xIELU has two learned numbers per layer."""
    f.must_be("xielu", "hidden_act")
    s = sizes(f)
    numbers = Other("activation", None, letter("F", 2, "numbers of the activation"))
    return stacked(s, everywhere(f, s, qk_norm="head", **biases(f)), (*dense(f, gated=False), numbers))


def arcee(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, everywhere(f, s, **biases(f)), dense(f, gated=False, bias=f.flag("mlp_bias")))


def jais2(f: Fields) -> dict[str, Any]:
    return arcee(f) | {"norm": "layernorm", "norm_bias": True}


def nemotron(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    found = stacked(s, everywhere(f, s, **biases(f)), dense(f, gated=False, bias=f.flag("mlp_bias")))
    return found | {"norm": "layernorm", "norm_bias": True}


def bitnet(f: Fields) -> dict[str, Any]:
    """Read BitNet, which normalises also before the output projection and inside the feed-forward."""
    s = sizes(f)
    inner = Other("norms inside", None, letter("C", s["d_model"]) + letter("F", f.size("intermediate_size")))
    return stacked(s, everywhere(f, s, **biases(f)), (*dense(f), inner))


def cwm(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: SLIDING if i % 4 else FULL, (FULL, SLIDING))
    return stacked(s, windowed(f, s, types), dense(f, bias=f.flag("mlp_bias")))


def diffllama(f: Fields) -> dict[str, Any]:
    """Read DiffLlama: differential attention, the difference of two maps weighted by a learned λ."""
    s = sizes(f)
    lambdas = Other("λ of the difference", None, 4 * letter("D", s["head_dim"]))
    return stacked(s, everywhere(f, s, **biases(f)), (*dense(f), lambdas))


def exaone4(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, exaone_mixers(f, s), dense(f))


def exaone_mixers(f: Fields, s: dict[str, Any]) -> list[Parts]:
    window, period = optional_size(f, "sliding_window"), f.optional("sliding_window_pattern")
    if isinstance(period, str) and period and not set(period) - {"L", "G"}:  # local and global layers
        pattern = {"L": SLIDING, "G": FULL}
        types = kinds(f, s["n_layers"], lambda i: pattern[period[i % len(period)]], (FULL, SLIDING))
        return windowed(f, s, types, qk_norm="head")
    otherwise = every(f.size("sliding_window_pattern")) if window and period else lambda i: FULL
    types = kinds(f, s["n_layers"], otherwise, (FULL, SLIDING))
    return windowed(f, s, types, qk_norm="head")


def granite_swa(f: Fields) -> dict[str, Any]:
    """Read Granite with windows and a learned sink logit per head."""
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: SLIDING if i % 4 else FULL, (FULL, SLIDING))
    return stacked(s, windowed(f, s, types, sink_logits=True, **biases(f)), dense(f, bias=f.flag("mlp_bias")))


def helium(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    if s["n_heads"] * s["head_dim"] != s["d_model"]:
        raise ConfigError("num_attention_heads · head_dim must be hidden_size for this architecture to be counted")
    return stacked(s, everywhere(f, s, qkv_bias=f.flag("attention_bias")), dense(f, bias=f.flag("mlp_bias")))


def internlm3(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, everywhere(f, s, **biases(f)), dense(f, bias=f.flag("mlp_bias")))


def iquestcoder(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, everywhere(f, s, **biases(f)), dense(f, bias=f.flag("mlp_bias")))


def ministral3(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    window = optional_size(f, "sliding_window")
    return stacked(s, [(attention(f, s, window),)] * s["n_layers"], dense(f))


def hunyuan(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    return stacked(s, everywhere(f, s, qk_norm="head", **biases(f)), dense(f))


def hyperclovax(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    n_norms = 4 if f.flag("use_post_norm") else 2
    return stacked(s, everywhere(f, s, **biases(f)), dense(f, bias=f.flag("mlp_bias")), n_norms)


def nanochat(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    found = stacked(s, everywhere(f, s, **biases(f)), dense(f, gated=False))
    return found | {"norm_weights": False}


def olmo(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    found = stacked(s, everywhere(f, s, **biases(f)), dense(f))
    return found | {"norm": "layernorm", "norm_weights": False}


def persimmon(f: Fields) -> dict[str, Any]:
    """Read Persimmon, whose norms of queries and keys are layer norms with biases."""
    s = sizes(f)
    norms = Other("q and k norms", None, 4 * letter("D", s["head_dim"]))
    more = (norms,) if f.flag("qk_layernorm") else ()
    mixers = everywhere(f, s, qkv_bias=True, o_bias=True)
    found = stacked(s, mixers, (*dense(f, gated=False, bias=True), *more))
    return found | {"norm": "layernorm", "norm_bias": True}


def vaultgemma(f: Fields) -> dict[str, Any]:
    s = sizes(f)
    types = kinds(f, s["n_layers"], lambda i: FULL if i % 2 else SLIDING, (FULL, SLIDING))
    return stacked(s, windowed(f, s, types, **biases(f)), dense(f))


def doge(f: Fields) -> dict[str, Any]:
    """Read Doge: attention whose mask is computed from the values, and scaled residual connections."""
    f.must_be(False, "is_moe")
    s = sizes(f)
    K, D = letter("K", s["n_kv_heads"]), letter("D", s["head_dim"])
    mask = Other("dynamic mask", K * D * K, 2 * K if f.flag("attention_bias") else K)
    scales = Other("residual scales", None, 2 * letter("C", s["d_model"]))
    window = optional_size(f, "sliding_window")
    mixers = [(attention(f, s, window, qk_norm="head", **biases(f)), mask)] * s["n_layers"]
    return stacked(s, mixers, (*dense(f, bias=f.flag("mlp_bias")), scales))


# ---- names of their own


def _learned(d_model: int, n_heads: int, n_layers: int, f: Fields, positions: int | None) -> dict[str, Any]:
    """Return a decoder like GPT-2's: as many KV heads as query heads, biases and layer norms."""
    return {
        "n_layers": n_layers, "d_model": d_model, "n_heads": n_heads, "head_dim": d_model // n_heads,
        "norm": "layernorm", "norm_bias": True, "learned_position_rows": positions,
        "position": "rope" if positions is None else "learned", "max_context": positions,
        "vocab_size": f.size("vocab_size"), "tie_embeddings": f.flag("tie_word_embeddings"),
    }  # fmt: skip


def gpt_neo(f: Fields) -> dict[str, Any]:
    """Read GPT-Neo, whose local layers attend to a window and cache every token."""
    d_model, n_heads, n = f.size("hidden_size"), f.size("num_heads"), f.size("num_layers")
    rows = f.size("max_position_embeddings")
    s = _learned(d_model, n_heads, n, f, rows)
    f.ignored |= {"attention_types", "attention_layers", "window_size"}
    s |= {"n_kv_heads": n_heads}
    width = f.size_or(4 * d_model, "intermediate_size")
    return stacked(s, everywhere(f, s, o_bias=True), (Dense(width, False, True),))


def gpt_neox_japanese(f: Fields) -> dict[str, Any]:
    d_model, n_heads = f.size("hidden_size"), f.size("num_attention_heads")
    n = f.size("num_hidden_layers")
    s = _learned(d_model, n_heads, n, f, None) | {"n_kv_heads": n_heads}
    s["max_context"] = f.size("max_position_embeddings")
    last = (attention(f, s), Other("o", None, letter("C", d_model)))
    mixers = [(attention(f, s),)] * (n - 1) + [last]
    return stacked(s, mixers, (Dense(f.size("intermediate_multiple_size") * d_model, False),))


def codegen(f: Fields) -> dict[str, Any]:
    d_model, n_heads, n = f.size("n_embd"), f.size("n_head"), f.size("n_layer")
    s = _learned(d_model, n_heads, n, f, None) | {"n_kv_heads": n_heads, "max_context": f.size("n_positions")}
    width = f.size_or(4 * d_model, "n_inner")
    found = stacked(s, everywhere(f, s), (Dense(width, False, True),), 1, parallel=True)
    return found | {"lm_head_bias": True}


def biogpt(f: Fields) -> dict[str, Any]:
    d_model, n_heads = f.size("hidden_size"), f.size("num_attention_heads")
    rows = f.size("max_position_embeddings") + 2  # positions are counted from 2
    s = _learned(d_model, n_heads, f.size("num_hidden_layers"), f, rows) | {"n_kv_heads": n_heads}
    return stacked(s, everywhere(f, s, qkv_bias=True, o_bias=True), dense(f, gated=False, bias=True))


def xglm(f: Fields) -> dict[str, Any]:
    """Read XGLM, whose positions are sinusoids without weights."""
    f.must_be(False, "add_cross_attention")
    d_model, n_heads = f.size("d_model"), f.size("attention_heads")
    s = _learned(d_model, n_heads, f.size("num_layers"), f, None) | {"n_kv_heads": n_heads, "position": "none"}
    s["max_context"] = f.size("max_position_embeddings")
    return stacked(s, everywhere(f, s, qkv_bias=True, o_bias=True), dense(f, "ffn_dim", gated=False, bias=True))


def ctrl(f: Fields) -> dict[str, Any]:
    d_model, n_heads = f.size("n_embd"), f.size("n_head")
    s = _learned(d_model, n_heads, f.size("n_layer"), f, None) | {"n_kv_heads": n_heads, "position": "none"}
    s["max_context"] = f.size("n_positions")
    found = stacked(s, everywhere(f, s, qkv_bias=True, o_bias=True), dense(f, "dff", gated=False, bias=True))
    return found | {"lm_head_bias": True}
