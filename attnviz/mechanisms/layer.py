"""A layer of a model: its parts in order, and whose cache or weights it shares."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.mechanisms.feedforward import Dense, Experts
from attnviz.mechanisms.mechanism import Mechanism, Mixer
from attnviz.mechanisms.others import Again


@dataclass(frozen=True)
class Layer:
    """The parts of one layer, such as a mixer and a feed-forward.

    parallel: the parts read the same input and their outputs are added, instead of one after the other.
    n_norms: norms over d_model. rope_theta: the base of its rotation, None without one.
    shares_cache_of, shares_weights_of: index of the earlier layer whose cache or weights it uses instead of its own.
    """

    parts: tuple[Mechanism, ...]
    n_norms: int = 2
    parallel: bool = False
    rope_theta: float | None = None
    shares_cache_of: int | None = None
    shares_weights_of: int | None = None

    @property
    def running(self) -> tuple[Mechanism, ...]:
        """The parts themselves, also of those with an earlier part's weights."""
        return tuple(part.part if isinstance(part, Again) else part for part in self.parts)

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        return tuple(part for part in self.running if isinstance(part, Mixer))

    @property
    def feed_forwards(self) -> tuple[Dense | Experts, ...]:
        return tuple(part for part in self.running if isinstance(part, Dense | Experts))
