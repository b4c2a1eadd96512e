"""Published models, written in the names of their own config.json, are read as they are."""

from __future__ import annotations

import pytest

from attnviz.config import ModelConfig
from attnviz.cost import count_parameters, kv_cache_bytes, load_described
from attnviz.cost.hf_config import read_hf_config
from tests.cost.hf_sizes import LATENT

PRESETS = load_described()
NOT_ON_HUGGING_FACE = {"palm-540b", "gpt3-175b"}


def published(c: ModelConfig) -> dict | None:
    """Return the config.json of a published model from its published fields; None if Hugging Face has none."""
    if c.id in NOT_ON_HUGGING_FACE:
        return None
    usual = {
        "hidden_size": c.d_model, "intermediate_size": c.d_ff, "num_hidden_layers": c.n_layers,
        "num_attention_heads": c.n_heads, "num_key_value_heads": c.n_kv_heads, "vocab_size": c.vocab_size,
        "max_position_embeddings": c.max_context, "tie_word_embeddings": c.tie_embeddings,
    }  # fmt: skip
    gpt = {"n_embd": c.d_model, "n_layer": c.n_layers, "n_head": c.n_heads, "n_positions": c.max_context,
           "vocab_size": c.vocab_size}  # fmt: skip
    windows = {"sliding_window": c.sliding_window}
    kind = next((kind for start, kind in KINDS.items() if c.id.startswith(start)), None)
    if kind is None:
        raise LookupError(f"add to KINDS the beginning of {c.id!r} and its model_type, or it to NOT_ON_HUGGING_FACE")
    more = {
        "gpt2": gpt, "gptj": gpt, "gpt_bigcode": gpt,
        "bloom": {"n_embed": c.d_model, "n_layer": c.n_layers, "num_attention_heads": c.n_heads,
                  "vocab_size": c.vocab_size},
        "opt": usual | {"ffn_dim": c.d_ff, "word_embed_proj_dim": c.d_model},
        "falcon": {"hidden_size": c.d_model, "n_layer": c.n_layers, "n_head": c.n_heads, "vocab_size": c.vocab_size,
                   **({"n_head_kv": c.n_kv_heads, "new_decoder_architecture": True} if c.n_kv_heads > 1 else {})},
        "mixtral": windows | {"num_local_experts": 8, "num_experts_per_tok": 2},
        "mistral": windows, "phi3": windows, "starcoder2": windows, "gemma2": windows,
        "gemma3": {"text_config": usual | windows | {"head_dim": c.head_dim, "model_type": "gemma3_text"},
                   "vision_config": {"hidden_size": 1152}},
        "gpt_oss": windows | {"head_dim": c.head_dim},
        "qwen3": {"head_dim": c.head_dim}, "qwen3_moe": {"head_dim": c.head_dim}, "gemma": {"head_dim": c.head_dim},
        "chatglm": {"num_layers": c.n_layers, "hidden_size": c.d_model, "num_attention_heads": c.n_heads,
                    "multi_query_attention": True, "multi_query_group_num": c.n_kv_heads, "kv_channels": c.head_dim,
                    "ffn_hidden_size": c.d_ff, "padded_vocab_size": c.vocab_size, "seq_length": c.max_context,
                    "add_qkv_bias": True, "add_bias_linear": False, "rmsnorm": True},
    }.get(kind, {})  # fmt: skip
    own = (
        more if kind in ("gpt2", "gptj", "gpt_bigcode", "bloom", "opt", "falcon", "gemma3", "chatglm") else usual | more
    )
    if c.attention == "mla":
        own |= {name: getattr(c, name) for name in LATENT if name != "num_key_value_heads"}
    if c.moe and kind != "mixtral":
        own |= {
            "n_routed_experts": c.moe.n_routed_experts, "num_experts": c.moe.n_routed_experts,
            "num_local_experts": c.moe.n_routed_experts, "num_experts_per_tok": c.moe.experts_per_token,
            "moe_intermediate_size": c.moe.d_ff_expert, "n_shared_experts": c.moe.n_shared_experts,
            "first_k_dense_replace": c.moe.n_dense_layers, "moe_layer_freq": 1,
        }  # fmt: skip
    return {"model_type": kind, **own}


KINDS = {
    "gpt2": "gpt2", "gpt-j": "gptj", "pythia": "gpt_neox", "opt": "opt", "bloom": "bloom", "llama": "llama",
    "tinyllama": "llama", "smollm2": "llama", "deepseek-llm": "llama", "mistral": "mistral", "mixtral": "mixtral",
    "qwen1.5": "qwen2", "qwen2.5": "qwen2", "qwen3-30b": "qwen3_moe", "qwen3": "qwen3", "gemma-2-": "gemma2",
    "gemma-3": "gemma3", "gemma": "gemma", "phi-2": "phi", "phi-3": "phi3", "falcon": "falcon",
    "starcoder2": "starcoder2", "starcoder": "gpt_bigcode", "olmo-2": "olmo2", "deepseek-v2": "deepseek_v2",
    "deepseek-v3": "deepseek_v3", "kimi": "kimi_k2", "minicpm3": "minicpm3", "gpt-oss": "gpt_oss", "glm-4": "chatglm",
    "command-r": "cohere",
}  # fmt: skip


@pytest.mark.parametrize("id", sorted(PRESETS.keys() - NOT_ON_HUGGING_FACE))
def test_a_published_model_is_what_its_config_json_says(id):
    found, model = read_hf_config(published(PRESETS[id])), PRESETS[id]
    assert count_parameters(found.model).parts == count_parameters(model).parts
    assert count_parameters(found.model).active == count_parameters(model).active
    for n_tokens in (1, 5_003, 131_101):
        assert kv_cache_bytes(found.model, n_tokens) == kv_cache_bytes(model, n_tokens)


def test_a_model_that_cannot_be_pasted_is_a_published_one():
    assert PRESETS.keys() > NOT_ON_HUGGING_FACE
