"""Reading of config.json, against transformers: models of invented sizes are built by transformers and counted."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

from attnviz.cost import count_parameters, kv_cache_bytes
from attnviz.cost.hf_architectures import ARCHITECTURES, LAYERED
from attnviz.cost.hf_config import read_hf_config
from attnviz.cost.weights import layer_weights, multiplied_weights
from tests.cost.hf_sizes import BIASED, DEEPSEEK, GPT, HEAD, LATENT, MIXED, QWEN, ROW, SIZES

OURS = {"chatglm"}  # published with its own code, which transformers does not have

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
