"""One decode step, with one new token for each of B sequences: FLOPs, bytes read, and the bound on its speed.

Every weight in use is read once for the whole batch; every sequence's cache is read once. A multiply-add counts as two
FLOPs. S tokens are attended to, including the new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from attnviz.checks import number
from attnviz.config import ModelConfig
from attnviz.cost.accelerators import Accelerator, Pass
from attnviz.cost.cached import kv_cache_bytes
from attnviz.cost.sums import mixers, parts, product, width, with_factor
from attnviz.cost.weights import count_parameters, embeddings_beside, multiplied_weights
from attnviz.equations import Expression
from attnviz.mechanisms import letter


@dataclass(frozen=True)
class DecodeStep(Pass):
    """FLOPs and bytes of one step for a whole batch."""

    batch_size: int
    flops: int
    weight_bytes: int
    cache_bytes: int

    @property
    def intensity(self) -> float:
        """FLOPs per byte read."""
        return self.intensity_cost().value

    @property
    def largest_intensity(self) -> float:
        """FLOPs per byte that `intensity` approaches as the batch grows: each sequence reads a cache of its own."""
        return self.flops / self.cache_bytes

    def work(self) -> Expression:
        return letter("f", self.flops, "FLOPs per step", scientific=True)

    def read(self) -> Expression:
        weights = letter("Mₚ", self.weight_bytes, "bytes of weights read", scientific=True)
        return weights + letter("Mₖ", self.cache_bytes, scientific=True)

    def intensity_cost(self) -> Expression:
        """Return the FLOPs per byte read, as an expression."""
        return self.work() / self.read()

    def rate(self, accelerator: Accelerator) -> Expression:
        """Return the bound on the tokens per second of all sequences together, as an expression."""
        return letter("B", self.batch_size) / self.least_seconds(accelerator)

    def tokens_per_second(self, accelerator: Accelerator) -> float:
        """Return the same as a number."""
        return self.rate(accelerator).value


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


def decode_cost(model: ModelConfig, n_tokens: int, batch_size: int = 1) -> Expression:
    """Return the FLOPs of one step as an expression: products with weights, scores and weighted sums."""
    per_token = 2 * letter("Nₘ", multiplied_weights(model), scientific=True) + attention_cost(model, n_tokens)
    return letter("B", batch_size) * per_token


def attention_cost(model: ModelConfig, n_tokens: int) -> Expression:
    """Return the FLOPs of one new token's scores and weighted sums in all layers, as an expression.

    A mixer with an absorbed form decodes in it.
    """
    S = letter("S", n_tokens, "tokens, including the new one")
    terms = [(n, *work) for n, mixer in mixers(model) for work in mixer.decoding(S)]
    return product(reversed(with_factor(model, terms)))  # 4 · H · D first


def uncached_cost(model: ModelConfig, n_tokens: int) -> Expression:
    """Return the FLOPs of the same step without a cache: every token passes every layer, and masked scores count too.

    No mixer is absorbed.
    """
    T = letter("T", n_tokens, "tokens computed")
    weights = 2 * letter("Nₘ", multiplied_weights(model), scientific=True)
    terms = [(n, *work) for n, mixer in mixers(model) for work in mixer.without_cache(T)]
    return T * weights + product(reversed(with_factor(model, terms)))


def attention_flops(model: ModelConfig, n_tokens: int) -> int:
    """Return the FLOPs of one new token's scores and weighted sums in all layers."""
    return int(attention_cost(model, n_tokens).value)


def weight_bytes_read(model: ModelConfig, batch_size: int, weight_bits: float = 16) -> int:
    """Return the bytes of weights read in one step, rounded.

    All but the embedding (only a few of its rows are read) and the experts expected to be unused.
    """
    count, C = count_parameters(model), width(model)
    looked_up = count.parts.get("position embeddings", 0) + embeddings_beside(model)
    looked_up += 0 if model.tie_embeddings else count.parts["token embeddings"]
    unread = sum(n * part.unread(C, batch_size) for n, part in parts(model))
    read = count.total - looked_up - round(unread)
    return round(read * Fraction(weight_bits) / 8)
