"""A model served on an accelerator: memory plan, prefill and decode step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attnviz.config import ModelConfig
from attnviz.cost.accelerators import Accelerator
from attnviz.cost.cached import kv_cache_bytes
from attnviz.cost.decode import DecodeStep, attention_flops, decode_step, weight_bytes_read
from attnviz.cost.memory import MemoryPlan, plan_memory, weight_bytes
from attnviz.cost.placed import DATA, TENSOR, on_one, without_windows
from attnviz.cost.precisions import PRECISIONS, bits_with_scales
from attnviz.cost.prefill import Prefill, prefill
from attnviz.cost.sums import mixers
from attnviz.mechanisms.mechanism import largest_share


@dataclass(frozen=True)
class Serving:
    """A model serving sequences of `n_tokens` each.

    `precision` is the cache's, `weights` that of the weights, `reserve` the share of memory left free. parallel: how
    several accelerators divide it. full_windows: windowed layers take memory for all tokens, as vLLM does without its
    hybrid KV cache manager, instead of for their window, as transformers does. page: tokens per page of the cache.
    """

    model: ModelConfig
    accelerator: Accelerator
    n_tokens: int
    precision: str = "bf16"
    weights: str = "bf16"
    reserve: float = 0.1
    parallel: str = TENSOR
    full_windows: bool = False
    page: int = 1

    @property
    def count(self) -> int:
        """Number of accelerators."""
        return self.accelerator.count

    @property
    def groups(self) -> int:
        """Number of accelerators with sequences of their own: 1 if all hold a part of each."""
        return self.count if self.parallel == DATA else 1

    def here(self, n_sequences: int) -> int:
        """Return how many of these sequences have a cache on the accelerator that has most."""
        return largest_share(n_sequences, self.groups)

    @property
    def held(self) -> ModelConfig:
        """What one accelerator holds, the fullest if they differ."""
        return on_one(self.model, self.count, self.parallel)

    @property
    def allocated(self) -> ModelConfig:
        """The same, with the caches of its windowed layers as memory is taken for them."""
        return without_windows(self.held) if self.full_windows else self.held

    @property
    def work_known(self) -> bool:
        """False if a step's work is not known, as of a model that another program has counted."""
        return all(mixer.work_known for _, mixer in mixers(self.model))

    @property
    def machine(self) -> Accelerator:
        """The accelerator at the peak of the arithmetic that these precisions are assumed to use."""
        return self.accelerator.multiplying(self.weights, self.precision)

    def plan(self) -> MemoryPlan:
        """Divide the memory, of each accelerator, into weights, reserve and cache."""
        bits, block = PRECISIONS[self.precision]
        return plan_memory(
            self.allocated, self.accelerator.memory // self.count, self.n_tokens, bits,
            weight_bits=bits_with_scales(self.weights), block_size=block, reserve=self.reserve, page=self.page,
            count=self.count, groups=self.groups,
        )  # fmt: skip

    def needed(self, n_sequences: int) -> int:
        """Return the bytes of weights and of so many sequences' caches on one accelerator."""
        bits, block = PRECISIONS[self.precision]
        one = kv_cache_bytes(self.allocated, self.n_tokens, 1, bits, block_size=block, page=self.page)
        return weight_bytes(self.allocated, bits_with_scales(self.weights)) + self.here(n_sequences) * one

    def step(self, batch_size: int) -> DecodeStep:
        """Count one decode step for this many sequences, even if they do not fit.

        Bytes are those that all accelerators read, if each reads as much as the fullest: copies are read by each.
        """
        bits, block = PRECISIONS[self.precision]
        weight_bits = bits_with_scales(self.weights)
        step = decode_step(self.model, self.n_tokens, batch_size, bits, weight_bits=weight_bits, block_size=block)
        if self.count == 1:
            return step
        one = kv_cache_bytes(self.held, self.n_tokens, self.here(batch_size), bits, block_size=block)
        read = weight_bytes_read(self.held, batch_size, weight_bits)
        return replace(step, weight_bytes=self.count * read, cache_bytes=self.count * one)

    def weights_together(self) -> int:
        """Return the bytes of weights that all accelerators hold, if each holds as much as the fullest."""
        return self.count * weight_bytes(self.held, bits_with_scales(self.weights))

    def prefill(self) -> Prefill:
        """Count the prefill of one prompt of n_tokens tokens, even if it does not fit."""
        weight_bits = bits_with_scales(self.weights)
        counted = prefill(self.model, self.n_tokens, weight_bits=weight_bits)
        if self.count == 1:
            return counted
        return replace(counted, weight_bytes=self.count * weight_bytes_read(self.held, self.n_tokens, weight_bits))

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
