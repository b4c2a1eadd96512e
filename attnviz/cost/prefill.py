"""Prefill of one prompt: FLOPs, bytes of weights read, and the least time to its first token.

A multiply-add counts as two FLOPs. The token at position i, from 1, attends to i keys, or to its window's.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.checks import number, whole
from attnviz.config import ModelConfig
from attnviz.cost.accelerators import Accelerator
from attnviz.cost.cache import LARGEST_CONTEXT
from attnviz.cost.decode import multiplied_weights, weight_bytes_read


@dataclass(frozen=True)
class Prefill:
    """FLOPs and bytes of one prompt, from its first token to the logits of the token after it.

    layer_weights: weights of the matrices used for one token, without the output layer: of a mixture only the experts
    that it is routed to. output_weights: those of the output layer, which only the last token needs.
    pairs: query-key pairs, summed over the layers. weight_bytes: read once for all tokens.
    """

    n_tokens: int
    layer_weights: int
    output_weights: int
    attention_flops: int
    pairs: int
    weight_bytes: int

    @property
    def weight_flops(self) -> int:
        """FLOPs of the products with weights."""
        return 2 * self.layer_weights * self.n_tokens + 2 * self.output_weights

    @property
    def flops(self) -> int:
        return self.weight_flops + self.attention_flops

    def seconds(self, accelerator: Accelerator) -> float:
        """Return the least time to the first token: reading and arithmetic overlap perfectly, both at their peak."""
        return max(self.weight_bytes / accelerator.bandwidth, self.flops / accelerator.flops)

    def bound_by(self, accelerator: Accelerator) -> str:
        """Return the limit that takes longer: "memory" or "compute"."""
        reading = self.weight_bytes / accelerator.bandwidth
        return "memory" if reading >= self.flops / accelerator.flops else "compute"


def prefill(model: ModelConfig, n_tokens: int, *, weight_bits: float = 16) -> Prefill:
    """Count the prefill of one prompt of `n_tokens` tokens; weight_bits: bits per weight, 1 to 64.

    Raises ConfigError for other numbers.
    """
    whole("n_tokens", n_tokens, high=LARGEST_CONTEXT)
    number("weight_bits", weight_bits, 1, 64)
    output = model.vocab_size * model.d_model
    pairs = causal_pairs(model, n_tokens)
    return Prefill(
        n_tokens, multiplied_weights(model) - output, output, flops_per_pair(model) * pairs, pairs,
        weight_bytes_read(model, n_tokens, weight_bits),
    )  # fmt: skip


def causal_pairs(model: ModelConfig, n_tokens: int) -> int:
    """Return the query-key pairs of a prompt, summed over the layers; a window also allows its sinks."""
    full = n_tokens * (n_tokens + 1) // 2
    if model.sliding_window is None:
        return model.n_layers * full
    nearest = min(n_tokens, model.sliding_window + model.n_sinks)
    windowed = nearest * (2 * n_tokens - nearest + 1) // 2  # 1 + 2 + … + nearest, then nearest for each token after
    n_full = len(set(model.full_layers))
    return n_full * full + (model.n_layers - n_full) * windowed


def flops_per_pair(model: ModelConfig) -> int:
    """Return the FLOPs of one query-key pair in all heads of a layer: its score and its share of the weighted sum.

    4 · H · D; for MLA, which expands its latent for a prompt, 2 · H · (D + V).
    """
    width = model.v_head_dim if model.attention == "mla" else model.head_dim
    return 2 * model.n_heads * (model.head_dim + width)
