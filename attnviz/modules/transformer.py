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

from attnviz.config import RUN_FIELDS, ConfigError, ModelConfig
from attnviz.modules.attention import Attended, GroupedQueryAttention
from attnviz.modules.cache import KVCache
from attnviz.modules.embedding import PositionEmbedding, ScaledEmbedding, empty_embedding
from attnviz.modules.feedforward import GeGLU, GELUFeedForward, SwiGLU
from attnviz.modules.latent import MultiHeadLatentAttention
from attnviz.modules.masks import attention_mask, intersection
from attnviz.modules.norm import LayerNorm, RMSNorm
from attnviz.modules.rope import Rope
from attnviz.modules.rope_scaling import RopeScaling, scaled_rope_frequencies
from attnviz.modules.shallow import with_own_parts

FEED_FORWARDS = {"swiglu": SwiGLU, "geglu": GeGLU, "gelu": GELUFeedForward}


def build_attention(c: ModelConfig) -> nn.Module:
    """Build the attention of one layer of this model."""
    if c.attention != "mla":
        return GroupedQueryAttention(
            c.d_model, c.n_heads, c.n_kv_heads, head_dim=c.head_dim, qkv_bias=c.qkv_bias, out_bias=c.o_bias,
            qk_norm=None if c.qk_norm is None else lambda D: RMSNorm(D, c.norm_eps),
            scale=c.attention_scale, softcap=c.attention_softcap,
        )  # fmt: skip
    return MultiHeadLatentAttention(
        c.d_model,
        c.n_heads,
        kv_lora_rank=c.kv_lora_rank,
        qk_nope_head_dim=c.qk_nope_head_dim,
        qk_rope_head_dim=c.qk_rope_head_dim,
        v_head_dim=c.v_head_dim,
        q_lora_rank=c.q_lora_rank,
    )


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
    """Pre-norm block: x + attn(norm(x)), then x + ffn(norm(x)); each norm is computed once."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attn_norm = build_norm(config)
        self.attn = build_attention(config)
        self.ffn_norm = build_norm(config)
        self.ffn = FEED_FORWARDS[config.ffn](config.d_model, config.d_ff, bias=config.ffn_bias)

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

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
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
        block = SandwichBlock if config.norms_per_layer == 4 else Block
        self.blocks: Any = nn.ModuleList(block(config) for _ in range(config.n_layers))  # Any: torch types no elements
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
        generator, weights = torch.Generator().manual_seed(seed), {}
        for name, p in model.named_parameters():
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
        for name in (f.name for f in fields(config) if f.name not in RUN_FIELDS):
            if getattr(config, name) != getattr(self.config, name):
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

    def new_cache(self) -> list[KVCache]:
        """Return an empty KV cache per layer."""
        return [KVCache() for _ in self.blocks]

    def rope(self, length: int | None = None, windowed: bool = False) -> Rope | None:
        """Return the rotation of q and k for a text of this many tokens; None without RoPE.

        windowed: for the layers with a window, which have another theta in Gemma 3. Only dynamic NTK and LongRoPE
        depend on the length. Cached keys are not rotated again, so with these two decoding equals recomputing only
        while the frequencies do not change.
        """
        c = self.config
        if not c.rotary_dim:
            return None
        if windowed and c.rope_theta_windowed is not None:
            return Rope(_frequencies(c.rotary_dim, c.rope_theta_windowed, None, None), c.rope_layout)
        scaling = RopeScaling.of(c.rope_scaling, c.max_context)
        frequencies = _frequencies(c.rotary_dim, c.rope_theta, scaling, length if scaling else None)
        if scaling is None:
            return Rope(frequencies, c.rope_layout)
        return Rope(frequencies, c.rope_layout, scaling.attention_factor, scaling.latent_softmax_factor)

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        cache: list[KVCache] | None = None,
        record: Callable[..., None] | None = None,
        absorbed: bool = False,
        kernel: Callable[..., Attended] | None = None,
    ) -> Tensor:
        """Map ids (B, T), whole numbers below vocab_size, to logits (B, T, vocab_size).

        mask: bool, True = may attend, broadcastable to (B, H, T, S). cache: one per layer, as `new_cache` makes them.
        record: callback for the intermediate tensors of each layer's attention, for example a `Recording`.
        absorbed: run MLA in its absorbed form: fewer multiplications if few tokens read a long cache.
        kernel: called in place of `attend` in each layer, for example one that returns no weights.
        """
        past = len(cache[0]) if cache else 0
        options = self.attention_options(ids.shape[1], past, mask)
        form: dict[str, Any] = {"absorbed": True} if absorbed else {}
        form |= {"kernel": kernel} if kernel else {}
        place = {"start": past} if self.config.position == "learned" else {}
        caches: list[KVCache] | list[None] = cache or [None] * len(self.blocks)
        x = self.embed(ids, **place)  # (B, T, C)
        for block, option, own in zip(self.blocks, options, caches, strict=True):
            x = block(x, cache=own, record=record, **option, **form)
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

    def attention_options(self, n_tokens: int, past: int = 0, mask: Tensor | None = None) -> list[dict[str, Any]]:
        """Return the options of each layer's attention for n_tokens after `past` cached ones: its rope, and its mask
        combined with `mask`. Layers with the same window share them."""
        c, device = self.config, self.embed.weight.device
        windows = [c.window_of(i) for i in range(c.n_layers)]
        patterns = {
            window: attention_mask(
                n_tokens, past + n_tokens, causal=c.causal, window=window, n_sinks=c.n_sinks, offset=past, device=device
            )  # (T, S) or None
            for window in set(windows)
        }
        masks = {window: intersection(pattern, mask) for window, pattern in patterns.items()}
        full = windowed = self.rope(past + n_tokens)
        if c.rope_theta_windowed is not None:
            windowed = self.rope(past + n_tokens, windowed=True)
        ropes = [full if i in c.full_layers else windowed for i in range(c.n_layers)]
        return [{"mask": masks[window], "rope": rope} for window, rope in zip(windows, ropes, strict=True)]


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
) -> Tensor:
    """Compute the input of this layer's attention, the normed hidden states: (B, T, C).

    token_ids: of one text, (T,), or of B texts of one length, (B, T). record: callback for the layers before it.
    """
    x = model.embed(torch.atleast_2d(torch.as_tensor(token_ids)))
    for block, options in zip(model.blocks[:layer], model.attention_options(x.shape[1]), strict=False):
        x = block(x, record=record, **options)
    return model.blocks[layer].attn_norm(x)


def check_runnable(c: ModelConfig) -> None:
    """Raise ConfigError for a field that only the cost formulas support."""
    if c.moe is not None:
        raise ConfigError("the live model has no mixture of experts; cost can be counted")
    if c.mixed_layers:
        raise ConfigError("the live model's layers are alike; the cost of mixed_layers can be counted")
    runs: dict[str, tuple] = {
        "ffn": tuple(FEED_FORWARDS), "norm": ("rmsnorm", "layernorm"), "norms_per_layer": (2, 4),
        "qk_norm": (None, "head"), "embedding_norm": (False,), "parallel_block": (False,),
        "attention_sinks": (False,), "lm_head_bias": (False,), "head_rows": (None,),
        "position": ("rope", "none", "learned"),
    }  # fmt: skip
    for name, values in runs.items():
        if getattr(c, name) not in values:
            raise ConfigError(
                f"the live model runs with {name} = {' or '.join(map(repr, values))} only, not {getattr(c, name)!r}; "
                "cost can be counted"
            )
    if c.norm == "rmsnorm" and c.norm_bias:
        raise ConfigError("the live model runs with norm_bias = True in 'layernorm' only; cost can be counted")
    if c.attention == "mla" and (c.qk_norm or c.attention_scale or c.attention_softcap):
        raise ConfigError("latent attention runs without qk_norm, attention_scale and attention_softcap")
    RopeScaling.of(c.rope_scaling, c.max_context)  # raises ConfigError
    if c.rotary_dim % 2:
        raise ConfigError(f"qk_rope_head_dim must be even, to be split into pairs for RoPE, not {c.rotary_dim}")
    if c.position == "rope" and c.rope_theta is None:
        raise ConfigError("the live model needs rope_theta, a number above 1, to rotate queries and keys; it is None")
