"""The published models against independent counts: stored ones, and whole models built by `transformers`.

    pytest tests/cost/test_presets.py

`data/counted_models.json` holds what an independent implementation counted for most of the models. The others are built
here by `transformers`, without memory (on torch's meta device), from the same facts under its own names.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

from attnviz.config import ModelConfig
from attnviz.cost import count_parameters, expanded_cache_bytes, kv_cache_bytes, load_presets
from attnviz.facts import published_facts

COUNTED = json.loads((Path(__file__).parents[1] / "data" / "counted_models.json").read_text())
PRESETS = load_presets()
CONFIGURED = [id for id, facts in published_facts().items() if "config" in facts]  # test_configured_presets.py
UNCOUNTED = sorted(PRESETS.keys() - COUNTED.keys() - set(CONFIGURED))


def gpt2(c: ModelConfig):
    return transformers.GPT2Config(
        n_layer=c.n_layers, n_embd=c.d_model, n_head=c.n_heads, n_positions=c.learned_position_rows,
        vocab_size=c.vocab_size,
    )  # fmt: skip


def gpt_j(c: ModelConfig):
    return transformers.GPTJConfig(
        n_layer=c.n_layers, n_embd=c.d_model, n_head=c.n_heads, rotary_dim=c.rotary_dim, vocab_size=c.vocab_size
    )


def bloom(c: ModelConfig):
    return transformers.BloomConfig(
        n_layer=c.n_layers, hidden_size=c.d_model, n_head=c.n_heads, vocab_size=c.vocab_size
    )


def falcon(c: ModelConfig):
    return transformers.FalconConfig(
        num_hidden_layers=c.n_layers, hidden_size=c.d_model, num_attention_heads=c.n_heads,
        vocab_size=c.vocab_size, multi_query=True, parallel_attn=True, new_decoder_architecture=False, bias=False,
    )  # fmt: skip


def usual(config_class, **more):
    """Return a builder for the architectures that share Llama's field names; `more`: additional fields."""

    def build(c: ModelConfig):
        return config_class(
            num_hidden_layers=c.n_layers, hidden_size=c.d_model, num_attention_heads=c.n_heads,
            num_key_value_heads=c.n_kv_heads, intermediate_size=c.d_ff, vocab_size=c.vocab_size,
            tie_word_embeddings=c.tie_embeddings, pad_token_id=None,
            **{name: value(c) for name, value in more.items()},
        )  # fmt: skip

    return build


HEAD_DIM = dict(head_dim=lambda c: c.head_dim)
LATENT = dict(
    q_lora_rank=lambda c: c.q_lora_rank, kv_lora_rank=lambda c: c.kv_lora_rank, v_head_dim=lambda c: c.v_head_dim,
    qk_rope_head_dim=lambda c: c.qk_rope_head_dim, qk_nope_head_dim=lambda c: c.qk_nope_head_dim,
)  # fmt: skip
EXPERTS = dict(
    n_routed_experts=lambda c: c.moe.n_routed_experts, n_shared_experts=lambda c: c.moe.n_shared_experts,
    moe_intermediate_size=lambda c: c.moe.d_ff_expert, first_k_dense_replace=lambda c: c.moe.n_dense_layers,
    num_experts_per_tok=lambda c: c.moe.experts_per_token,
)  # fmt: skip

ARCHITECTURES = {
    "gpt2-medium": gpt2,
    "gpt-j-6b": gpt_j,
    "bloom-7b1": bloom,
    "falcon-7b": falcon,
    "pythia-160m": usual(transformers.GPTNeoXConfig),
    "llama-2-13b": usual(transformers.LlamaConfig),
    "llama-3.2-3b": usual(transformers.LlamaConfig),
    "smollm2-360m": usual(transformers.LlamaConfig),
    "qwen2.5-7b": usual(transformers.Qwen2Config),
    "qwen3-0.6b": usual(transformers.Qwen3Config, **HEAD_DIM),
    "qwen3-32b": usual(transformers.Qwen3Config, **HEAD_DIM),
    "gemma-7b": usual(transformers.GemmaConfig, **HEAD_DIM),
    "gemma-3-4b": usual(transformers.Gemma3TextConfig, **HEAD_DIM),
    "phi-3-mini-4k": usual(transformers.Phi3Config),
    "starcoder2-7b": usual(transformers.Starcoder2Config),
    "olmo-2-7b": usual(transformers.Olmo2Config),
    "command-r-08-2024": usual(transformers.CohereConfig),
    "deepseek-v2-lite": usual(transformers.DeepseekV2Config, **LATENT, **EXPERTS),
    "minicpm3-4b": usual(transformers.MiniCPM3Config, **LATENT),
    "gpt-oss-120b": usual(transformers.GptOssConfig, **HEAD_DIM, num_local_experts=lambda c: c.moe.n_routed_experts),
}


