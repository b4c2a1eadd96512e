"""The pre-norm block and a small decoder-only Transformer in the shape of Llama.

B batch, T tokens, C d_model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.config import RUN_FIELDS, ConfigError, ModelConfig
from attnviz.modules.attention import GroupedQueryAttention
from attnviz.modules.cache import KVCache
from attnviz.modules.feedforward import SwiGLU
from attnviz.modules.latent import MultiHeadLatentAttention
from attnviz.modules.masks import attention_mask, intersection
from attnviz.modules.norm import RMSNorm
from attnviz.modules.parts import with_own_parts
from attnviz.modules.rope import Rope
from attnviz.modules.rope_scaling import RopeScaling, scaled_rope_frequencies


def build_attention(c: ModelConfig) -> nn.Module:
    """Build the attention of one layer of this model."""
    if c.attention != "mla":
        return GroupedQueryAttention(
            c.d_model, c.n_heads, c.n_kv_heads, head_dim=c.head_dim, qkv_bias=c.qkv_bias, out_bias=c.o_bias
        )
    return MultiHeadLatentAttention(
        c.d_model,
        c.n_heads,
        kv_lora_rank=c.kv_lora_rank,
        qk_nope_head_dim=c.qk_nope_head_dim,
        qk_rope_head_dim=c.qk_rope_head_dim,
        v_head_dim=c.v_head_dim,
        q_lora_rank=c.q_lora_rank,
    )


class Block(nn.Module):
    """x + attn(norm(x)), then x + ffn(norm(x)); each norm is computed once."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attn_norm = RMSNorm(config.d_model)
        self.attn = build_attention(config)
        self.ffn_norm = RMSNorm(config.d_model)
        self.ffn = SwiGLU(config.d_model, config.d_ff, bias=config.ffn_bias)

    def forward(self, x: Tensor, **attention: Any) -> Tensor:
        """Map x (B, T, C) to (B, T, C); `attention` are the options of the attention's forward."""
        x = x + self.attn(self.attn_norm(x), **attention)
        return x + self.ffn(self.ffn_norm(x))


