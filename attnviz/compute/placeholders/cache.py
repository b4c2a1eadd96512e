"""Placeholders: cache, parameters and loss of the model."""

from __future__ import annotations

from attnviz.compute.placeholders.registry import MISSING, percent, placeholder
from attnviz.compute.view import View
from attnviz.cost import count_parameters, expanded_cache_bytes, kv_cache_bytes

FLOAT32 = 32  # bits: the small models run in float32, and their pages count its bytes


def _bytes_per_token(view: View) -> int:
    return kv_cache_bytes(view.config, 1, bits=FLOAT32)


def _mha_bytes_per_token(view: View) -> int:
    from attnviz.compute import models, query_groups

    return kv_cache_bytes(models.config_of(query_groups.base_of(view.settings)), 1, bits=FLOAT32)


@placeholder
def cache(view: View) -> str:
    """Bytes that the model caches per token, float32 as it runs."""
    return f"{_bytes_per_token(view):,} B"


@placeholder
def cache_mha(view: View) -> str:
    """Bytes that the same model as MHA caches per token, float32."""
    return f"{_mha_bytes_per_token(view):,} B"


@placeholder
def cache_share(view: View) -> str:
    """The model's cache, as a share of that of MHA."""
    return percent(_bytes_per_token(view) / _mha_bytes_per_token(view))


@placeholder
def cache_expanded(view: View) -> str:
    """Bytes per token if MLA cached keys and values in place of the latent, float32."""
    expanded = expanded_cache_bytes(view.config, 1, bits=FLOAT32)
    return cache(view) if expanded is None else f"{expanded:,} B"


@placeholder
def parameters(view: View) -> str:
    """Parameters of the model."""
    return f"{count_parameters(view.config).total:,}"


@placeholder
def text_loss(view: View) -> str:
    """The loss on the text, in nats per token."""
    from attnviz.analysis.groups import next_token_losses

    if len(view.ids) < 2:
        return MISSING
    return f"{float(next_token_losses(view.trace.logits, view.trace.tokens).mean()):.2f}"
