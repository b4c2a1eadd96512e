"""Architectures that are not known: counted as a Llama where nothing in their config.json says otherwise."""

from __future__ import annotations

from attnviz.checks import shown
from attnviz.cost import hf_readers as read
from attnviz.cost.hf_architectures import UNBIASED, Architecture

LLAMA_FIELDS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size",
                "rms_norm_eps")  # fmt: skip
LLAMA_LIKE = Architecture(read.llama, UNBIASED | {"num_key_value_heads": None, "tie_word_embeddings": False})
UNLIKE_LLAMA = (  # in the names of fields
    "expert", "moe", "lora_rank", "mamba", "ssm", "conv", "linear_", "layer_norm", "layernorm", "qk_norm", "no_bias",
    "type_vocab", "encoder_layers", "cross_attention", "kv_shar", "share_kv", "laurel", "altup", "window_pattern",
    "vq_config", "lambda_std", "per_layer", "block_config", "cla_", "use_cla", "attn_layer", "attention_layer",
    "cycles", "post_norm",
)  # fmt: skip
HARMLESS = (  # lists and mappings that change no count; so do those of token ids
    "architectures", "auto_map", "rope_scaling", "rope_parameters", "layer_types", "no_rope_layers", "id2label",
    "label2id", "task_specific_params", "pruned_heads", "keys_to_ignore_at_inference", "quantization_config",
    "quantization", "compression_config", "transformers.js_config", "bad_words_ids", "suppress_tokens",
    "begin_suppress_tokens", "vision_config", "audio_config",
)  # fmt: skip
TOKEN_IDS = ("token_id", "token_ids")
NO_LLAMAS = (
    "exaone4",
    "hunyuan_v1_dense",
    "chameleon",
    "eurobert",
    "phi4_multimodal",
)  # their code differs where no field says so


def unlike_llama(name: str, decoder: dict) -> str:
    """Return how an architecture differs from Llama: "it has a sliding window, and Llama has none"; "" if no field of
    its config.json says so."""
    if name in NO_LLAMAS:
        return "its code normalises queries and keys or is no decoder, though no field says so"
    if missing := [field for field in LLAMA_FIELDS if field not in decoder]:
        return f"it has no field {missing[0]}, so its fields have other names, or it is built otherwise"
    for field, value in decoder.items():
        other_bias = field.endswith("bias") and field not in UNBIASED and value is True
        if value and (other_bias or any(part in field for part in UNLIKE_LLAMA)):
            return f"Llama has no field {field}"
        if value and isinstance(value, list | dict) and field not in HARMLESS and not field.endswith(TOKEN_IDS):
            return f"Llama has no field {field}, which may say something of each layer"
    if decoder.get("hidden_act", "silu") not in ("silu", "swish"):
        return f"hidden_act is {shown(decoder['hidden_act'])}, and in Llama it is 'silu'"
    if decoder.get("sliding_window") is not None and decoder.get("use_sliding_window") is not False:
        return "it has a sliding window, and Llama has none"
    kinds = decoder.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        return "layer_types names layers other than full_attention"
    return ""
