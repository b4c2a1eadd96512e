"""Reading of config.json, against transformers: models of invented sizes are built by transformers and counted."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.checks import ConfigError
from attnviz.config import ModelConfig
from attnviz.cost import count_parameters, kv_cache_bytes, load_presets
from attnviz.cost.hf_architectures import ALIASES, ARCHITECTURES, LAYERED
from attnviz.cost.hf_config import is_hf_config, read_hf_config
from attnviz.cost.weights import layer_weights, multiplied_weights
from attnviz.facts import published_facts

PRESETS = load_presets()
OURS = {"chatglm"}  # published with its own code, which transformers does not have

# ---- sizes that no two fields share, so that none can be taken for another

SIZES = {
    "vocab_size": 211, "hidden_size": 8 * 3 * 13, "intermediate_size": 101, "num_hidden_layers": 7,
    "num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 89,
}  # fmt: skip
LIKE = SIZES | {"rms_norm_eps": 1e-6}  # Llama's fields
ROW = SIZES | {"num_key_value_heads": 6}
GPT = {"vocab_size": 211, "n_embd": 156, "n_layer": 7, "n_head": 6, "n_positions": 89}
QWEN = {"num_experts": 11, "num_experts_per_tok": 3, "moe_intermediate_size": 37}
LATENT = {
    "q_lora_rank": 41, "kv_lora_rank": 43, "qk_nope_head_dim": 19, "qk_rope_head_dim": 14, "v_head_dim": 23,
    "num_key_value_heads": 6,
}  # fmt: skip
MIXED = {
    "n_routed_experts": 12, "n_shared_experts": 2, "num_experts_per_tok": 3, "moe_intermediate_size": 37,
    "first_k_dense_replace": 2, "n_group": 2, "topk_group": 1,
}  # fmt: skip
DEEPSEEK = LATENT | MIXED
BIASED = {"attention_bias": True, "mlp_bias": True}
HEAD = {"head_dim": 34}

INVENTED = [  # model_type, fields
    ("llama", SIZES), ("llama", SIZES | HEAD | BIASED | {"tie_word_embeddings": True}),
    ("granite", SIZES | BIASED), ("smollm3", SIZES | BIASED),
    ("mistral", SIZES | HEAD), ("ministral", SIZES | HEAD), ("mixtral", SIZES | {"num_local_experts": 11}),
    ("granitemoe", SIZES | {"num_local_experts": 11, "num_experts_per_tok": 3, "attention_bias": True}),
    ("minimax_m2", SIZES | HEAD | {"num_local_experts": 11, "num_experts_per_tok": 3}),
    ("phimoe", SIZES | {"num_local_experts": 11, "lm_head_bias": True, "attention_bias": True}),
    ("dots1", SIZES | HEAD | MIXED | {"sliding_window": 17, "max_window_layers": 2}),
    ("ernie4_5_moe", SIZES | HEAD | {"moe_intermediate_size": 37, "moe_k": 3, "moe_num_experts": 11}),
    ("ernie4_5_moe", SIZES | HEAD | {"moe_intermediate_size": 37, "moe_num_experts": 11, "moe_layer_start_index": 3,
                                     "moe_num_shared_experts": 3}),
    ("qwen2", SIZES), ("qwen2", SIZES | {"use_sliding_window": True, "sliding_window": 17, "max_window_layers": 2}),
    ("qwen2_moe", SIZES | QWEN | {"shared_expert_intermediate_size": 79}),
    ("qwen3", SIZES | HEAD | {"attention_bias": True}),
    ("qwen3_moe", SIZES | HEAD | QWEN),
    ("qwen3_moe", SIZES | HEAD | QWEN | {"decoder_sparse_step": 2, "mlp_only_layers": [3]}),
    ("gemma", SIZES | HEAD), ("gemma2", SIZES | HEAD), ("gemma3_text", SIZES | HEAD | {"attention_bias": True}),
    ("phi", SIZES), ("phi3", SIZES), ("stablelm", SIZES),
    ("stablelm", SIZES | {"use_parallel_residual": True, "use_qkv_bias": True}),
    ("starcoder2", SIZES), ("starcoder2", SIZES | {"use_bias": False}),
    ("olmo2", SIZES), ("olmo3", SIZES), ("olmoe", SIZES | {"num_experts": 11, "num_experts_per_tok": 3}),
    ("deepseek_v2", SIZES | DEEPSEEK), ("deepseek_v2", SIZES | DEEPSEEK | {"q_lora_rank": None}),
    ("deepseek_v3", SIZES | DEEPSEEK), ("minicpm3", SIZES | LATENT),
    ("gpt_oss", SIZES | HEAD | {"num_local_experts": 11, "num_experts_per_tok": 3}),
    ("glm", SIZES | HEAD), ("glm4", SIZES | HEAD), ("glm4_moe", SIZES | HEAD | MIXED | {"use_qk_norm": True}),
    ("glm4_moe", SIZES | MIXED | {"attention_bias": True}),
    ("cohere", SIZES), ("cohere", SIZES | {"use_qk_norm": True}),
    ("cohere2", SIZES | {"tie_word_embeddings": True}), ("ernie4_5", SIZES | HEAD | {"use_bias": True}),
    ("seed_oss", SIZES | HEAD), ("gpt2", GPT), ("gpt2", GPT | {"n_inner": 101}),
    ("gpt_bigcode", GPT), ("gpt_bigcode", GPT | {"multi_query": False}), ("gptj", GPT | {"rotary_dim": 8}),
    ("gpt_neox", ROW), ("gpt_neox", ROW | {"attention_bias": False}),
    ("opt", {k: v for k, v in ROW.items() if "key" not in k and "inter" not in k}
     | {"ffn_dim": 101, "word_embed_proj_dim": SIZES["hidden_size"]}),
    ("bloom", {"vocab_size": 211, "hidden_size": 156, "n_layer": 7, "n_head": 6}),
    ("mpt", {"vocab_size": 211, "d_model": 156, "n_layers": 7, "n_heads": 6, "max_seq_len": 89}),
    ("falcon", {"vocab_size": 211, "hidden_size": 156, "num_hidden_layers": 7, "num_attention_heads": 6}),
    ("falcon", {"vocab_size": 211, "hidden_size": 156, "num_hidden_layers": 7, "num_attention_heads": 6, "bias": True,
                "parallel_attn": False, "alibi": True}),
    ("falcon", {"vocab_size": 211, "hidden_size": 156, "num_hidden_layers": 7, "num_attention_heads": 6,
                "new_decoder_architecture": True, "num_kv_heads": 3}),
]  # fmt: skip


def built(model_type: str, config: dict):
    """Build transformers' configuration and model without allocating memory."""
    configuration = transformers.AutoConfig.for_model(model_type, pad_token_id=None, **config)
    with torch.device("meta"):
        return configuration, transformers.AutoModelForCausalLM.from_config(configuration)


