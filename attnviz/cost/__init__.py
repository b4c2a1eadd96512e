"""The costs of a model: parameters, KV cache, FLOPs and bytes of a decode step.

`parameters`, `cache`, `decode_cost` and `prefill_cost` return expressions of a `ModelConfig`, the others numbers.
"""

from attnviz.cost.accelerators import Accelerator, load_accelerators, of_memory
from attnviz.cost.answer import Answer, of_accelerators, of_models
from attnviz.cost.cached import cache, cached_tokens, expanded_cache_bytes, kv_cache_bytes
from attnviz.cost.decode import DecodeStep, decode_cost, decode_step, uncached_cost
from attnviz.cost.memory import MemoryPlan, plan_memory, tokens_that_fit, weight_bytes
from attnviz.cost.precisions import PRECISIONS, bits_with_scales, precision_of, with_its_scales
from attnviz.cost.prefill import Prefill, prefill, prefill_cost
from attnviz.cost.presets import load_described, load_presets
from attnviz.cost.serving import Serving
from attnviz.cost.variants import attention_name, comparison, summary, what_if
from attnviz.cost.weights import ParameterCount, count_parameters, parameters

__all__ = [
    "PRECISIONS",
    "Accelerator",
    "Answer",
    "DecodeStep",
    "MemoryPlan",
    "ParameterCount",
    "Prefill",
    "Serving",
    "attention_name",
    "bits_with_scales",
    "cache",
    "cached_tokens",
    "comparison",
    "count_parameters",
    "decode_cost",
    "decode_step",
    "expanded_cache_bytes",
    "kv_cache_bytes",
    "load_accelerators",
    "load_described",
    "load_presets",
    "of_accelerators",
    "of_memory",
    "of_models",
    "parameters",
    "plan_memory",
    "precision_of",
    "prefill",
    "prefill_cost",
    "summary",
    "tokens_that_fit",
    "uncached_cost",
    "weight_bytes",
    "what_if",
    "with_its_scales",
]