class Transformer(nn.Module):
    """Embedding, n_layers blocks, a last norm, logits. Nothing is written to it after loading."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check_runnable(config)
        self.config = config
        # Given and not drawn: `random` and `load_checkpoint` build on the meta device, where drawing an embedding
        # imports torch's compiler (1 s, 70 MB).
        self.embed = nn.Embedding.from_pretrained(torch.empty(config.vocab_size, config.d_model), freeze=False)
        self.blocks: Any = nn.ModuleList(Block(config) for _ in range(config.n_layers))  # Any: torch types no elements
        self.norm = RMSNorm(config.d_model)
        self.lm_head = None if config.tie_embeddings else nn.Linear(config.d_model, config.vocab_size, bias=False)

    @classmethod
    def random(cls, config: ModelConfig, seed: int) -> Transformer:
        """Make an untrained model whose weights depend on the seed alone, in evaluation mode.

        Weights are normal with standard deviation 1 / sqrt(fan-in), so that scores q·k / sqrt(D) have a spread
        of about 1 and an untrained map is not blank; projections back into the residual stream are smaller by
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
        """Return the same modules, not copied, to be run in another way (RoPE off or scaled, another window or layout).

        ConfigError for a config that other tensors would belong to.
        """
        check_runnable(config)
        for name in (f.name for f in fields(config) if f.name not in RUN_FIELDS):
            if getattr(config, name) != getattr(self.config, name):
                raise ConfigError(
                    f"{name} must stay {getattr(self.config, name)!r}, for which these weights are, "
                    f"not {getattr(config, name)!r}"
                )
        other = with_own_parts(self)
        other.config = config  # read by forward() alone: no module keeps anything of it that may differ
        return other

    def with_attentions(self, attentions: Mapping[int, nn.Module]) -> Transformer:
        """Return the model with other attentions in the layers given; other modules are shared, not copied."""
        other = with_own_parts(self)
        other.blocks = nn.ModuleList(self.blocks)
        for layer, attn in attentions.items():
            other.blocks[layer] = block = with_own_parts(self.blocks[layer])
            block.attn = attn
        return other

    def new_cache(self) -> list[KVCache]:
        """Make an empty KV cache for each layer."""
        return [KVCache() for _ in self.blocks]

    def rope(self, length: int | None = None) -> Rope | None:
        """Make the rotation of q and k for a text of this many tokens; None without RoPE.

        Only dynamic NTK and LongRoPE look at the length. Keys in a cache stay as they were rotated, so with these two
        decoding equals recomputing only while the frequencies do not change.
        """
        c = self.config
        if not c.rotary_dim:
            return None
        scaling = RopeScaling.of(c.rope_scaling, c.max_context)
        frequencies = scaled_rope_frequencies(c.rotary_dim, c.rope_theta, scaling, length)
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
    ) -> Tensor:
        """Map ids (B, T), whole numbers below vocab_size, to logits (B, T, vocab_size).

        mask: bool, True = may attend, broadcastable to (B, H, T, S). cache: one per layer, as `new_cache` makes them.
        record: called by each layer's attention with what it computed, for example a `Recording`.
        absorbed: run MLA in its absorbed form: fewer multiplications where few tokens read a long cache.
        """
        past = len(cache[0]) if cache else 0
        options = self.attention_options(ids.shape[1], past, mask)
        form = {"absorbed": True} if absorbed else {}
        caches: list[KVCache] | list[None] = cache or [None] * len(self.blocks)
        x = self.embed(ids)  # (B, T, C)
        for block, option, own in zip(self.blocks, options, caches, strict=True):
            x = block(x, cache=own, record=record, **option, **form)
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """Map what the last block hands on, (B, T, C), to logits (B, T, vocab_size)."""
        x = self.norm(x)
        return F.linear(x, self.embed.weight) if self.lm_head is None else self.lm_head(x)

    def attention_options(self, n_tokens: int, past: int = 0, mask: Tensor | None = None) -> list[dict[str, Any]]:
        """Make the options of each layer's attention for n_tokens behind `past` cached ones: its rope, and its own mask
        joined to `mask`. Layers with the same window share them."""
        c, device = self.config, self.embed.weight.device
        windows = [c.window_of(i) for i in range(c.n_layers)]
        patterns = {
            window: attention_mask(
                n_tokens, past + n_tokens, causal=c.causal, window=window, n_sinks=c.n_sinks, offset=past, device=device
            )  # (T, S) or None
            for window in set(windows)
        }
        masks, rope = (
            {window: intersection(pattern, mask) for window, pattern in patterns.items()},
            self.rope(past + n_tokens),
        )
        return [{"mask": masks[window], "rope": rope} for window in windows]


@torch.inference_mode()
def layer_input(
    model: Transformer,
    token_ids: Sequence[int] | Sequence[Sequence[int]],
    layer: int,
    record: Callable[..., None] | None = None,
) -> Tensor:
    """Compute what the attention of this layer is given for these tokens, the normed hidden states: (B, T, C).

    token_ids: of one text, (T,), or of B texts of one length, (B, T). record: gets what the layers before it computed.
    """
    x = model.embed(torch.atleast_2d(torch.as_tensor(token_ids)))
    for block, options in zip(model.blocks[:layer], model.attention_options(x.shape[1]), strict=False):
        x = block(x, record=record, **options)
    return model.blocks[layer].attn_norm(x)


def check_runnable(c: ModelConfig) -> None:
    """Refuse, by name, what only the cost formulas know."""
    expected = {
        "ffn": ("swiglu", c.ffn), "norm": ("rmsnorm", c.norm), "norms_per_layer": (2, c.norms_per_layer),
        "moe": (None, c.moe), "qk_norm": (None, c.qk_norm), "embedding_norm": (False, c.embedding_norm),
        "parallel_block": (False, c.parallel_block), "attention_sinks": (False, c.attention_sinks),
        "lm_head_bias": (False, c.lm_head_bias), "norm_bias": (False, c.norm_bias),
    }  # fmt: skip
    for name, (runs, given) in expected.items():
        if given != runs:
            raise ConfigError(f"the live model runs with {name} = {runs!r} only, not {given!r}; cost can be counted")
    RopeScaling.of(c.rope_scaling, c.max_context)  # its errors name the field themselves
    if c.position not in ("rope", "none"):
        raise ConfigError(f"the live model runs with position 'rope' or 'none', not {c.position!r}")
    if c.rotary_dim % 2:
        raise ConfigError(f"qk_rope_head_dim must be even, to be split into pairs for RoPE, not {c.rotary_dim}")
    if c.position == "rope" and c.rope_theta is None:
        raise ConfigError("the live model needs rope_theta, a number above 1, to rotate queries and keys; it is None")
