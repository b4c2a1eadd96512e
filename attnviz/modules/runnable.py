"""Which configurations run: the others raise ConfigError, and only their cost can be counted."""

from __future__ import annotations

from typing import Any

from attnviz.config import ConfigError, ModelConfig
from attnviz.mechanisms import (
    GATED,
    Dense,
    GatedDelta,
    Grouped,
    Indexed,
    IndexedGrouped,
    IndexedLatent,
    Latent,
    Layer,
    Mixer,
)
from attnviz.modules.building import BUILT, FEED_FORWARDS, activation_of
from attnviz.modules.rope_scaling import RopeScaling
from attnviz.phrases import listed

NONE, NO = (None,), (False,)
GROUPED_RUNS: dict[str, tuple] = {
    "qk_norm": (None, "head"), "chunked": NO, "v_head_dim": NONE, "values_are_keys": NO,
}  # fmt: skip
LATENT_RUNS: dict[str, tuple] = {"sink_logits": NO, "chunked": NO, "bias": NO, "gate": NONE}
RUNS: dict[type, dict[str, tuple]] = {  # values of fields that run, where not all do
    Grouped: GROUPED_RUNS,
    Latent: LATENT_RUNS,
    IndexedGrouped: {**GROUPED_RUNS, "sink_logits": NO, "gate": NONE, "reads_cache": NO},
    IndexedLatent: {**LATENT_RUNS, "shared": NO},
    GatedDelta: {"decay": NONE, "gate": ("full",)},
    Layer: {"n_norms": (2, 4), "parallel": NO, "shares_weights_of": NONE},
}
OF_ALL_LAYERS = {  # the same fields, of a ModelConfig
    "sink_logits": "attention_sinks", "n_norms": "norms_per_layer", "parallel": "parallel_block",
}  # fmt: skip


def check_runnable(c: ModelConfig) -> None:
    """Raise ConfigError for a field or a mechanism that only the cost formulas support."""
    runs: dict[str, tuple] = {
        "norm": ("rmsnorm", "layernorm"), "embedding_norm": NO, "lm_head_bias": NO, "head_rows": NONE,
        "position": ("rope", "none", "learned"), "other_parts": ((),), "norm_weights": (True,),
    }  # fmt: skip
    for name, values in runs.items():
        _check_runs(name, getattr(c, name), values)
    for _, layer in c.layer_counts:
        _check_layer(c, layer)
    for i, layer in enumerate(c.layers):
        _check_sharing(c, i, layer)
    if (most := max(layer.mixer.n_heads for layer in c.layers)) != c.n_heads:
        raise ConfigError(f"n_heads must be the most of any layer, {most}, not {c.n_heads}")
    if c.norm == "rmsnorm" and c.norm_bias:
        raise ConfigError("the live model runs with norm_bias = True in 'layernorm' only; cost can be counted")
    RopeScaling.of(c.rope_scaling, c.max_context)  # raises ConfigError
    if c.position == "rope" and not c.mixed_layers and c.rope_theta is None:
        raise ConfigError("the live model needs rope_theta, a number above 1, to rotate queries and keys; it is None")


def _check_layer(c: ModelConfig, layer: Layer) -> None:
    for part in layer.parts:
        if type(part) not in BUILT:
            why = part.cannot("run") if isinstance(part, Mixer) else ""
            raise ConfigError(why or f"the live model has no {part.called}; cost can be counted")
    if [isinstance(part, Mixer) for part in layer.parts] != [True, False]:
        parts = listed(part.called for part in layer.parts)
        raise ConfigError(
            f"each layer of the live model has one mixer, then one feed-forward, not {parts}; cost can be counted"
        )
    owners: tuple[Any, ...] = *layer.parts, layer
    for owner in owners:
        for name, values in RUNS.get(type(owner), {}).items():
            _check_runs(name if c.mixed_layers else OF_ALL_LAYERS.get(name, name), getattr(owner, name), values)
    (feed_forward,) = layer.feed_forwards
    if isinstance(feed_forward, Dense):
        activation = activation_of(c, feed_forward)
        _check_runs("ffn", activation, tuple(FEED_FORWARDS))
        if (activation in GATED) != feed_forward.gated:
            raise ConfigError(f"gated must be {activation in GATED} with {activation!r}, not {feed_forward.gated}")
    if type(layer.mixer) is Latent and not c.mixed_layers and (c.qk_norm or c.attention_scale or c.attention_softcap):
        raise ConfigError("latent attention runs without qk_norm, attention_scale and attention_softcap")
    if layer.mixer.sink_logits and layer.mixer.softcap is not None:
        raise ConfigError("sink_logits runs without softcap, which would bound the sink too")
    if isinstance(layer.mixer, Indexed) and layer.mixer.index_dim < layer.rotary_dim:
        raise ConfigError(f"index_dim must be at least {layer.rotary_dim}, the dimensions that RoPE rotates, "
                          f"not {layer.mixer.index_dim}")  # fmt: skip
    if layer.mixer.n_heads % layer.mixer.n_kv_heads:
        raise ConfigError(f"n_key_heads must divide n_heads = {layer.mixer.n_heads}, not {layer.mixer.n_kv_heads}")
    if layer.mixer.state() and not c.causal:
        raise ConfigError(f"{layer.mixer.called} runs with causal = True only: its state reads one token after another")
    if layer.rotary_dim % 2:
        raise ConfigError(f"qk_rope_head_dim must be even, to be split into pairs for RoPE, not {layer.rotary_dim}")


def _check_sharing(c: ModelConfig, index: int, layer: Layer) -> None:
    """Raise ConfigError unless a layer without keys and values can read those of the layer that it names."""
    source, name = layer.shares_cache_of, f"mixed_layers[{index}].shares_cache_of"
    if layer.mixer.reads_cache != (source is not None):
        needed = "must name a layer with reads_cache = True" if source is None else "needs reads_cache = True"
        raise ConfigError(f"{name} {needed}, in which a layer has no keys and values of its own")
    if source is None:
        return
    read = c.layers[source]
    keys = [(own.mixer.cached(), own.rotary_dim, own.rope_theta, own.rope_scaled) for own in (layer, read)]
    if read.mixer.reads_cache or keys[0] != keys[1]:
        raise ConfigError(
            f"{name} must be a layer with keys and values of its own and the same KV heads, head_dim and rotation, "
            f"not {source}"
        )


def _check_runs(name: str, value: object, values: tuple) -> None:
    if value not in values:
        raise ConfigError(
            f"the live model runs with {name} = {' or '.join(map(repr, values))} only, not {value!r}; "
            "cost can be counted"
        )