def build(model: ModelConfig) -> torch.nn.Module:
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(ARCHITECTURES[model.id](model))


N_BUILT = 3  # layers; the others have as many parameters as the last of them


def attention_of(layer: torch.nn.Module) -> torch.nn.Module:
    names = ("self_attn", "attn", "attention", "self_attention")
    return next(getattr(layer, name) for name in names if hasattr(layer, name))


def layers_of(live: torch.nn.Module) -> torch.nn.ModuleList:
    decoder = live.base_model
    return next(getattr(decoder, name) for name in ("layers", "h") if hasattr(decoder, name))


def size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("id", UNCOUNTED)
def test_an_uncounted_model_has_as_many_parameters_as_transformers_builds(id):
    model = PRESETS[id]
    short = replace(model, n_layers=N_BUILT, full_layers=tuple(i for i in model.full_layers if i < N_BUILT))
    count, live = count_parameters(model), build(short)
    layers = layers_of(live)
    assert len(layers) == N_BUILT
    assert count.total == size(live) + (model.n_layers - N_BUILT) * size(layers[-1])
    assert count.attention_per_layer == size(attention_of(layers[0]))


@pytest.mark.parametrize("id", COUNTED)
def test_a_counted_model_has_exactly_its_counted_parameters_and_cache(id):
    model, counted = PRESETS[id], COUNTED[id]
    count = count_parameters(model)
    assert count.total == counted["total"]
    assert kv_cache_bytes(model, 1) == counted["cache_bytes_per_token"]
    if counted["attention_per_layer"] is not None:
        assert count.attention_per_layer == counted["attention_per_layer"]
    if counted["active"] is not None:
        assert count.active == counted["active"]


def test_each_published_model_is_counted_in_one_way_and_says_where_it_was_read():
    own = PRESETS.keys() - set(CONFIGURED)
    twice, nowhere = COUNTED.keys() & ARCHITECTURES.keys(), own - COUNTED.keys() - ARCHITECTURES.keys()
    assert not twice, f"counted in counted_models.json, so not needed in ARCHITECTURES: {twice}"
    assert not nowhere, f"add a builder to ARCHITECTURES, or an independent count to counted_models.json: {nowhere}"
    assert COUNTED.keys() | ARCHITECTURES.keys() == own, "a count of a model that is not in presets.json"
    for id, facts in published_facts().items():
        assert PRESETS[id].id == id and PRESETS[id].name
        assert facts["source"] and all(isinstance(source, str) and source for source in facts["source"])


@pytest.mark.parametrize(
    "id, bytes_per_token",
    [
        ("llama-2-7b", 524_288), ("llama-3-8b", 131_072), ("llama-2-13b", 819_200), ("llama-2-70b", 327_680),
        ("command-r-v01", 1_310_720), ("command-r-08-2024", 163_840), ("falcon-7b", 8_192), ("palm-540b", 120_832),
        ("llama-3.1-405b", 516_096), ("deepseek-v3", 70_272), ("kimi-k2", 70_272), ("gemma-3-27b", 507_904),
    ],
)  # fmt: skip
def test_cache_a_token_as_published_comparisons_give_it(id, bytes_per_token):
    assert kv_cache_bytes(PRESETS[id], 1) == bytes_per_token


def test_gemma_3_at_128k_tokens_keeps_a_sixth_of_what_it_would_without_windows():
    model = PRESETS["gemma-3-27b"]
    assert kv_cache_bytes(model, 131_072) == (10 * 131_072 + 52 * 1_024) * 8_192  # 10.4 GiB
    assert kv_cache_bytes(model, 131_072) < kv_cache_bytes(model, 1) * 131_072 / 5.9  # 62 GiB


def test_deepseek_expanded_would_take_every_heads_keys_and_values():
    assert expanded_cache_bytes(PRESETS["deepseek-v3"], 1) == 4_997_120
    assert expanded_cache_bytes(PRESETS["kimi-k2"], 1) == 2_498_560