@pytest.mark.slow
@pytest.mark.parametrize("model_type, config", INVENTED)
def test_as_many_parameters_as_transformers_builds(model_type, config):
    config = {name: 4 if name in ("num_hidden_layers", "n_layer", "n_layers") else n for name, n in config.items()}
    configuration, live = built(model_type, config)
    short = read_hf_config({"model_type": model_type, **config})
    whole = read_hf_config(json.loads(configuration.to_json_string(use_diff=False)))
    n = sum(p.numel() for p in live.parameters())
    assert count_parameters(short.model).total == count_parameters(whole.model).total == n
    for n_tokens in (1, 10_007):
        assert kv_cache_bytes(short.model, n_tokens) == kv_cache_bytes(whole.model, n_tokens)


def test_each_architecture_is_built_in_this_test():
    assert {name for name, _ in INVENTED} == ARCHITECTURES.keys() - OURS - LAYERED.keys()


@pytest.mark.parametrize("model_type", sorted(ARCHITECTURES.keys() - OURS - LAYERED.keys()))
def test_defaults_are_those_of_transformers(model_type):
    defaults = ARCHITECTURES[model_type].defaults
    in_use = {"use_sliding_window": True} if "use_sliding_window" in defaults else {}  # else the window is null
    configuration = transformers.AutoConfig.for_model(model_type, **in_use)
    renamed = {"sliding_window_pattern"}  # replaced by `layer_types`
    for name, value in defaults.items():
        if name in in_use:
            assert getattr(type(configuration), name) == value
        elif name in renamed:
            assert configuration.layer_types.index("full_attention") + 1 == value
        elif not (name == "num_key_value_heads" and value is None):
            assert (getattr(configuration, name) or None) == (value or None), name


@pytest.mark.parametrize("model_type", ["mistral", "gemma2", "gemma3_text", "gpt_oss", "olmo3", "cohere2", "qwen2",
                                        "qwen2_moe"])  # fmt: skip
