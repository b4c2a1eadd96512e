"""Prefill of one prompt: FLOPs, bytes of weights read, and the least time to its first token.

A multiply-add counts as two FLOPs. The token at position i, from 1, attends to i keys, or to its window's.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.checks import number, whole
from attnviz.config import ModelConfig
from attnviz.cost.accelerators import Pass
from attnviz.cost.cached import LARGEST_CONTEXT
from attnviz.cost.decode import weight_bytes_read
from attnviz.cost.sums import mixers, product, with_factor
from attnviz.cost.weights import layer_weights, output_weights
from attnviz.equations import Expression
from attnviz.mechanisms import letter


@dataclass(frozen=True)
class Prefill(Pass):
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

    def work(self) -> Expression:
        return letter("f", self.flops, "FLOPs of the prompt", scientific=True)

    def read(self) -> Expression:
        return letter("Mₚ", self.weight_bytes, "bytes of weights read", scientific=True)


def prefill(model: ModelConfig, n_tokens: int, *, weight_bits: float = 16) -> Prefill:
    """Count the prefill of one prompt of `n_tokens` tokens; weight_bits: bits per weight, 1 to 64.

    Raises ConfigError for other numbers.
    """
    whole("n_tokens", n_tokens, high=LARGEST_CONTEXT)
    number("weight_bits", weight_bits, 1, 64)
    S = letter("S", n_tokens)
    pairs = sum(n * int(mixer.pairs(S).value) for n, mixer in mixers(model))
    return Prefill(
        n_tokens, layer_weights(model), output_weights(model), int(prefill_attention(model, n_tokens).value), pairs,
        weight_bytes_read(model, n_tokens, weight_bits),
    )  # fmt: skip


def prefill_cost(model: ModelConfig, n_tokens: int) -> Expression:
    """Return the FLOPs of one prompt as an expression."""
    return prefill_weights(model, n_tokens) + prefill_attention(model, n_tokens)


def prefill_weights(model: ModelConfig, n_tokens: int) -> Expression:
    """Return those of the products with weights; the output layer runs for the last token only."""
    layers = letter("Nₗ", layer_weights(model), scientific=True)
    output = letter("Nₒ", output_weights(model), scientific=True)
    S = letter("S", n_tokens, "tokens of the prompt")
    return 2 * layers * S + 2 * output


def prefill_attention(model: ModelConfig, n_tokens: int) -> Expression:
    """Return the FLOPs of a prompt's scores and weighted sums, as an expression; no mixer is absorbed."""
    S = letter("S", n_tokens, "tokens of the prompt")
    terms = [(n, *work) for n, mixer in mixers(model) for work in mixer.prompt(S)]
    return product(reversed(with_factor(model, terms)))
