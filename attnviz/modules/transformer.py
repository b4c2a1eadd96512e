"""Pre-norm block and decoder-only Transformer, configurable as Llama, Mistral, Qwen, GPT-2 or Gemma.

B batch, T tokens, C d_model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.config import PER_LAYER, RUN_FIELDS, ConfigError, ModelConfig
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
from attnviz.modules.attention import Attended, GroupedQueryAttention
from attnviz.modules.cache import KVCache, StateCache
from attnviz.modules.delta import GatedDeltaNet
from attnviz.modules.embedding import PositionEmbedding, ScaledEmbedding, empty_embedding
from attnviz.modules.extended import CacheReadingAttention, ExtendedAttention, Passing, SharedCache
from attnviz.modules.feedforward import GeGLU, GELUFeedForward, SwiGLU
from attnviz.modules.indexed import SparseAttention, SparseLatentAttention
from attnviz.modules.latent import MultiHeadLatentAttention
from attnviz.modules.masks import attention_mask, intersection
from attnviz.modules.norm import LayerNorm, RMSNorm
from attnviz.modules.rope import Rope
from attnviz.modules.rope_scaling import RopeScaling, scaled_rope_frequencies
from attnviz.modules.shallow import with_own_parts
from attnviz.phrases import listed

FEED_FORWARDS = {"swiglu": SwiGLU, "geglu": GeGLU, "gelu": GELUFeedForward}


def _grouped(model: ModelConfig, c: Grouped) -> nn.Module:
    kind, own = _kind_of(c)
    return kind(
        model.d_model, c.n_heads, c.n_kv_heads, head_dim=c.head_dim, qkv_bias=c.qkv_bias, out_bias=c.o_bias,
        qk_norm=None if c.qk_norm is None else lambda D: RMSNorm(D, model.norm_eps), scale=c.scale, softcap=c.softcap,
        **own,
    )  # fmt: skip


def _kind_of(c: Grouped) -> tuple[type[nn.Module], dict[str, Any]]:
    """Return the class of this grouped-query attention, with the options that it alone has."""
    if isinstance(c, IndexedGrouped):
        return SparseAttention, _indexer(c)
    if not (c.sink_logits or c.gate or c.reads_cache):
        return GroupedQueryAttention, {}
    kind = CacheReadingAttention if c.reads_cache else ExtendedAttention
    return kind, {"sink_logits": c.sink_logits, "gate": c.gate, "gate_bias": c.gate_bias}


def _latent(model: ModelConfig, c: Latent) -> nn.Module:
    return MultiHeadLatentAttention(model.d_model, c.n_heads, **_sizes(c))


def _sizes(c: Latent) -> dict[str, Any]:
    return {name: getattr(c, name) for name in c.own_fields}


def _indexed_latent(model: ModelConfig, c: IndexedLatent) -> nn.Module:
    return SparseLatentAttention(model.d_model, c.n_heads, **_sizes(c), **_indexer(c))


def _indexer(c: Indexed) -> dict[str, Any]:
    return {"top_k": c.top_k, "n_index_heads": c.n_index_heads, "index_dim": c.index_dim}


def _delta(model: ModelConfig, c: GatedDelta) -> nn.Module:
    return GatedDeltaNet(
        model.d_model, c.n_heads, c.n_key_heads, key_dim=c.key_dim, head_dim=c.head_dim, taps=c.taps,
        norm_eps=model.norm_eps,
    )  # fmt: skip


def _dense(model: ModelConfig, c: Dense) -> nn.Module:
    return FEED_FORWARDS[_activation(model, c)](model.d_model, c.d_ff, bias=c.bias)


def _activation(model: ModelConfig, c: Dense) -> str:
    """Return a feed-forward's activation: its own, or the model's."""
    return model.ffn if c.activation is None else c.activation


BUILT: dict[type, Callable[[ModelConfig, Any], nn.Module]] = {  # how each mechanism that runs is built
    Grouped: _grouped, IndexedGrouped: _grouped, Latent: _latent, IndexedLatent: _indexed_latent,
    GatedDelta: _delta, Dense: _dense,
}  # fmt: skip
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


def build_attention(c: ModelConfig, layer: Layer | None = None) -> nn.Module:
    """Build the attention of one layer of this model, by default the first."""
    mixer = (layer or c.layers[0]).mixer
    return BUILT[type(mixer)](c, mixer)


def build_feed_forward(c: ModelConfig, layer: Layer) -> nn.Module:
    """Build the feed-forward of one layer of this model."""
    (part,) = layer.feed_forwards
    return BUILT[type(part)](c, part)


def build_norm(c: ModelConfig) -> RMSNorm | LayerNorm:
    """Build one of this model's norms over d_model."""
    return LayerNorm(c.d_model, c.norm_eps, c.norm_bias) if c.norm == "layernorm" else RMSNorm(c.d_model, c.norm_eps)


