"""The costs of a model: parameters, KV cache, FLOPs and bytes of a decode step. Plain numbers from a `ModelConfig`."""

from attnviz.cost.accelerators import Accelerator, load_accelerators
from attnviz.cost.cache import (
    PRECISIONS,
    bits_with_scales,
    cache_numbers,
    cached_tokens,
    expanded_cache_bytes,
    kv_cache_bytes,
)
from attnviz.cost.decode import DecodeStep, decode_step, experts_read
from attnviz.cost.memory import MemoryPlan, plan_memory, tokens_that_fit, weight_bytes
from attnviz.cost.parameters import ParameterCount, count_parameters
from attnviz.cost.prefill import Prefill, prefill
from attnviz.cost.presets import load_presets
from attnviz.cost.serving import Serving
from attnviz.cost.variants import attention_name, comparison, what_if

__all__ = [
    "PRECISIONS",
    "Accelerator",
    "DecodeStep",
    "MemoryPlan",
    "ParameterCount",
    "Prefill",
    "Serving",
    "attention_name",
    "bits_with_scales",
    "cache_numbers",
    "cached_tokens",
    "comparison",
    "count_parameters",
    "decode_step",
    "expanded_cache_bytes",
    "experts_read",
    "kv_cache_bytes",
    "load_accelerators",
    "load_presets",
    "plan_memory",
    "prefill",
    "tokens_that_fit",
    "weight_bytes",
    "what_if",
]
