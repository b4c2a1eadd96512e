"""One decode step, with one new token for each of B sequences: FLOPs, bytes read, and the bound on its speed.

Every weight in use is read once for the whole batch; every sequence's cache is read once. A multiply-add counts as two
FLOPs. S tokens are attended to, including the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from attnviz.checks import number
from attnviz.config import ModelConfig, MoEConfig
from attnviz.cost.accelerators import Accelerator
from attnviz.cost.cache import cached_tokens, kv_cache_bytes
from attnviz.cost.parameters import count_parameters, expert_parameters


@dataclass(frozen=True)
class DecodeStep:
    """FLOPs and bytes of one step for a whole batch."""

    batch_size: int
    flops: int
    weight_bytes: int
    cache_bytes: int

    @property
    def intensity(self) -> float:
        """FLOPs per byte read."""
        return self.flops / (self.weight_bytes + self.cache_bytes)

    @property
    def largest_intensity(self) -> float:
        """FLOPs per byte that `intensity` approaches as the batch grows: each sequence reads a cache of its own."""
        return self.flops / self.cache_bytes

    def seconds(self, accelerator: Accelerator) -> float:
        """Return the minimum time of a step: reading and arithmetic overlap perfectly, both at their peak."""
        return max(self.reading_seconds(accelerator), self.flops / accelerator.flops)

    def reading_seconds(self, accelerator: Accelerator) -> float:
        return (self.weight_bytes + self.cache_bytes) / accelerator.bandwidth

    def tokens_per_second(self, accelerator: Accelerator) -> float:
        """Return the bound for all sequences together."""
        return self.batch_size / self.seconds(accelerator)

    def bound_by(self, accelerator: Accelerator) -> str:
        """Return the limit that takes longer: "memory" or "compute"."""
        return "memory" if self.reading_seconds(accelerator) >= self.flops / accelerator.flops else "compute"


def decode_step(
    model: ModelConfig,
    n_tokens: int,
    batch_size: int = 1,
    bits: float = 16,
    *,
    weight_bits: float = 16,
    block_size: int | None = None,
) -> DecodeStep:
    """Count a step in which `batch_size` sequences attend to `n_tokens` tokens each; bits as for the cache."""
    number("weight_bits", weight_bits, 1, 64)
    cache_bytes = kv_cache_bytes(model, n_tokens, batch_size, bits, block_size=block_size)
    flops = batch_size * (2 * multiplied_weights(model) + attention_flops(model, n_tokens))
    return DecodeStep(batch_size, flops, weight_bytes_read(model, batch_size, weight_bits), cache_bytes)


def attention_flops(model: ModelConfig, n_tokens: int) -> int:
    """Return the FLOPs of one new token's scores and weighted sums in all layers: 4 · H · D per key attended to.

    A windowed layer attends to min(S, window + n_sinks) keys, any other to S. MLA decodes in its absorbed form:
    2 · H · (2 R + P) per key.
    """
    if model.attention == "mla":
        per_token = 2 * model.n_heads * (2 * model.kv_lora_rank + model.qk_rope_head_dim)
    else:
        per_token = 4 * model.n_heads * model.head_dim
    return per_token * cached_tokens(model, n_tokens)


def multiplied_weights(model: ModelConfig) -> int:
    """Return the weights of the matrices used for one token. Embeddings are looked up and biases only added."""
    moe = model.moe and replace(model.moe, router_bias=False, expert_bias=False)
    bare = replace(
        model, moe=moe, qkv_bias=False, o_bias=False, ffn_bias=False, lm_head_bias=False, qk_norm=None,
        attention_sinks=False, tie_embeddings=False,
    )  # fmt: skip
    count = count_parameters(bare)
    added = ("token embeddings", "position embeddings", "norms", "latent norms")
    return count.active - sum(count.parts.get(part, 0) for part in added)


def weight_bytes_read(model: ModelConfig, batch_size: int, weight_bits: float = 16) -> int:
    """Return the bytes of weights read in one step, rounded.

    All but the embedding (only a few of its rows are read) and the experts expected to be unused (`experts_read`).
    """
    count = count_parameters(model)
    looked_up = count.parts.get("position embeddings", 0)
    looked_up += 0 if model.tie_embeddings else count.parts["token embeddings"]
    read = count.total - looked_up - round(_experts_unread(model, batch_size))
    return round(read * Fraction(weight_bits) / 8)


def experts_read(moe: MoEConfig, n_tokens: int) -> float:
    """Return the expected routed experts per layer that `n_tokens` tokens use, choosing evenly and independently."""
    return moe.n_routed_experts * (1 - (1 - moe.experts_per_token / moe.n_routed_experts) ** n_tokens)


def _experts_unread(model: ModelConfig, batch_size: int) -> float:
    """Return the expected parameters of the experts that no token of the batch chooses."""
    moe = model.moe
    if moe is None:
        return 0.0
    unread = moe.n_routed_experts - experts_read(moe, batch_size)
    return unread * (model.n_layers - moe.n_dense_layers) * expert_parameters(model)