def build_embedding(c: ModelConfig) -> nn.Embedding:
    """Build the token embedding, with learned positions or a scale if the model has them."""
    if c.position == "learned":
        return PositionEmbedding(c.vocab_size, c.d_model, c.learned_position_rows or 0)
    if c.embedding_scale is not None:
        return ScaledEmbedding(c.vocab_size, c.d_model, c.embedding_scale)
    return nn.Embedding.from_pretrained(empty_embedding(c.vocab_size, c.d_model), freeze=False)


class Block(nn.Module):
    """Pre-norm block of a layer (by default the first): x + attn(norm(x)), then x + ffn(norm(x))."""

    def __init__(self, config: ModelConfig, layer: Layer | None = None) -> None:
        super().__init__()
        layer = layer or config.layers[0]
        self.attn_norm = build_norm(config)
        self.attn = build_attention(config, layer)
        self.ffn_norm = build_norm(config)
        self.ffn = build_feed_forward(config, layer)

    def forward(self, x: Tensor, **attention: Any) -> Tensor:
        """Map x (B, T, C) to (B, T, C); `attention` are the options of the attention's forward."""
        x = x + self.attn(self.attn_norm(x), **attention)
        return x + self.ffn(self.ffn_norm(x))

    def after_attention(self, written: Tensor) -> Tensor:
        """Map the attention's output to what is added to the residual stream: here unchanged."""
        return written

    def after_feed_forward(self, written: Tensor) -> Tensor:
        """Map the feed-forward's output to what is added to the residual stream: here unchanged."""
        return written


class SandwichBlock(Block):
    """Sandwich-norm block, x + norm(attn(norm(x))), then x + norm(ffn(norm(x))), as in Gemma 2 and 3."""

    def __init__(self, config: ModelConfig, layer: Layer | None = None) -> None:
        super().__init__(config, layer)
        self.attn_post_norm = build_norm(config)
        self.ffn_post_norm = build_norm(config)

    def forward(self, x: Tensor, **attention: Any) -> Tensor:
        """Map x (B, T, C) to (B, T, C); `attention` are the options of the attention's forward."""
        x = x + self.attn_post_norm(self.attn(self.attn_norm(x), **attention))
        return x + self.ffn_post_norm(self.ffn(self.ffn_norm(x)))

    def after_attention(self, written: Tensor) -> Tensor:
        """Map the attention's output to what is added to the residual stream: its norm."""
        return self.attn_post_norm(written)

    def after_feed_forward(self, written: Tensor) -> Tensor:
        """Map the feed-forward's output to what is added to the residual stream: its norm."""
        return self.ffn_post_norm(written)


