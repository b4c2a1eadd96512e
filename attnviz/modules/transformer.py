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
from attnviz.mechanisms import Layer
from attnviz.modules.attention import Attended
from attnviz.modules.building import build_attention, build_embedding, build_feed_forward, build_norm
from attnviz.modules.cache import KVCache, StateCache
from attnviz.modules.delta import GatedDeltaNet
from attnviz.modules.extended import Passing, SharedCache
from attnviz.modules.masks import attention_mask, intersection
from attnviz.modules.rope import Rope
from attnviz.modules.rope_scaling import RopeScaling, scaled_rope_frequencies
from attnviz.modules.runnable import check_runnable
from attnviz.modules.shallow import with_own_parts


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
