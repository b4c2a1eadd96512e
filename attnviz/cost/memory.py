"""The division of a memory into weights, reserve and cache."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction

from attnviz.checks import number
from attnviz.config import ModelConfig
from attnviz.cost.cached import LARGEST_CONTEXT, kv_cache_bytes
from attnviz.cost.weights import count_parameters
from attnviz.equations import Expression, function
from attnviz.mechanisms import letter


@dataclass(frozen=True)
class MemoryPlan:
    """The division of one accelerator's memory, in bytes, and the context and batch that fit beside the weights.

    `n_tokens`: longest context of one sequence, None if the cache stops growing before it fills the memory.
    `n_users`: number of sequences of the requested context that fit at once. Both are 0 if the weights do not fit.
    """

    memory: int
    weights: int
    reserve: int
    cache_of_one: int  # one sequence at the requested context
    n_tokens: int | None
    n_users: int
    count: int = 1  # accelerators
    groups: int = 1  # of them, each with sequences of its own: 1, or all

    @property
    def free(self) -> int:
        """Bytes left for the cache; negative if bytes are missing."""
        return self.memory - self.weights - self.reserve

    @property
    def users_here(self) -> int:
        """Number of sequences that fit of which this accelerator holds a cache."""
        return self.n_users // self.groups

    def here(self, n_sequences: int) -> Expression:
        """Return how many of so many sequences have a cache on the accelerator that has most, as an expression."""
        B = letter("B", n_sequences)
        return B if self.groups == 1 else function("ceil", B / letter("Nₐ", self.groups))

    def sequences(self) -> Expression:
        """Return the number of sequences that fit at once, as an expression."""
        memory, weights, reserve = self._letters()
        here = function("floor", (memory - weights - reserve) / self._one())
        return here if self.groups == 1 else letter("Nₐ", self.groups) * here

    def needed(self, n_sequences: int) -> Expression:
        """Return the bytes of the weights and of so many sequences' caches, as an expression."""
        caches = self.here(n_sequences) * self._one() if n_sequences > 1 else self._one()
        return self._letters()[1] + caches

    def missing(self) -> Expression:
        """Return the bytes missing for the weights, or for weights and reserve if the weights alone fit."""
        memory, weights, reserve = self._letters()
        return weights + reserve - memory if self.weights_fit else weights - memory

    def _letters(self) -> tuple[Expression, Expression, Expression]:
        return (
            letter("M", self.memory, self._where("bytes of memory")),
            letter("Mₚ", self.weights, self._where("bytes of weights")),
            letter("Mₑ", self.reserve, self._where("bytes in reserve")),
        )

    def _one(self) -> Expression:
        return letter("M₁", self.cache_of_one, self._where("bytes of one sequence's cache"))

    def _where(self, meaning: str) -> str:
        return f"{meaning} on one accelerator" if self.count > 1 else ""

    @property
    def weights_fit(self) -> bool:
        """True if the weights alone fit, without a reserve."""
        return self.weights <= self.memory


def plan_memory(
    model: ModelConfig,
    memory: int,
    n_tokens: int,
    bits: float = 16,
    *,
    weight_bits: float = 16,
    block_size: int | None = None,
    reserve: float = 0.1,
    page: int = 1,
    count: int = 1,
    groups: int = 1,
) -> MemoryPlan:
    """Divide `memory` bytes into weights, a reserve (a share, 0 to 0.9) and cache for sequences of `n_tokens`.

    With several accelerators, `model` is what one of them holds, and `memory` is its own. page: tokens per page.
    All weights are in memory, including those of idle experts. The reserve is for activations and unusable memory.
    """
    number("memory", memory, 1, 10**18)
    number("reserve", reserve, 0, 0.9)
    weights = weight_bytes(model, weight_bits)
    reserved = round(memory * reserve)
    free = memory - weights - reserved
    one = kv_cache_bytes(model, n_tokens, 1, bits, block_size=block_size, page=page)
    longest = tokens_that_fit(model, free, bits, block_size=block_size, page=page)
    return MemoryPlan(memory, weights, reserved, one, longest, groups * (max(free, 0) // one), count, groups)


def weight_bytes(model: ModelConfig, weight_bits: float = 16) -> int:
    """Return the bytes of all weights, rounded up."""
    number("weight_bits", weight_bits, 1, 64)
    return -(-count_parameters(model).total * Fraction(weight_bits) // 8)


def tokens_that_fit(
    model: ModelConfig, free: int, bits: float = 16, *, block_size: int | None = None, page: int = 1
) -> int | None:
    """Return the longest context whose cache takes at most `free` bytes; None if even 10^9 tokens do, the maximum."""

    def size(n_tokens: int) -> int:
        return kv_cache_bytes(model, n_tokens, 1, bits, block_size=block_size, page=page)

    fits = bisect_right(range(1, LARGEST_CONTEXT + 1), free, key=size)
    return None if fits == LARGEST_CONTEXT else fits
