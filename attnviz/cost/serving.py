"""A model served on an accelerator: memory plan, prefill and decode step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attnviz.config import ModelConfig
from attnviz.cost.accelerators import Accelerator
from attnviz.cost.decode import DecodeStep, attention_flops, decode_step
from attnviz.cost.memory import MemoryPlan, plan_memory
from attnviz.cost.precisions import PRECISIONS, bits_with_scales
from attnviz.cost.prefill import Prefill, prefill


@dataclass(frozen=True)
class Serving:
    """A model serving sequences of `n_tokens` each.

    `precision` is the cache's, `weights` that of the weights, `reserve` the share of memory left free.
    """

    model: ModelConfig
    accelerator: Accelerator
    n_tokens: int
    precision: str = "bf16"
    weights: str = "bf16"
    reserve: float = 0.1

    @property
    def machine(self) -> Accelerator:
        """The accelerator at the peak of the arithmetic that these precisions are assumed to use."""
        return self.accelerator.multiplying(self.weights, self.precision)

    def plan(self) -> MemoryPlan:
        """Divide the memory into weights, reserve and cache."""
        bits, block = PRECISIONS[self.precision]
        return plan_memory(
            self.model, self.accelerator.memory, self.n_tokens, bits, weight_bits=bits_with_scales(self.weights),
            block_size=block, reserve=self.reserve,
        )  # fmt: skip

    def step(self, batch_size: int) -> DecodeStep:
        """Count one decode step for this many sequences, even if they do not fit."""
        bits, block = PRECISIONS[self.precision]
        weight_bits = bits_with_scales(self.weights)
        return decode_step(self.model, self.n_tokens, batch_size, bits, weight_bits=weight_bits, block_size=block)

    def prefill(self) -> Prefill:
        """Count the prefill of one prompt of n_tokens tokens, even if it does not fit."""
        return prefill(self.model, self.n_tokens, weight_bits=bits_with_scales(self.weights))

    def tokens_per_second(self, batch_size: int) -> float:
        """Return the bound for all sequences together."""
        return self.step(batch_size).tokens_per_second(self.machine)

    def attention_intensity(self) -> float:
        """Return the FLOPs of scores and weighted sums per byte of cache read, which do not depend on the batch."""
        return attention_flops(self.model, self.n_tokens) / self.step(1).cache_bytes

    def on(self, accelerator: Accelerator) -> Serving:
        return replace(self, accelerator=accelerator)

    def of(self, model: ModelConfig) -> Serving:
        return replace(self, model=model)

    def at(self, n_tokens: int) -> Serving:
        return replace(self, n_tokens=n_tokens)
