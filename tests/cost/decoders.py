"""Decoders as transformers builds them on the meta device: their parameters, and what their own cache objects hold."""

from __future__ import annotations

import json
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from attnviz.config import ModelConfig
from attnviz.cost.sums import caching
from attnviz.mechanisms import letter

ALL = tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
NOT_DECODERS = (  # text encoders, and decoders of encoder-decoders, which also have a class for causal models
    "bart bert bert-generation big_bird bigbird_pegasus blenderbot blenderbot-small camembert data2vec-text electra "
    "ernie git marian mbart megatron-bert moshi musicgen musicgen_melody mvp pegasus plbart prophetnet reformer "
    "rembert roberta roberta-prelayernorm roc_bert roformer trocr whisper xlm xlm-roberta xlm-roberta-xl xlnet xmod"
).split()  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {  # fields without which transformers cannot build the defaults
    "bamba": {"attn_layer_indices": [2, 7]},
    "deepseek_v2": {"num_experts_per_tok": 6, "moe_intermediate_size": 1408},
    "dots1": {"n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2},
    "granitemoehybrid": {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"]},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "lfm2_moe": {"num_hidden_layers": 4, "layer_types": ["conv", "conv", "full_attention", "conv"]},
    "modernbert-decoder": {"pad_token_id": 0},
}

TINY = {"vocab_size": 67, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10}
REAL = {  # sizes of models whose code reads numbers of a tensor, which a model without memory does not have
    "biogpt": {"vocab_size": 67, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 3,
               "intermediate_size": 24},
    "gemma3n_text": TINY | {"num_hidden_layers": 10, "num_kv_shared_layers": 4, "intermediate_size": 24,
                            "vocab_size_per_layer_input": 61, "hidden_size_per_layer_input": 12, "laurel_rank": 6},
    "longcat_flash": {"vocab_size": 67, "hidden_size": 32, "num_attention_heads": 4, "num_layers": 3,
                      "ffn_hidden_size": 24, "q_lora_rank": 20, "kv_lora_rank": 14, "qk_nope_head_dim": 10,
                      "qk_rope_head_dim": 6, "head_dim": 6, "v_head_dim": 8, "moe_topk": 3, "n_routed_experts": 8,
                      "zero_expert_num": 5, "expert_ffn_hidden_size": 16},
}  # fmt: skip


def configured(model_type: str, **fields: Any) -> transformers.PreTrainedConfig:
    """Return transformers' configuration of the decoder: of a model of several inputs, that of its text."""
    given = {"pad_token_id": None} | NEEDED.get(model_type, {}) | fields
    return transformers.AutoConfig.for_model(model_type, **given).get_text_config()


def built(configuration: transformers.PreTrainedConfig) -> torch.nn.Module:
    """Build a model without memory, in bfloat16, without which its experts cannot run on the meta device."""
    real = any(getattr(configuration, "vocab_size", 0) == sizes["vocab_size"] for sizes in REAL.values())
    with torch.device("cpu" if real else "meta"):
        return transformers.AutoModelForCausalLM.from_config(configuration, dtype=torch.bfloat16).eval()


def as_json(configuration: transformers.PreTrainedConfig) -> dict[str, Any]:
    """Return the configuration as a config.json with every field."""
    return json.loads(configuration.to_json_string(use_diff=False))


def n_parameters(live: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in live.parameters())


def n_unused(live: torch.nn.Module) -> int:
    """Return the parameters that transformers allocates for LongCat's experts without weights, half of each."""
    modules = [module for module in live.modules() if type(module).__name__ == "LongcatFlashExperts"]
    return sum(m.gate_up_proj[m.down_proj.shape[0] :].numel() for m in modules)


def held(live: torch.nn.Module, n_tokens: int) -> int:
    """Return how many numbers the model's own cache holds after a prompt of n_tokens."""
    device = next(live.parameters()).device
    with torch.inference_mode(), device:
        output = live(input_ids=torch.zeros(1, n_tokens, dtype=torch.long), use_cache=True)
    given = [getattr(output, name, None) for name in ("past_key_values", "cache_params", "state")]
    tensors: dict[int, torch.Tensor] = {}
    _collect([each for each in given if each is not None], tensors, set())
    return sum(tensor.numel() for tensor in tensors.values() if tensor.numel() > 1)  # single numbers count tokens


def _collect(found: object, tensors: dict[int, torch.Tensor], seen: set[int]) -> None:
    """Gather each tensor in a cache object once, however deep it is."""
    if isinstance(found, torch.Tensor):
        tensors[id(found)] = found
    elif isinstance(found, list | tuple):
        for each in found:
            _collect(each, tensors, seen)
    elif isinstance(found, dict):
        _collect(list(found.values()), tensors, seen)
    elif hasattr(found, "__dict__") and id(found) not in seen:
        seen.add(id(found))
        _collect(list(vars(found).values()), tensors, seen)


def expected(model: ModelConfig, n_tokens: int) -> int:
    """Return the numbers that AttnViz counts, less the one token that transformers' windows do not hold.

    A window of W keys, the query's own included, leaves W - 1 tokens for the next query; AttnViz counts the W attended.
    """
    S, found = letter("S", n_tokens), 0
    for n, mixer in caching(model):
        window = getattr(mixer, "window", None)
        for i, (entries, vectors) in enumerate(mixer.stores(S)):
            kept = int(entries.value) if window is None or i else min(n_tokens, window - 1)
            found += n * kept * sum(len(v.parts) * v.number * int(v.width.number) for v in vectors)
        found += n * sum(int(state.numbers.value) for state in mixer.state())
    return found