def test_the_cache_is_as_long_as_the_layers_of_transformers_let_it_grow(model_type):
    """Bytes from the caches of transformers itself, on a model of invented sizes."""
    window = {"sliding_window": 17, "use_sliding_window": True, "max_window_layers": 2}
    small = SIZES | {"hidden_size": 96, "head_dim": 16, "num_local_experts": 3, "num_experts_per_tok": 2} | window
    configuration = transformers.AutoConfig.for_model(model_type, pad_token_id=None, **small)
    cache = transformers.DynamicCache(config=configuration)
    for layer in range(7):
        for n in (31, 1):  # the next token cuts what was read at once to the window
            cache.update(*(torch.zeros(1, 3, n, 16, dtype=torch.bfloat16),) * 2, layer)
    held = 0
    for layer in cache.layers:
        held += sum(t.numel() * t.element_size() for t in (layer.keys, layer.values))
    model = read_hf_config({"model_type": model_type, **small}).model
    n_sliding = 7 - len(model.full_layers)
    a_token = 2 * 3 * 16 * 2
    assert kv_cache_bytes(model, 32) == (n_sliding * 17 + (7 - n_sliding) * 32) * a_token
    assert held == kv_cache_bytes(model, 32) - n_sliding * a_token  # it drops the token that the next one will not see


@pytest.mark.parametrize(
    "model_type", ["mistral", "mixtral", "phi3", "starcoder2", "qwen3_moe", "ministral", "qwen2", "qwen3", "gemma2"]
)
def test_layer_types_are_followed_where_transformers_follows_them(model_type):
    """The first five have the window in all layers, whatever the file says."""
    config = SIZES | {
        "hidden_size": 24, "head_dim": 4, "intermediate_size": 8, "moe_intermediate_size": 8, "num_hidden_layers": 2,
        "sliding_window": 3, "use_sliding_window": True, "max_window_layers": 2, "num_local_experts": 2,
        "num_experts": 2, "num_experts_per_tok": 2, "layer_types": ["full_attention", "sliding_attention"],
    }  # fmt: skip
    configuration = transformers.AutoConfig.for_model(model_type, pad_token_id=None, **config)
    live = transformers.AutoModelForCausalLM.from_config(configuration, attn_implementation="eager")
    with torch.inference_mode():
        weights = live(torch.arange(5)[None], output_attentions=True).attentions
    model = read_hf_config({"model_type": model_type, **config}).model
    assert [int((w[0, 0, -1] > 0).sum()) for w in weights] == [layer.mixer.window or 5 for layer in model.layers]


@pytest.mark.parametrize("model_type", ["gemma3_text", "cohere2"])
def test_of_two_periods_of_the_windows_the_one_that_transformers_reads_is_taken(model_type):
    config = {"num_hidden_layers": 7, "sliding_window_pattern": 3, "_sliding_window_pattern": 2}
    types = transformers.AutoConfig.for_model(model_type, **config).layer_types
    full = read_hf_config({"model_type": model_type, **config}).model.full_layers
    assert full == tuple(i for i, kind in enumerate(types) if kind == "full_attention") == (2, 5)


FALCON = {"vocab_size": 211, "hidden_size": 156, "num_hidden_layers": 3, "num_attention_heads": 6}
NEW_FALCON = FALCON | {"new_decoder_architecture": True, "num_kv_heads": 3}


@pytest.mark.parametrize("model_type, config", [
    ("gpt_neox", SIZES), ("gpt_neox", ROW | HEAD), ("stablelm", SIZES | HEAD),
    ("bloom", {"vocab_size": 211, "hidden_size": 96, "n_embed": 156, "n_layer": 3, "n_head": 6}),
    ("bloom", {"vocab_size": 211, "hidden_size": 96, "n_embed": None, "n_layer": 3, "n_head": 6}),
    ("falcon", FALCON | {"n_embed": 96}), ("falcon", FALCON | {"num_ln_in_parallel_attn": 2}),
    ("falcon", NEW_FALCON | {"num_ln_in_parallel_attn": 1}), ("falcon", NEW_FALCON | {"num_ln_in_parallel_attn": 2}),
])  # fmt: skip
def test_a_field_that_transformers_ignores_or_prefers_is_read_as_there(model_type, config):
    _, live = built(model_type, config)
    found = read_hf_config({"model_type": model_type, **config}).model
    assert count_parameters(found).total == sum(p.numel() for p in live.parameters())
    if model_type == "gpt_neox":
        assert (found.n_kv_heads, found.head_dim) == (6, 52)


