"""Which layers have which mixer, in the spellings of published config.json files: against transformers, and by hand.

The configurations are those of the named models, without the fields that change no count.
"""

from __future__ import annotations

import pytest
import transformers

from attnviz.checks import ConfigError
from attnviz.cost import count_parameters, kv_cache_bytes
from attnviz.cost.cached import cached_by_kind, state_bytes
from attnviz.cost.hf_config import read_hf_config
from tests.cost import decoders

KIMI_FULL = [4, 8, 12, 16, 20, 24, 27]
K3_FULL = [*range(4, 93, 4), 93]


def kda(full: list[int], n: int) -> dict:
    return {"full_attn_layers": full, "kda_layers": [i for i in range(1, n + 1) if i not in full],
            "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4}  # fmt: skip


QWEN = {"head_dim": 256, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
        "linear_conv_kernel_dim": 4, "vocab_size": 248320}  # fmt: skip
PUBLISHED = {  # name -> config.json, numbers of layers by mixer
    "Nemotron 3 Nano 30B-A3B (hybrid_override_pattern)": ({
        "model_type": "nemotron_h", "hidden_size": 2688, "head_dim": 128, "num_attention_heads": 32,
        "num_key_value_heads": 2, "num_hidden_layers": 52,
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "mamba_num_heads": 64,
        "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "n_routed_experts": 128,
        "n_shared_experts": 1, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
        "num_experts_per_tok": 6, "intermediate_size": 1856, "vocab_size": 131072,
    }, {"mamba2": 23, "gqa": 6}),
    "Nemotron-H 4B (a pattern with feed-forwards)": ({
        "model_type": "nemotron_h", "hidden_size": 3072, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 12288, "mamba_num_heads": 112, "mamba_head_dim": 64,
        "ssm_state_size": 128, "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    }, {"mamba2": 24, "gqa": 4}),
    "Qwen3.5 27B (full_attention_interval)": ({
        "model_type": "qwen3_5", "tie_word_embeddings": False, "text_config": QWEN | {
            "model_type": "qwen3_5_text", "attn_output_gate": True, "full_attention_interval": 4, "hidden_size": 5120,
            "intermediate_size": 17408, "linear_num_value_heads": 48, "mamba_ssm_dtype": "float32",
            "num_attention_heads": 24, "num_hidden_layers": 64, "num_key_value_heads": 4},
        "vision_config": {"depth": 27},
    }, {"delta": 48, "gqa": 16}),
    "Qwen3-Next with another interval": ({
        "model_type": "qwen3_next", "num_hidden_layers": 12, "full_attention_interval": 3}, {"delta": 8, "gqa": 4}),
    "Kimi Linear 48B-A3B (linear_attn_config)": ({
        "model_type": "kimi_linear", "num_hidden_layers": 27, "linear_attn_config": kda(KIMI_FULL, 27),
        "first_k_dense_replace": 1, "moe_layer_freq": 1, "mla_use_nope": True,
    }, {"delta": 20, "mla": 7}),
    "Bamba 9B (attn_layer_indices)": ({
        "model_type": "bamba", "num_hidden_layers": 32, "hidden_size": 4096, "mamba_d_state": 128,
        "attn_layer_indices": [9, 18, 27],
    }, {"mamba2": 29, "gqa": 3}),
    "Jamba v0.1 (attn_layer_period, attn_layer_offset)": ({
        "model_type": "jamba", "num_hidden_layers": 32, "attn_layer_period": 8, "attn_layer_offset": 4,
        "expert_layer_period": 2, "expert_layer_offset": 1,
    }, {"mamba": 28, "gqa": 4}),
    "Granite 4.0 H (layer_types with older names)": ({
        "model_type": "granitemoehybrid", "num_hidden_layers": 40,
        "layer_types": [("attention" if i in (5, 15, 25, 35) else "mamba") for i in range(40)], "hidden_size": 2048,
        "num_attention_heads": 32, "num_key_value_heads": 8, "mamba_n_heads": 64, "mamba_d_state": 128,
        "num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 8192, "intermediate_size": 8192,
        "tie_word_embeddings": True, "vocab_size": 100352,
    }, {"mamba2": 36, "gqa": 4}),
    "LFM2 350M (full_attn_idxs, block_ff_dim)": ({
        "model_type": "lfm2", "vocab_size": 65536, "hidden_size": 1024, "num_hidden_layers": 16,
        "num_attention_heads": 16, "num_key_value_heads": 8, "conv_L_cache": 3, "block_dim": 1024, "block_ff_dim": 6656,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    }, {"convolution": 10, "gqa": 6}),
    "Llama 4 Scout (no_rope_layers)": ({
        "model_type": "llama4", "text_config": {
            "model_type": "llama4_text", "attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 12,
            "num_hidden_layers": 48, "interleave_moe_layer_step": 1, "moe_layers": list(range(48))},
        "vision_config": {"hidden_size": 1408},
    }, {"gqa, chunks of 8,192": 36, "gqa": 12}),
    "Llama 4 Maverick (interleave_moe_layer_step)": ({
        "model_type": "llama4", "text_config": {
            "model_type": "llama4_text", "num_hidden_layers": 48, "interleave_moe_layer_step": 2,
            "num_local_experts": 128},
    }, {"gqa, chunks of 8,192": 36, "gqa": 12}),
    "Gemma 3n E4B (num_kv_shared_layers)": ({
        "model_type": "gemma3n", "text_config": {
            "model_type": "gemma3n_text", "num_hidden_layers": 35, "num_kv_shared_layers": 15, "sliding_window": 512,
            "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7},
    }, {"gqa, window 512": 16, "gqa": 4}),
    "Gemma 4 31B (num_global_key_value_heads, attention_k_eq_v)": ({
        "model_type": "gemma4", "text_config": {
            "model_type": "gemma4_text", "num_hidden_layers": 60, "num_attention_heads": 32, "num_key_value_heads": 16,
            "num_global_key_value_heads": 4, "global_head_dim": 512, "head_dim": 256, "attention_k_eq_v": True,
            "hidden_size": 5376, "intermediate_size": 21504, "hidden_size_per_layer_input": 0, "sliding_window": 1024},
    }, {"gqa, window 1,024": 50, "gqa": 10}),
    "GLM-5 (index_topk_freq, index_skip_topk_offset)": ({
        "model_type": "glm_moe_dsa", "num_hidden_layers": 78, "index_topk_freq": 4, "index_skip_topk_offset": 3,
        "index_share_for_mtp_iteration": True, "num_nextn_predict_layers": 1, "moe_layer_freq": 1, "head_dim": 192,
    }, {"mla, top 2,048 keys": 78}),
    "Qwen3-Coder-like (decoder_sparse_step, mlp_only_layers)": ({
        "model_type": "qwen3_next", "num_hidden_layers": 8, "decoder_sparse_step": 2, "mlp_only_layers": [3],
        "num_experts": 16}, {"delta": 6, "gqa": 2}),
    "DeepSeek-V4 Flash (compress_ratios, the last for the layer that predicts more)": ({
        "model_type": "deepseek_v4", "num_hidden_layers": 43, "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
        "num_hash_layers": 3, "num_nextn_predict_layers": 1, "qk_rope_head_dim": 64, "compress_rope_theta": 160000,
    }, {"mqa, window 128": 43}),
    "Exaone 4 with a number as its pattern": ({
        "model_type": "exaone4", "num_hidden_layers": 12, "sliding_window_pattern": 4,
    }, {"mha, window 4,096": 9, "mha": 3}),
}  # fmt: skip


def layers_by_kind(model) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind in cached_by_kind(model, 1):
        name = ", ".join(filter(None, (kind.mixer.kind, kind.mixer.seen())))
        found[name] = found.get(name, 0) + kind.n_layers
    return found


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_spelling_names_the_layers(name):
    config, kinds = PUBLISHED[name]
    assert layers_by_kind(read_hf_config(config).model) == kinds


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_each_spelling_has_the_parameters_and_the_cache_of_transformers(name):
    config, _ = PUBLISHED[name]
    text = config.get("text_config", config)
    fields = {field: value for field, value in text.items() if field != "model_type"}
    live = decoders.built(transformers.AutoConfig.for_model(text["model_type"], pad_token_id=None, **fields))
    model = read_hf_config(config).model
    assert count_parameters(model).total == decoders.n_parameters(live)
    if text["model_type"] != "gemma3n_text":  # which does not run without weights
        assert decoders.expected(model, 9) == decoders.held(live, 9)


def test_a_string_of_local_and_global_layers():
    """EXAONE 4 as first published; transformers cannot read it without layer_types."""
    config = {"model_type": "exaone4", "num_hidden_layers": 64, "sliding_window_pattern": "LLLG"}
    assert layers_by_kind(read_hf_config(config).model) == {"mha, window 4,096": 48, "mha": 16}


# ---- figures that others published

SUPER = {
    "model_type": "nemotron_h", "hidden_size": 4096, "num_hidden_layers": 88, "vocab_size": 131072,
    "hybrid_override_pattern":
        "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
    "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4,
    "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "n_routed_experts": 512,
    "n_shared_experts": 1, "num_experts_per_tok": 22, "moe_latent_size": 1024, "moe_intermediate_size": 2688,
    "moe_shared_expert_intermediate_size": 5376, "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E",
}  # fmt: skip


def test_nemotron_3_super_caches_in_8_of_88_layers():
    """The headers of its safetensors: 123,611,012,096 weights in bf16, 2,942,324,736 of them to predict more tokens."""
    found = read_hf_config(SUPER)
    assert layers_by_kind(found.model) == {"mamba2": 40, "gqa": 8}
    assert count_parameters(found.model).total == 123_611_012_096 - 2_942_324_736
    assert kv_cache_bytes(found.model, 2) - kv_cache_bytes(found.model, 1) == 8 * 2 * 2 * 128 * 2
    assert "multi-token prediction" in found.uncounted["num_nextn_predict_layers"]


def test_qwen3_next_80b_as_its_own_headers_say():
    found = count_parameters(read_hf_config({"model_type": "qwen3_next"}).model)
    assert found.total == 79_674_391_296


def test_kimi_k3s_schedule_caches_in_24_of_93_layers():
    """Its other fields are refused by name, as they change what is not known here."""
    schedule = {"model_type": "kimi_linear", "num_hidden_layers": 93, "linear_attn_config": kda(K3_FULL, 93)}
    model = read_hf_config(schedule).model
    assert layers_by_kind(model) == {"delta": 69, "mla": 24}
    assert kv_cache_bytes(model, 2) - kv_cache_bytes(model, 1) == 24 * (512 + 64) * 2
    for field in ("mla_use_output_gate", "routed_expert_hidden_size", "attn_res_block_size"):
        with pytest.raises(ConfigError, match=field):
            read_hf_config(schedule | {field: 3584})
    with pytest.raises(ConfigError, match="use_full_rank_gate"):
        read_hf_config(schedule | {"linear_attn_config": kda(K3_FULL, 93) | {"use_full_rank_gate": True}})


def test_gpt_oss_120b_caches_73_728_bytes_per_token():
    """18 layers with a window of 128, 18 without."""
    model = read_hf_config({"model_type": "gpt_oss"}).model
    assert kv_cache_bytes(model, 1) == 73_728
    assert layers_by_kind(model) == {"gqa, window 128": 18, "gqa": 18}
    assert kv_cache_bytes(model, 1000) - kv_cache_bytes(model, 999) == 36_864


def test_gemma_3_1b_caches_139_mib_at_32k():
    """Four global layers of 26, a window of 512."""
    model = read_hf_config({
        "model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512,
        "sliding_window_pattern": 6, "vocab_size": 262144,
    }).model  # fmt: skip
    assert layers_by_kind(model) == {"mqa, window 512": 22, "mqa": 4}
    assert round(kv_cache_bytes(model, 32_768) / 2**20) == 139


def test_deepseek_v3_1_and_v3_2_per_token():
    """70,272 B of latents and RoPE keys; V3.2 also caches an index key of 128 per token and layer."""
    one = kv_cache_bytes(read_hf_config({"model_type": "deepseek_v3"}).model, 1)
    indexed = kv_cache_bytes(read_hf_config({"model_type": "deepseek_v32"}).model, 1)
    assert (one, indexed) == (70_272, 70_272 + 61 * 128 * 2)


def test_qwen3_5_27b_per_token_and_its_state():
    """16 layers of 64 cache 4 KV heads of 256; 48 keep 48 states of 128 × 128 in float32."""
    model = read_hf_config(PUBLISHED["Qwen3.5 27B (full_attention_interval)"][0]).model
    assert kv_cache_bytes(model, 2) - kv_cache_bytes(model, 1) == 16 * 2 * 4 * 256 * 2 == 65_536
    assert state_bytes(model) == 48 * (48 * 128 * 128 * 4 + 4 * (2 * 16 + 48) * 128 * 2)


def test_gemma_3_27b_at_128k():
    """10 of 62 layers without a window of 1,024."""
    model = read_hf_config({
        "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024,
    }).model  # fmt: skip
    assert kv_cache_bytes(model, 1) == 507_904
    assert round(kv_cache_bytes(model, 131_072) / 2**30, 1) == 10.4
