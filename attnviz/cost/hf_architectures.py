"""The Hugging Face architectures that can be counted: the reader of each, and the defaults of transformers'
configuration classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnviz.cost import hf_delta, hf_dense, hf_gemma, hf_hybrids, hf_latent, hf_mixtures
from attnviz.cost import hf_older_readers as older
from attnviz.cost import hf_readers as read
from attnviz.cost.hf_fields import Fields


@dataclass(frozen=True)
class Architecture:
    """One `model_type`. A field without a default is required; the default of head_dim is computed."""

    read: Callable[[Fields], dict[str, Any]]
    defaults: dict[str, Any]
    aliases: dict[str, str] = field(default_factory=dict)  # other name -> name


def _defaults(
    vocab: int, width: int, d_ff: int, layers: int, heads: int, kv_heads: int | None, context: int,
    tied: bool = False, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return defaults of the fields that most architectures share; kv_heads None: as many as query heads."""
    return {
        "vocab_size": vocab, "hidden_size": width, "intermediate_size": d_ff, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": context,
        "tie_word_embeddings": tied, **more,
    }  # fmt: skip


UNBIASED = {"attention_bias": False, "mlp_bias": False}
UNUSED_WINDOW: dict[str, Any] = {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28}
SPARSE: dict[str, Any] = {"decoder_sparse_step": 1, "mlp_only_layers": ()}
GPT = {"n_inner": None, "tie_word_embeddings": True}
FULL_MHA = _defaults(32000, 4096, 11008, 32, 32, None, 2048)
DEEPSEEK_V3 = _defaults(
    129280, 7168, 18432, 61, 128, None, 4096, moe_intermediate_size=2048, n_shared_experts=1, n_routed_experts=256,
    kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, v_head_dim=128, qk_nope_head_dim=128,
    num_experts_per_tok=8, first_k_dense_replace=3,
)  # fmt: skip
DEEPSEEK_V2 = _defaults(
    102400, 4096, 11008, 32, 32, None, 2048, moe_intermediate_size=1407, n_shared_experts=2, n_routed_experts=64,
    kv_lora_rank=512, q_lora_rank=1536, qk_rope_head_dim=64, v_head_dim=128, qk_nope_head_dim=128,
    first_k_dense_replace=0,
)  # fmt: skip
MINICPM3 = _defaults(
    73448, 2560, 6400, 62, 40, None, 32768, True, kv_lora_rank=256, q_lora_rank=768, qk_nope_head_dim=64,
    qk_rope_head_dim=32, v_head_dim=64,
)  # fmt: skip

