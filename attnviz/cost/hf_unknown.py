"""Fields of a config.json that the reader of its architecture does not know, and that may change its layers.

Newer models keep an older model_type and add fields: such a file is refused by name, since a count without the field
could be wrong.
"""

from __future__ import annotations

import re

from attnviz.checks import ConfigError, shown
from attnviz.cost.hf_fields import Fields

IRRELEVANT = re.compile(  # to parameters, caches and states
    r"token_id|dropout|pdrop|_eps$|epsilon|initializer|^rope_|theta|scaling|router_(?!hidden)|aux_loss|"
    r"attentions$|_states$|return_dict|dtype|use_cache|id2label|label2id|problem_type|chunk_size_feed|encoder|pruned|"
    r"architectures|softcap|norm_topk|n_group$|topk_group|time_step_(min|max|floor|limit)|transformers_version"
)
TELLING = re.compile(  # names of fields that may change parameters, caches or states
    r"expert|moe|gate|latent|lora|mamba|ssm|conv|linear|bias|share|laurel|altup|index|layer|window|attn|attention|"
    r"compress|hc_|head|mlp|ffn|kda|mla|sparse|norm|res_block|rank|width|hidden_size|dim|group|period|interval|pattern|"
    r"chunk|multi_query|kv|cycle|ple_|ngram|block"
)
HARMLESS: dict[str, tuple | None] = {  # field that changes no count -> its values that do not, None: any
    "moe_layer_freq": (1,), "attn_output_gate": (True,), "mamba_inner_layernorms": (True,),
    "mamba_ssm_cache_dtype": None,
    "mamba_hidden_act": None, "mlp_hidden_act": None, "moe_router_activation_func": None, "moe_router_dtype": None,
    "moe_router_enable_expert_bias": None, "use_grouped_topk": None, "mla_use_nope": None, "attn_implementation": None,
    "_attn_implementation": None, "_attn_implementation_autoset": None, "attn_temperature_tuning": None,
    "attn_scale": None, "for_llm_compressor": None, "index_share_for_mtp_iteration": None, "max_window_layers": None,
    "indexer_rope_interleave": None, "use_mamba_kernels": None, "mamba_dt_rank": None, "num_kv_heads": None,
    "query_pre_attn_scalar": None, "block_dim": None, "block_mlp_init_scale": None, "block_out_init_scale": None,
    "block_use_swiglu": (True,), "block_use_xavier_init": None, "block_norm_eps": None, "conv_dim": None,
    "conv_dim_out": None, "conv_use_xavier_init": None, "num_heads": None, "layer_norm_epsilon": None,
    "expand": None, "chunk_size": None, "partial_rotary_factor": None, "reorder_qk_norm": (True,),
    "is_moe_layer": None, "first_last_layers_hf": None, "use_bidirectional_attention": None,
}  # fmt: skip
KNOWN_PARTS = ("mtp_", "nextn", "vision_", "audio_", "rope_", "quantization")  # in names: counted apart, or not at all


def refuse_unknown_fields(name: str, f: Fields, others: tuple[str, ...]) -> None:
    """Raise ConfigError for the first field that may change the layers and that the reader does not know."""
    known = {
        *f.defaults,
        *(alias for several in f.aliases.values() for alias in several),
        *f.used,
        *f.assumed,
        *f.ignored,
        *others,
    }
    for field, value in f.config.items():
        if field in known or not value or IRRELEVANT.search(field) or not TELLING.search(field):
            continue
        if any(part in field for part in KNOWN_PARTS):
            continue
        if field in HARMLESS and (HARMLESS[field] is None or value in (HARMLESS[field] or ())):
            continue
        raise ConfigError(
            f"{field} = {shown(value)} is a field that AttnViz does not know in the architecture {name}: what it "
            "changes in the layers cannot be counted"
        )
