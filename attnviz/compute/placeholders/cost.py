"""Placeholders: what is chosen on the cost page, the published model and the accelerators."""

from __future__ import annotations

from attnviz.compute.placeholders.registry import placeholder
from attnviz.compute.view import View
from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, count_parameters, kv_cache_bytes, load_presets
from attnviz.cost.units import bytes_text, context_text, count_text
from attnviz.phrases import count


def _preset(view: View) -> ModelConfig:
    """Return the published model that is chosen."""
    return load_presets()[view.settings.preset]


@placeholder
def context(view: View) -> str:
    """The context chosen on the cost page: "32 K tokens"."""
    return context_text(view.settings.context)


@placeholder
def batch(view: View) -> str:
    """The sequences at once chosen on the cost page: "1 sequence"."""
    return count(view.settings.batch, "sequence")


@placeholder
def precision(view: View) -> str:
    """The precision of the cache chosen on the cost page."""
    return view.settings.precision


@placeholder
def published(view: View) -> str:
    """The published model that is chosen."""
    return _preset(view).name or view.settings.preset


@placeholder
def published_layers(view: View) -> str:
    """Its layers."""
    return str(_preset(view).n_layers)


@placeholder
def published_heads(view: View) -> str:
    """Its query heads."""
    return str(_preset(view).n_heads)


@placeholder
def published_kv_heads(view: View) -> str:
    """Its KV heads, counted."""
    return count(_preset(view).n_kv_heads, "KV head")


@placeholder
def published_head_dim(view: View) -> str:
    """Its head_dim."""
    return str(_preset(view).head_dim)


@placeholder
def published_parameters(view: View) -> str:
    """Its parameters: "8.03 B"."""
    return count_text(count_parameters(_preset(view)).total)


@placeholder
def published_cache(view: View) -> str:
    """Bytes that it caches per token, bf16."""
    return f"{kv_cache_bytes(_preset(view), 1):,} B"


@placeholder
def published_cache_at_context(view: View) -> str:
    """Its cache at the chosen context, sequences and precision."""
    s = view.settings
    bits, block = PRECISIONS[s.precision]
    return bytes_text(kv_cache_bytes(_preset(view), s.context, s.batch, bits, block_size=block))


@placeholder
def published_weights(view: View) -> str:
    """Its weights in bf16, in powers of 1,000 like the memory of accelerators: "16.1 GB"."""
    return bytes_text(2 * count_parameters(_preset(view)).total, binary=False)


@placeholder
def fitting_sequences(view: View) -> str:
    """Sequences of the chosen context that fit beside its weights on the chosen accelerators."""
    from attnviz.compute import cost

    return f"{cost.serving(view.settings).plan().n_users:,}"


@placeholder
def accelerator(view: View) -> str:
    """The chosen accelerators."""
    from attnviz.compute import cost

    return cost.serving(view.settings).accelerator.name


@placeholder
def decode_bound(view: View) -> str:
    """Tokens per second at most, for the chosen sequences together, by the roofline."""
    from attnviz.compute import cost

    return f"{cost.serving(view.settings).tokens_per_second(view.settings.batch):,.0f}"