ARCHITECTURES = {
    "llama": Architecture(read.llama, FULL_MHA | UNBIASED),
    "granite": Architecture(read.llama, FULL_MHA | UNBIASED),
    "smollm3": Architecture(read.smollm3, _defaults(128256, 2048, 11008, 36, 16, 4, 32768, True, **UNBIASED)),
    "mistral": Architecture(read.mistral, _defaults(32000, 4096, 14336, 32, 32, 8, 131072, sliding_window=4096)),
    "ministral": Architecture(read.ministral, _defaults(32000, 4096, 14336, 32, 32, 8, 131072, sliding_window=4096)),
    "mixtral": Architecture(read.mixtral, _defaults(
        32000, 4096, 14336, 32, 32, 8, 131072, sliding_window=None, num_local_experts=8, num_experts_per_tok=2)),
    "granitemoe": Architecture(read.granite_moe, FULL_MHA | {
        "attention_bias": False, "num_local_experts": 8, "num_experts_per_tok": 2}),
    "minimax_m2": Architecture(read.minimax_m2, _defaults(
        200064, 3072, 1536, 62, 48, 8, 196608, head_dim=128, num_local_experts=256, num_experts_per_tok=8)),
    "phimoe": Architecture(read.phi_moe, _defaults(
        32064, 4096, 6400, 32, 32, 8, 131072, sliding_window=None, attention_bias=False, lm_head_bias=False,
        num_local_experts=16, num_experts_per_tok=2)),
    "qwen2": Architecture(read.qwen2, _defaults(151936, 4096, 22016, 32, 32, 32, 32768, **UNUSED_WINDOW)),
    "qwen2_moe": Architecture(read.qwen2_moe, _defaults(
        151936, 2048, 5632, 24, 16, 16, 32768, moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
        num_experts_per_tok=4, num_experts=60, **UNUSED_WINDOW, **SPARSE)),
    "qwen3": Architecture(read.qwen3, _defaults(
        151936, 4096, 22016, 32, 32, 32, 32768, head_dim=128, attention_bias=False, **UNUSED_WINDOW)),
    "qwen3_moe": Architecture(read.qwen3_moe, _defaults(
        151936, 2048, 6144, 24, 32, 4, 32768, attention_bias=False, use_sliding_window=False, sliding_window=4096,
        moe_intermediate_size=768, num_experts_per_tok=8, num_experts=128, **SPARSE)),
    "gemma": Architecture(read.gemma, _defaults(
        256000, 3072, 24576, 28, 16, 16, 8192, True, head_dim=256, attention_bias=False)),
    "gemma2": Architecture(read.gemma2, _defaults(
        256000, 2304, 9216, 26, 8, 4, 8192, True, head_dim=256, attention_bias=False, sliding_window=4096)),
    "gemma3_text": Architecture(read.gemma3, _defaults(
        262208, 2304, 9216, 26, 8, 4, 131072, True, head_dim=256, attention_bias=False, sliding_window=4096,
        sliding_window_pattern=6)),
    "phi": Architecture(read.phi, _defaults(51200, 2048, 8192, 24, 32, None, 2048)),
    "phi3": Architecture(read.mistral, _defaults(32064, 3072, 8192, 32, 32, None, 4096, sliding_window=None)),
    "stablelm": Architecture(read.stablelm, _defaults(
        50304, 2560, 6912, 32, 32, 32, 4096, use_qkv_bias=False, use_parallel_residual=False)),
    "starcoder2": Architecture(read.starcoder2, _defaults(
        49152, 3072, 12288, 30, 24, 2, 4096, True, use_bias=True, sliding_window=None)),
    "olmo2": Architecture(read.olmo2, _defaults(50304, 4096, 11008, 32, 32, None, 2048, attention_bias=False)),
    "olmo3": Architecture(read.olmo3, _defaults(
        50304, 4096, 11008, 32, 32, None, 2048, attention_bias=False, sliding_window=4096)),
    "olmoe": Architecture(read.olmoe, _defaults(
        50304, 2048, 2048, 16, 16, None, 4096, attention_bias=False, num_experts_per_tok=8, num_experts=64)),
    "deepseek_v2": Architecture(read.deepseek, DEEPSEEK_V2),
    "deepseek_v3": Architecture(read.deepseek_v3, DEEPSEEK_V3),
    "minicpm3": Architecture(read.latent, MINICPM3),
    "gpt_oss": Architecture(read.gpt_oss, _defaults(
        201088, 2880, 2880, 36, 64, 8, 131072, head_dim=64, attention_bias=True, sliding_window=128,
        num_local_experts=128, num_experts_per_tok=4)),
    "glm": Architecture(read.glm, _defaults(
        151552, 4096, 13696, 40, 32, 2, 131072, head_dim=128, attention_bias=True)),
    "glm4": Architecture(read.glm4, _defaults(
        151552, 4096, 13696, 40, 32, 2, 131072, head_dim=128, attention_bias=True)),
    "glm4_moe": Architecture(read.glm4_moe, _defaults(
        151552, 4096, 10944, 46, 96, 8, 131072, attention_bias=False, use_qk_norm=False, moe_intermediate_size=1408,
        num_experts_per_tok=8, n_shared_experts=1, n_routed_experts=128, first_k_dense_replace=1)),
    "dots1": Architecture(read.dots1, _defaults(
        152064, 4608, 10944, 62, 32, 32, 2048, attention_bias=False, moe_intermediate_size=1408, n_shared_experts=None,
        first_k_dense_replace=0, sliding_window=4096, max_window_layers=62)),
    "chatglm": Architecture(older.chatglm, {
        "tie_word_embeddings": False, "add_bias_linear": False, "add_qkv_bias": False, "multi_query_attention": False}),
    "cohere": Architecture(read.cohere, _defaults(
        256000, 8192, 22528, 40, 64, None, 8192, True, attention_bias=False, use_qk_norm=False)),
    "cohere2": Architecture(read.cohere2, _defaults(
        256000, 8192, 22528, 40, 64, None, 8192, True, attention_bias=False, sliding_window=4096,
        sliding_window_pattern=4)),
    "ernie4_5": Architecture(read.ernie, _defaults(103424, 1024, 3072, 18, 16, 2, 131072, True, head_dim=128,
                                               use_bias=False)),
    "ernie4_5_moe": Architecture(read.ernie_moe, _defaults(
        103424, 2560, 12288, 28, 20, 4, 131072, True, moe_intermediate_size=1536, moe_k=6, moe_num_experts=64,
        moe_num_shared_experts=2, moe_layer_start_index=1)),
    "seed_oss": Architecture(read.seed_oss, _defaults(
        155136, 4096, 27648, 64, 80, 8, 524288, head_dim=128, attention_bias=True, attention_out_bias=False,
        mlp_bias=False)),
    "gpt2": Architecture(older.gpt2, GPT | {
        "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}),
    "gpt_bigcode": Architecture(older.gpt_bigcode, GPT | {
        "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "multi_query": True}),
    "gptj": Architecture(older.gptj, GPT | {
        "vocab_size": 50400, "n_positions": 2048, "n_embd": 4096, "n_layer": 28, "n_head": 16,
        "tie_word_embeddings": False}),
    "gpt_neox": Architecture(older.gpt_neox, _defaults(
        50432, 6144, 24576, 44, 64, None, 2048, attention_bias=True, use_parallel_residual=True)),
    "opt": Architecture(older.opt, {
        "vocab_size": 50272, "hidden_size": 768, "num_hidden_layers": 12, "ffn_dim": 3072,
        "max_position_embeddings": 2048, "num_attention_heads": 12, "enable_bias": True, "tie_word_embeddings": True}),
    "bloom": Architecture(older.bloom, {
        "vocab_size": 250880, "hidden_size": 64, "n_layer": 2, "n_head": 8, "tie_word_embeddings": True}),
    "mpt": Architecture(older.mpt, {
        "vocab_size": 50368, "d_model": 2048, "n_heads": 16, "n_layers": 24, "expansion_ratio": 4, "max_seq_len": 2048,
        "tie_word_embeddings": True}),
    "falcon": Architecture(older.falcon, {
        "vocab_size": 65024, "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "alibi": False,
        "new_decoder_architecture": False, "multi_query": True, "parallel_attn": True, "bias": False,
        "max_position_embeddings": 2048, "tie_word_embeddings": True}),
}  # fmt: skip
LAYERED: dict[str, Callable[[Fields], dict[str, Any]]] = {  # described layer by layer; defaults: hf_defaults.json
    "afmoe": hf_mixtures.afmoe, "apertus": hf_dense.apertus, "arcee": hf_dense.arcee,
    "aria_text": hf_mixtures.aria_text, "axk1": hf_latent.axk1, "bailing_hybrid": hf_delta.bailing_hybrid,
    "bamba": hf_hybrids.bamba, "beam": hf_mixtures.beam, "biogpt": hf_dense.biogpt, "bitnet": hf_dense.bitnet,
    "codegen": hf_dense.codegen, "cohere2_moe": hf_mixtures.cohere2_moe, "ctrl": hf_dense.ctrl, "cwm": hf_dense.cwm,
    "deepseek_v32": hf_latent.deepseek_v32,
    "deepseek_v4": hf_latent.deepseek_v4, "diffllama": hf_dense.diffllama, "doge": hf_dense.doge,
    "exaone4": hf_dense.exaone4, "exaone_moe": hf_mixtures.exaone_moe, "falcon_h1": hf_hybrids.falcon_h1,
    "falcon_mamba": hf_hybrids.mamba, "flex_olmo": hf_mixtures.flex_olmo, "flint": hf_mixtures.flint,
    "gemma3n_text": hf_gemma.gemma3n, "gemma4_text": hf_gemma.gemma4, "gemma4_unified_text": hf_gemma.gemma4_unified,
    "glm4_moe_lite": hf_latent.glm4_moe_lite, "glm_moe_dsa": hf_latent.glm_moe_dsa, "gpt_neo": hf_dense.gpt_neo,
    "helium": hf_dense.helium, "internlm3": hf_dense.internlm3,
    "iquestcoder": hf_dense.iquestcoder, "ministral3": hf_dense.ministral3,
    "gpt_neox_japanese": hf_dense.gpt_neox_japanese, "granite_swa": hf_dense.granite_swa,
    "granitemoe_swa": hf_mixtures.granite_moe_swa, "granitemoehybrid": hf_hybrids.granite_hybrid,
    "granitemoeshared": hf_mixtures.granite_moe_shared, "hunyuan_v1_dense": hf_dense.hunyuan,
    "hunyuan_v1_moe": hf_mixtures.hunyuan_moe, "hy_v3": hf_mixtures.hy_v3, "hyperclovax": hf_dense.hyperclovax,
    "jais2": hf_dense.jais2, "jamba": hf_hybrids.jamba, "kimi_linear": hf_delta.kimi_linear,
    "kolibri1": hf_mixtures.kolibri1, "laguna": hf_mixtures.laguna, "lfm2": hf_hybrids.lfm2,
    "lfm2_moe": hf_hybrids.lfm2_moe, "lfm3": hf_hybrids.lfm3, "llama4_text": hf_mixtures.llama4,
    "longcat_flash": hf_latent.longcat_flash, "mamba": hf_hybrids.mamba, "mamba2": hf_hybrids.mamba2,
    "mellum": hf_mixtures.mellum, "mimo_v2_flash": hf_mixtures.mimo_v2_flash, "minimax": hf_hybrids.minimax,
    "minimax_m3_vl_text": hf_mixtures.minimax_m3, "nanochat": hf_dense.nanochat, "nemotron": hf_dense.nemotron,
    "nemotron_h": hf_hybrids.nemotron_h, "olmo": hf_dense.olmo, "olmo_hybrid": hf_delta.olmo_hybrid,
    "persimmon": hf_dense.persimmon, "qwen3_5_moe_text": hf_delta.qwen3_5_moe, "qwen3_5_text": hf_delta.qwen3_5,
    "qwen3_next": hf_delta.qwen3_next, "rwkv": hf_hybrids.rwkv, "solar_open": hf_mixtures.solar_open,
    "vaultgemma": hf_dense.vaultgemma, "xglm": hf_dense.xglm, "youtu": hf_latent.youtu, "zamba": hf_hybrids.zamba,
}  # fmt: skip
_TABLE = Path(__file__).with_name("hf_defaults.json")
_DEFAULTS = json.loads(_TABLE.read_text(encoding="utf-8")) if _TABLE.exists() else {}
ARCHITECTURES |= {
    name: Architecture(reader, **_DEFAULTS.get(name, {"defaults": {}})) for name, reader in LAYERED.items()
}
ALIASES = {  # other model types with the same decoder
    "kimi_k2": "deepseek_v3", "gemma3": "gemma3_text", "qwen2_vl": "qwen2", "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe",
    "mistral3": "mistral", "llava": "llama", "llava_next": "llama", "llama4": "llama4_text",
    "gemma3n": "gemma3n_text", "gemma4": "gemma4_text", "gemma4_unified": "gemma4_unified_text",
    "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text", "fuyu": "persimmon", "aria": "aria_text",
    "gpt-sw3": "gpt2",
}  # fmt: skip
TIED_BY_EITHER = ("llava", "qwen2_vl", "qwen2_5_vl")  # older files of these name tied embeddings in text_config alone
CLASSES = {  # class name in `architectures`, used if no model_type is given
    name.replace("_", "").removesuffix("text"): name for name in ARCHITECTURES
} | {"gptneox": "gpt_neox", "gptbigcode": "gpt_bigcode", "rw": "falcon"}
