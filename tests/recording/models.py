"""Random models of transformers: small, with sizes that are distinct primes where the architecture allows it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

VOCAB = 331
IDS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
GQA = dict(
    vocab_size=VOCAB, hidden_size=36, intermediate_size=28, num_hidden_layers=3, num_attention_heads=6,
    num_key_value_heads=2, head_dim=14, max_position_embeddings=97, **IDS,
)  # fmt: skip
MHA = dict(vocab_size=VOCAB, hidden_size=35, intermediate_size=37, num_hidden_layers=3, num_attention_heads=5)
TWO = dict(
    vocab_size=VOCAB, d_model=60, encoder_layers=3, decoder_layers=2, encoder_attention_heads=5,
    decoder_attention_heads=3, encoder_ffn_dim=37, decoder_ffn_dim=41, max_position_embeddings=61,
)  # fmt: skip
PICTURE = dict(hidden_size=35, intermediate_size=37, num_hidden_layers=3, num_attention_heads=5, patch_size=8)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=12)


def random(model: str, config: str, eager: bool = False, spread: float = 0.4, **fields: Any) -> Any:
    """Return a model with weights of this spread: those that transformers draws give nearly uniform attention."""
    torch.manual_seed(7)
    made = getattr(hf, config)(**fields)
    built = getattr(hf, model)._from_config(made, attn_implementation="eager" if eager else None)
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, spread)
    return built


def eager_copy(model: Any) -> Any:
    """Return the model with the same weights, made with eager attention: what it returns is transformers' own."""
    made = type(model)._from_config(copy.deepcopy(model.config), attn_implementation="eager")
    made.load_state_dict(model.state_dict())
    return made.to(model.dtype).eval()


DECODERS: dict[str, Callable[[], Any]] = {
    "Llama": lambda: random("LlamaForCausalLM", "LlamaConfig", **GQA, attention_bias=True),
    "Qwen3": lambda: random("Qwen3ForCausalLM", "Qwen3Config", **GQA),
    "Mistral, window": lambda: random("MistralForCausalLM", "MistralConfig", **GQA, sliding_window=5),
    "Gemma 2, capped": lambda: random(
        "Gemma2ForCausalLM", "Gemma2Config", **GQA, sliding_window=5, query_pre_attn_scalar=19,
        attn_logit_softcapping=2.0,
    ),
    "Gemma 3, windows": lambda: random(
        "Gemma3ForCausalLM", "Gemma3TextConfig", **GQA, sliding_window=5, query_pre_attn_scalar=19,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "gpt-oss, sinks": lambda: random(
        "GptOssForCausalLM", "GptOssConfig", **GQA, sliding_window=5, num_local_experts=3, num_experts_per_tok=2
    ),
    "GPT-2": lambda: random("GPT2LMHeadModel", "GPT2Config", vocab_size=VOCAB, n_embd=35, n_head=5, n_layer=3,
                            n_positions=61, **IDS),
    "GPT-NeoX": lambda: random("GPTNeoXForCausalLM", "GPTNeoXConfig", **MHA | dict(hidden_size=60), rotary_pct=0.5),
    "Phi": lambda: random("PhiForCausalLM", "PhiConfig", **MHA | dict(hidden_size=60, num_attention_heads=6), **IDS,
                          num_key_value_heads=3, partial_rotary_factor=0.4),
    "OLMo 2": lambda: random("Olmo2ForCausalLM", "Olmo2Config", **MHA | dict(hidden_size=60, num_attention_heads=6),
                             num_key_value_heads=2, **IDS),
    "BLOOM, ALiBi": lambda: random("BloomForCausalLM", "BloomConfig", vocab_size=VOCAB, hidden_size=35,
                                   n_layer=3, n_head=5),
    "Falcon, MQA": lambda: random("FalconForCausalLM", "FalconConfig", True, **MHA | dict(hidden_size=60), **IDS,
                                  multi_query=True, new_decoder_architecture=False),
    "DeepSeek-V3, MLA": lambda: random(
        "DeepseekV3ForCausalLM", "DeepseekV3Config", **GQA | dict(num_key_value_heads=6, head_dim=6), **EXPERTS,
        q_lora_rank=13, kv_lora_rank=11, qk_rope_head_dim=6, qk_nope_head_dim=7, v_head_dim=9, n_routed_experts=4,
        n_group=2, topk_group=1, first_k_dense_replace=1,
    ),
    "Qwen3-Next, linear": lambda: random(
        "Qwen3NextForCausalLM", "Qwen3NextConfig", **GQA | dict(num_hidden_layers=8), **EXPERTS, num_experts=3,
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
        shared_expert_intermediate_size=12,
    ),
}  # fmt: skip
ENCODERS: dict[str, Callable[[], Any]] = {
    "BERT": lambda: random("BertForMaskedLM", "BertConfig", **MHA, max_position_embeddings=61),
    "RoBERTa": lambda: random("RobertaModel", "RobertaConfig", **MHA, max_position_embeddings=61),
    "DistilBERT": lambda: random("DistilBertModel", "DistilBertConfig", vocab_size=VOCAB, dim=35, hidden_dim=37,
                                 n_layers=3, n_heads=5, max_position_embeddings=61),
    "ModernBERT": lambda: random("ModernBertModel", "ModernBertConfig", **MHA | dict(hidden_size=60), **IDS,
                                 local_attention=6, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2),
    "ALBERT": lambda: random("AlbertModel", "AlbertConfig", **MHA, embedding_size=23),
}  # fmt: skip
TWO_TEXTS: dict[str, Callable[[], Any]] = {
    "T5": lambda: random("T5ForConditionalGeneration", "T5Config", vocab_size=VOCAB, d_model=31, d_kv=7, d_ff=37,
                         num_layers=3, num_decoder_layers=2, num_heads=5, relative_attention_num_buckets=11,
                         decoder_start_token_id=0, pad_token_id=0, eos_token_id=2),
    "BART": lambda: random("BartForConditionalGeneration", "BartConfig", **TWO, **IDS, decoder_start_token_id=2),
    "Marian": lambda: random("MarianMTModel", "MarianConfig", **TWO, pad_token_id=0, eos_token_id=2,
                             decoder_start_token_id=0),
}  # fmt: skip
TEXTS = DECODERS | ENCODERS | TWO_TEXTS
PICTURES: dict[str, tuple[Callable[[], Any], list[str]]] = {  # with the tokens before the patches
    "ViT": (lambda: random("ViTModel", "ViTConfig", **PICTURE, image_size=[56, 40]), ["[CLS]"]),
    "DeiT": (lambda: random("DeiTModel", "DeiTConfig", **PICTURE, image_size=[56, 40]), ["[CLS]", "[DIST]"]),
    "DINOv2, registers": (
        lambda: random("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", **PICTURE, image_size=56,
                       num_register_tokens=3),
        ["[CLS]", "[REG 1]", "[REG 2]", "[REG 3]"],
    ),
    "SigLIP": (lambda: random("SiglipVisionModel", "SiglipVisionConfig", **PICTURE, image_size=40), []),
}  # fmt: skip
