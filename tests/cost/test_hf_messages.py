"""Sentences on a config.json: fields used and assumed, what is not counted, and what cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.checks import ConfigError
from attnviz.cost import count_parameters, kv_cache_bytes, load_presets
from attnviz.cost.hf_architectures import ALIASES, ARCHITECTURES
from attnviz.cost.hf_config import is_hf_config, read_hf_config
from attnviz.facts import published_facts
from tests.cost.hf_sizes import LIKE, SIZES

PRESETS = load_presets()


def test_used_and_assumed_fields_are_told_apart():
    given = {"hidden_size": 312, "num_attention_heads": 6, "num_key_value_heads": 2}
    found = read_hf_config({"model_type": "mistral", "rope_theta": 7} | given)
    assert found.used == given
    assert found.assumed["sliding_window"] == 4096 and found.assumed["head_dim"] == 52
    assert not found.used.keys() & found.assumed.keys() and not found.uncounted


def test_an_unknown_architecture_with_llamas_fields_is_counted_as_a_llama():
    found, llama = (read_hf_config({"model_type": name} | LIKE) for name in ("foomodel", "llama"))
    assert (found.known, llama.known) == (False, True)
    assert count_parameters(found.model) == count_parameters(llama.model)
    assert kv_cache_bytes(found.model, 1000) == kv_cache_bytes(llama.model, 1000)


def test_lists_and_mappings_that_change_no_count_do_not_make_an_architecture_another():
    harmless = {"eos_token_id": [1, 2], "id2label": {"0": "a"}, "rope_scaling": {"type": "linear", "factor": 2.0},
                "architectures": ["FooForCausalLM"], "layer_types": ["full_attention"] * 7, "mlp_only_layers": [],
                "quantization_config": {"quant_method": "fp8"}}  # fmt: skip
    assert read_hf_config({"model_type": "foomodel"} | LIKE | harmless).known is False


def test_the_buffers_that_balance_the_experts_are_said_not_to_be_counted():
    found = read_hf_config({"model_type": "deepseek_v3", "quantization_config": {"quant_method": "fp8"}})
    assert "14,848" in found.uncounted["n_routed_experts"] and "14,848" in published_facts()["deepseek-v3"]["notes"]
    assert found.stored_as == "fp8"


def test_a_window_of_null_is_no_window_and_a_missing_one_is_the_default():
    sizes = {"model_type": "mistral", **SIZES}
    assert read_hf_config(sizes | {"sliding_window": None}).model.sliding_window is None
    assert read_hf_config(sizes).model.sliding_window == 4096


def test_a_model_of_several_inputs_is_counted_by_its_decoder_alone():
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    found = read_hf_config({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
                            "text_config": text, "vision_config": {"hidden_size": 1152}})  # fmt: skip
    assert count_parameters(found.model).total == count_parameters(PRESETS["gemma-3-4b"]).total
    assert list(found.uncounted) == ["vision_config"] and found.assumed["num_attention_heads"] == 8


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3MoeForCausalLM", "Gemma3ForCausalLM", "GPT2LMHeadModel",
                                  "GPTNeoXForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM"])  # fmt: skip
def test_the_class_names_the_architecture_where_model_type_is_missing(name):
    expected = {"GPT2LMHeadModel": "gpt2", "GPTNeoXForCausalLM": "gpt_neox", "Gemma3ForCausalLM": "gemma3_text",
                "Qwen3MoeForCausalLM": "qwen3_moe", "DeepseekV3ForCausalLM": "deepseek_v3",
                "GptOssForCausalLM": "gpt_oss", "LlamaForCausalLM": "llama"}  # fmt: skip
    assert read_hf_config({"architectures": [name]}).architecture == expected[name]


@pytest.mark.parametrize(
    "config, words",
    [
        ({"model_type": "xlstm", "hidden_size": 8}, ["does not know", "xlstm"]),
        ({"model_type": "foomodel", "num_experts": 8} | SIZES, ["does not know", "foomodel"]),
        ({"model_type": "bar", "sliding_window": 64} | LIKE, ["cannot count it as a Llama", "sliding window"]),
        ({"model_type": "bar", "layer_types": ["sliding_attention"]} | LIKE, ["layer_types"]),
        ({"model_type": "bar", "hidden_act": "gelu"} | LIKE, ["hidden_act", "gelu"]),
        ({"model_type": "bar", "type_vocab_size": 2} | LIKE, ["type_vocab_size"]),
        ({"model_type": "bar", "use_qk_norm": True} | LIKE, ["use_qk_norm"]),
        ({"model_type": "qwen", "no_bias": True} | LIKE, ["no_bias"]),
        ({"model_type": "mllama_text_model", "cross_attention_layers": [3, 8]} | LIKE, ["cross_attention_layers"]),
        ({"model_type": "internlm", "bias": True} | LIKE, ["no field bias"]),
        ({"model_type": "eurobert"} | LIKE, ["eurobert", "queries and keys"]),
        ({"model_type": "foo"} | SIZES, ["no field rms_norm_eps", "other names"]),
        ({"model_type": "deci", "num_key_value_heads_per_layer": [4] * 7} | LIKE, ["num_key_value_heads_per_layer"]),
        ({"model_type": "bar", "block_configs": [{}] * 7} | LIKE, ["block_configs"]),
        ({"model_type": "bar", "use_cla": True} | LIKE, ["use_cla"]),
        ({"model_type": "bar", "cla_share_factor": 2} | LIKE, ["cla_share_factor"]),
        ({"model_type": "bar", "attn_layer_period": 2} | LIKE, ["attn_layer_period"]),
        ({"model_type": "bar", "attention_layer_indices": [1]} | LIKE, ["attention_layer_indices"]),
        ({"model_type": "bar", "kv_sharing": 2} | LIKE, ["kv_sharing"]),
        ({"model_type": "hrm_text", "H_cycles": 2} | LIKE, ["H_cycles"]),
        ({"model_type": "bar", "use_post_norm": True} | LIKE, ["use_post_norm"]),
        ({"model_type": "bar", "heads_by_depth": {"0": 2}} | LIKE, ["heads_by_depth", "each layer"]),
        ({"model_type": "olmoe", "head_dim": 34} | SIZES, ["head_dim must be 52"]),
        ({"hidden_size": 8}, ["model_type"]),
        ({"model_type": "llama", "hidden_size": "8"}, ["hidden_size", "'8'"]),
        ({"model_type": "llama", "num_hidden_layers": 10**9}, ["num_hidden_layers", "10,000"]),
        ({"model_type": "llama", "num_attention_heads": 7, "num_key_value_heads": 3}, ["7", "3"]),
        ({"model_type": "gpt_oss", "layer_types": ["sliding_attention"]}, ["layer_types", "36"]),
        ({"model_type": "gpt_oss", "num_hidden_layers": 1, "layer_types": ["linear_attention"]}, ["linear_attention"]),
        ({"model_type": "deepseek_v3", "attention_bias": True}, ["attention_bias"]),
        ({"text_config": [], "model_type": "gemma3"}, ["text_config"]),
        ({"model_type": "deepseek_v2"}, ["num_experts_per_tok"]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(config, words):
    with pytest.raises(ConfigError) as raised:
        read_hf_config(config)
    assert all(word in str(raised.value) for word in words)


NAMES = sorted({name for a in ARCHITECTURES.values() for name in a.defaults} | {
    "model_type", "architectures", "text_config", "layer_types", "head_dim", "n_embed", "attn_config", "kv_channels",
    "quantization_config", "moe_layer_freq", "n_head_kv", "num_kv_heads", "seq_length", "num_ln_in_parallel_attn",
})  # fmt: skip
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([0, 1, 2, 3, 8, 64, 10**4, 10**30, -1]), st.floats(),
    st.text(max_size=5), st.lists(st.integers(0, 9) | st.text(max_size=3), max_size=3),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9), max_size=3),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([*ARCHITECTURES, *ALIASES]),
    st.dictionaries(st.sampled_from(NAMES), ODD, max_size=8),
    st.booleans(),
)
def test_any_config_is_counted_or_refused_with_a_sentence(model_type, config, nested):
    config = {"model_type": model_type} | config
    config = {"text_config": config} if nested else config
    assert is_hf_config(config)
    try:
        found = read_hf_config(config)
    except ConfigError as problem:
        assert 10 < len(str(problem)) < 1_200
    else:
        assert count_parameters(found.model).total > 0 and kv_cache_bytes(found.model, 1) > 0