class Transformer(nn.Module):
    """Decoder-only Transformer: embedding, n_layers blocks, final norm, logits. Not modified after loading."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_runnable(config)
        self.config = config
        self.embed: Any = build_embedding(config)  # Any: experiments may replace it
        kinds = {2: Block, 4: SandwichBlock}
        blocks = (kinds[layer.n_norms](config, layer) for layer in config.layers)
        self.blocks: Any = nn.ModuleList(blocks)  # Any: torch types no elements
        self.norm = build_norm(config)
        self.lm_head = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)

    @classmethod
    def random(cls, config: ModelConfig, seed: int) -> Transformer:
        """Build an untrained model whose weights depend only on config and seed, in evaluation mode.

        Weights are normal with standard deviation 1 / sqrt(fan-in), so that scores q·k / sqrt(D) have a standard
        deviation of about 1 and an untrained map is not uniform; projections to the residual stream are smaller by
        sqrt(2 · n_layers) (GPT-2's rule). The global random state is neither read nor changed.
        """
        with torch.device("meta"):
            model = cls(config)
        generator, weights = torch.Generator().manual_seed(seed), dict[str, Tensor]()
        for prefix, module in model.named_modules():
            if isinstance(module, GatedDeltaNet):
                weights |= {f"{prefix}.{name}": drawn for name, drawn in module.drawn(generator).items()}
        for name, p in model.named_parameters():
            if name in weights:
                continue
            if name.endswith("norm.weight"):
                weights[name] = torch.ones(p.shape)
            elif name.endswith("bias"):
                weights[name] = torch.zeros(p.shape)
            else:
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                std = p.shape[-1] ** -0.5 / ((2 * config.n_layers) ** 0.5 if residual else 1.0)
                weights[name] = torch.empty(p.shape).normal_(0.0, std, generator=generator)
        model.load_state_dict(weights, assign=True)
        return model.eval()

    def with_config(self, config: ModelConfig) -> Transformer:
        """Return a model with the same modules, not copied, and another config (RoPE off or scaled, another window).

        ConfigError if the config needs different tensors.
        """
        check_runnable(config)
        if (config.position == "learned") != (self.config.position == "learned"):
            raise ConfigError(f"position must stay {self.config.position!r}, with which these weights were trained")
        fixed = [
            f.name for f in fields(config) if f.name not in RUN_FIELDS or (config.mixed_layers and f.name in PER_LAYER)
        ]
        for name in fixed:
            ours, theirs = (_of_weights(name, getattr(c, name)) for c in (self.config, config))
            if ours != theirs:
                raise ConfigError(
                    f"{name} must stay {getattr(self.config, name)!r}, as in these weights, not "
                    f"{getattr(config, name)!r}"
                )
        other = with_own_parts(self)
        other.config = config  # read only by forward(): no submodule stores values that may differ
        return other

    def with_attentions(self, attentions: Mapping[int, nn.Module]) -> Transformer:
        """Return the model with the attention modules of some layers replaced; all others are shared, not copied."""
        other = with_own_parts(self)
        other.blocks = nn.ModuleList(self.blocks)
        for layer, attn in attentions.items():
            other.blocks[layer] = block = with_own_parts(self.blocks[layer])
            block.attn = attn
        return other

    def new_cache(self) -> list[Any]:
        """Return an empty KV cache per layer, or an empty state where the layer keeps one.

        A layer that reads another layer's cache has one to which nothing is appended.
        """
        mixers = (layer.mixer for layer in self.config.layers)
        return [StateCache() if m.state() else SharedCache() if m.reads_cache else KVCache() for m in mixers]

    def rope(self, layer: int = 0, length: int | None = None) -> Rope | None:
        """Return the rotation of a layer's q and k for a text of this many tokens; None without RoPE.

        Only dynamic NTK and LongRoPE depend on the length. Cached keys are not rotated again, so with these two
        decoding equals recomputing only while the frequencies do not change.
        """
        c, own = self.config, self.config.layers[layer]
        if own.rope_theta is None or not own.rotary_dim:
            return None
        scaling = RopeScaling.of(c.rope_scaling, c.max_context) if own.rope_scaled else None
        frequencies = _frequencies(own.rotary_dim, own.rope_theta, scaling, length if scaling else None)
        if scaling is None:
            return Rope(frequencies, c.rope_layout)
        return Rope(frequencies, c.rope_layout, scaling.attention_factor, scaling.latent_softmax_factor)

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        cache: list[Any] | None = None,
        record: Callable[..., None] | None = None,
        absorbed: bool = False,
        kernel: Callable[..., Attended] | None = None,
    ) -> Tensor:
        """Map ids (B, T), whole numbers below vocab_size, to logits (B, T, vocab_size).

        mask: bool, True = may attend, broadcastable to (B, H, T, S). cache: one per layer, as `new_cache` makes them.
        record: callback for the intermediate tensors of each layer's attention, for example a `Recording`.
        absorbed: run the layers that have an absorbed form (MLA) in it: fewer multiplications if few tokens read a long
        cache.
        kernel: called in place of `attend` in each layer that attends, for example one that returns no weights.
        """
        past = len(cache[0]) if cache else 0
        options = self.attention_options(ids.shape[1], past, mask, cache)
        if absorbed:
            options = [
                {**option, "absorbed": True} if layer.mixer.absorbed else option
                for option, layer in zip(options, self.config.layers, strict=True)
            ]
        if kernel:
            options = [
                {**option, "kernel": kernel} if layer.mixer.attends else option
                for option, layer in zip(options, self.config.layers, strict=True)
            ]
        place = {"start": past} if self.config.position == "learned" else {}
        x = self.embed(ids, **place)  # (B, T, C)
        for block, option in zip(self.blocks, options, strict=True):
            x = block(x, record=record, **option)
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """Map the last block's output, (B, T, C), to logits (B, T, vocab_size)."""
        x = self.norm(x)
        if self.config.logit_softcap is not None:
            return self.config.logit_softcap * (self.unembedded(x) / self.config.logit_softcap).tanh()
        return F.linear(x, self.embed.weight) if self.lm_head is None else self.lm_head(x)

    def unembedded(self, x: Tensor) -> Tensor:
        """Multiply x (..., C) by the unembedding: (..., vocab_size)."""
        return F.linear(x, self.embed.weight) if self.lm_head is None else self.lm_head(x)

    def attention_options(
        self, n_tokens: int, past: int = 0, mask: Tensor | None = None, cache: Sequence[Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return the options of each layer's attention for n_tokens after `past` cached ones: its rope, its mask
        combined with `mask`, and its cache. Layers with the same window share a mask, layers with the same rotation a
        rope, and layers with the same keys and values what these are passed on in: run the layers in order."""
        c, device, total = self.config, self.embed.weight.device, past + n_tokens
        patterns = {
            (window, n_sinks): attention_mask(
                n_tokens, total, causal=c.causal, window=window, n_sinks=n_sinks, offset=past, device=device
            )  # (T, S) or None
            for window, n_sinks in {(layer.mixer.window, layer.mixer.n_sinks) for layer in c.layers}
        }
        masks = {seen: intersection(pattern, mask) for seen, pattern in patterns.items()}
        ropes = {(layer.rotary_dim, layer.rope_theta, layer.rope_scaled): i for i, layer in enumerate(c.layers)}
        rotations = {rotation: self.rope(i, total) for rotation, i in ropes.items()}
        return [
            {
                "mask": masks[layer.mixer.window, layer.mixer.n_sinks],
                "rope": rotations[layer.rotary_dim, layer.rope_theta, layer.rope_scaled],
                **({} if own is None else {"cache": own}),
            }
            for layer, own in zip(c.layers, self._caches(cache), strict=True)
        ]

    def _caches(self, cache: Sequence[Any] | None) -> list[Any]:
        """Return each layer's cache: its own, or one `Passing` for a layer and those that read its keys and values."""
        own = [None] * len(self.blocks) if cache is None else cache
        sources = [i if layer.shares_cache_of is None else layer.shares_cache_of
                   for i, layer in enumerate(self.config.layers)]  # fmt: skip
        passing = {i: Passing(own[i]) for i in sources if sources.count(i) > 1}
        return [passing.get(source, own[source]) for source in sources]


@lru_cache(64)
@torch.inference_mode(False)  # inference tensors cannot be used with autograd
def _frequencies(rotary_dim: int, theta: float, scaling: RopeScaling | None, length: int | None) -> Tensor:
    """Cache `scaled_rope_frequencies`, on the CPU: each decode step needs the same ones."""
    with torch.device("cpu"):  # within torch.device("meta") they would be cached without numbers
        return scaled_rope_frequencies(rotary_dim, theta, scaling, length)


@torch.inference_mode()
def layer_input(
    model: Transformer,
    token_ids: Sequence[int] | Sequence[Sequence[int]],
    layer: int,
    record: Callable[..., None] | None = None,
    options: Sequence[dict[str, Any]] | None = None,
) -> Tensor:
    """Compute the input of this layer's attention, the normed hidden states: (B, T, C).

    token_ids: of one text, (T,), or of B texts of one length, (B, T). record: callback for the layers before it.
    options: of all layers, `model.attention_options(T)`, if the layer itself is run with them afterwards.
    """
    x = model.embed(torch.atleast_2d(torch.as_tensor(token_ids)))
    for block, option in zip(model.blocks[:layer], options or model.attention_options(x.shape[1]), strict=False):
        x = block(x, record=record, **option)
    return model.blocks[layer].attn_norm(x)


def _of_weights(name: str, value: Any) -> Any:
    """Return what a field of a configuration says about the weights."""
    return tuple(layer.weights for layer in value) if name == "mixed_layers" else value


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
        activation = _activation(c, feed_forward)
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
