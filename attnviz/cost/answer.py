"""What a model needs for so many sequences of so many tokens, whether an accelerator holds it, and lists of both.

All sizes are in bytes; on several accelerators, those of one of them, the fullest if they differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from attnviz.config import ModelConfig
from attnviz.cost.accelerators import Accelerator
from attnviz.cost.cached import state_bytes
from attnviz.cost.memory import MemoryPlan
from attnviz.cost.placed import divides_evenly
from attnviz.cost.serving import Serving

MOST = 4096  # accelerators that are tried


@dataclass(frozen=True)
class Answer:
    """The need of `n_sequences` sequences of `serving.n_tokens` tokens each, beside the memory that there is."""

    serving: Serving
    n_sequences: int

    @cached_property
    def plan(self) -> MemoryPlan:
        """The memory without regard to the number of sequences."""
        return self.serving.plan()

    @property
    def cached(self) -> int:
        """Bytes that all sequences cache."""
        return self.serving.here(self.n_sequences) * self.plan.cache_of_one

    @property
    def state(self) -> int:
        """Bytes of it that do not grow with the context: states and convolutions."""
        return state_bytes(self.serving.held, self.serving.here(self.n_sequences))

    @property
    def needed(self) -> int:
        """Bytes of weights and caches, without the reserve."""
        return int(self.plan.needed(self.n_sequences).value)

    @property
    def spare(self) -> int:
        """Bytes left beside weights, caches and reserve; negative if that many are missing."""
        return self.plan.free - self.cached

    @property
    def fits(self) -> bool:
        """True if weights, caches and reserve fit in the memory."""
        return self.spare >= 0

    @property
    def most(self) -> int:
        """Number of sequences of this context that fit at once."""
        return self.plan.n_users

    @property
    def tokens_per_second(self) -> float | None:
        """The bound for all sequences together, whether they fit or not; None if bandwidth or work is not known."""
        known = self.serving.accelerator.bandwidth and self.serving.work_known
        return self.serving.tokens_per_second(self.n_sequences) if known else None

    @cached_property
    def smallest_number(self) -> int | None:
        """The fewest of this accelerator that hold it and divide its heads evenly; None if no number does.

        Each holds copies of some weights, and may hold copies of caches.
        """
        least, serving = -(-self._needed_on(1) // self._usable), self.serving
        tried = (n for n in range(least, MOST + 1) if divides_evenly(serving.model, n, serving.parallel))
        return next((n for n in tried if self._needed_on(n) <= self._usable), None)

    @property
    def _usable(self) -> int:
        """Bytes of one accelerator without the reserve."""
        return self.plan.memory - self.plan.reserve

    def _needed_on(self, n: int) -> int:
        """Bytes needed on each of n of this accelerator."""
        card = replace(self.serving.accelerator, count=n)
        return self.serving.on(card).needed(self.n_sequences)


def of_models(models: Iterable[ModelConfig], asked: Answer) -> list[Answer]:
    """Return the answer for each model: those that fit first, the largest of them on top, then the smallest lack."""
    answers = [Answer(asked.serving.of(model), asked.n_sequences) for model in models]
    return sorted(answers, key=lambda a: (not a.fits, -a.plan.weights if a.fits else -a.spare))


def of_accelerators(accelerators: Iterable[Accelerator], asked: Answer) -> list[Answer]:
    """Return the answer on each accelerator, as many of it as asked: those that hold it first, fastest on top."""
    n = asked.serving.accelerator.count
    answers = [Answer(asked.serving.on(one.times(n)), asked.n_sequences) for one in accelerators]
    return sorted(answers, key=lambda a: (not a.fits, -(a.tokens_per_second or 0) if a.fits else -a.spare))