@pytest.mark.parametrize("model_type, beside, inside", [
    (kind, *ties) for kind in ("gemma3", "qwen2_vl")
    for ties in ((True, False), (False, True), (True, None), (False, None), (None, True))
])  # fmt: skip
def test_embeddings_are_tied_where_transformers_ties_them(model_type, beside, inside):
    text = {"num_hidden_layers": 1, **({} if inside is None else {"tie_word_embeddings": inside})}
    config = {"text_config": text, "vision_config": {"num_hidden_layers": 1, "depth": 1},
              **({} if beside is None else {"tie_word_embeddings": beside})}  # fmt: skip
    configuration = transformers.AutoConfig.for_model(model_type, **config)
    with torch.device("meta"):
        live = transformers.AutoModelForImageTextToText.from_config(configuration)
    tied = live.get_output_embeddings().weight is live.get_input_embeddings().weight
    assert read_hf_config({"model_type": model_type, **config}).model.tie_embeddings is tied


# ---- published models, in the names of their own config.json


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


# ---- messages


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


# ---- any JSON

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


HEADED = {  # with layers that most architectures share
    "llama": SIZES | HEAD, "qwen2": SIZES, "gemma2": SIZES | HEAD, "phi": SIZES, "gpt2": GPT,
    "gptj": GPT | {"rotary_dim": 8},
    "gpt_neox": ROW, "mixtral": SIZES | HEAD | {"num_local_experts": 11, "num_experts_per_tok": 3},
    "deepseek_v3": SIZES | DEEPSEEK, "bloom": {"vocab_size": 211, "hidden_size": 156, "n_layer": 7, "n_head": 6},
}  # fmt: skip
LOADERS = {
    "Model": transformers.AutoModel, "ForCausalLM": transformers.AutoModelForCausalLM,
    "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
    "ForTokenClassification": transformers.AutoModelForTokenClassification,
    "ForQuestionAnswering": transformers.AutoModelForQuestionAnswering,
}  # fmt: skip


@pytest.mark.parametrize("labels", [{}, {"num_labels": 5}, {"id2label": {str(i): f"L{i}" for i in range(7)}}])
@pytest.mark.parametrize(("model_type", "head"), [(m, h) for m in HEADED for h in LOADERS])
def test_each_head_has_the_parameters_of_transformers(model_type, head, labels):
    config = {name: 2 if name in ("num_hidden_layers", "n_layer") else n for name, n in HEADED[model_type].items()}
    for ties in (True, False):
        configuration = transformers.AutoConfig.for_model(
            model_type, pad_token_id=None, tie_word_embeddings=ties, **config, **labels
        )
        try:
            with torch.device("meta"):
                live = LOADERS[head].from_config(configuration)
        except ValueError:  # transformers has no such class
            return
        written = {"model_type": model_type, "tie_word_embeddings": ties, **config, **labels}
        found = read_hf_config(written | {"architectures": [type(live).__name__]})
        counted = count_parameters(found.model)
        assert counted.total == sum(p.numel() for p in live.parameters())
        beside = {id(p) for p in live.base_model.parameters()}
        of_head = sum(p.numel() for p in live.parameters() if id(p) not in beside)
        embedding = 0 if head != "ForCausalLM" or not ties else live.get_input_embeddings().weight.numel()
        bias = found.model.lm_head_bias * (found.model.head_rows or found.model.vocab_size)
        assert multiplied_weights(found.model) - layer_weights(found.model) == of_head + embedding - bias


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        ({"architectures": ["ChatGLMModel"], "model_type": "chatglm"}, None),  # its files name the base class
        ({"architectures": ["InternVLChatModel"], "llm_config": {"architectures": ["Qwen2ForCausalLM"]}}, None),
        ({"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "llama"}}, None),
        ({"architectures": ["LlamaForSequenceClassification"], "num_labels": 1}, 1),
        ({"architectures": ["LlamaModel"]}, 0),
        ({"architectures": ["MistralModel"], "model_type": "mistral"}, 0),
        ({"model_type": "llama"}, None),
        ({"architectures": ["GPT2LMHeadModel"]}, None),
        ({"architectures": ["GPT2DoubleHeadsModel"], "model_type": "gpt2"}, None),
    ],
)
def test_the_class_says_what_follows_the_last_norm(config, rows):
    if config.get("model_type") == "chatglm":
        config = config | {
            "num_layers": 3, "hidden_size": 156, "num_attention_heads": 6, "kv_channels": 26, "ffn_hidden_size": 101,
            "padded_vocab_size": 211, "seq_length": 89, "rmsnorm": True,
        }  # fmt: skip
    assert read_hf_config(config).model.head_rows == rows


def test_an_unknown_head_is_said_not_to_be_counted():
    found = read_hf_config({"model_type": "qwen2", "architectures": ["Qwen2ForRewardModel"]})
    assert found.model.head_rows == 0 and "Qwen2ForRewardModel" in found.uncounted["architectures"]
    assert "output layer" not in count_parameters(found.model).parts
