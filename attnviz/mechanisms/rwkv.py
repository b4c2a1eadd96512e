"""RWKV-4 (arXiv 2305.13048): a running, decayed average of values per channel.

Its feed-forward also sees the token before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from attnviz.equations import Expression
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Mechanism, State, largest_share
from attnviz.mechanisms.recurrent import Recurrent
from attnviz.phrases import count


@dataclass(frozen=True, kw_only=True)
class TimeMix(Recurrent):
    """Time mixing over its channels. The state also holds the last input of the feed-forward, `ChannelMix`."""

    d_model: int

    by_channel: ClassVar[bool] = True
    only_costs: ClassVar[str] = (
        "AttnViz counts RWKV and does not run it: it has a running average per channel and no map of weights."
    )
    kind: ClassVar[str] = "rwkv"
    name: ClassVar[str] = "RWKV"

    def summary(self) -> str:
        return f"RWKV: {count(self.channels, 'channel')}, each with a running average"

    def matrices(self, C: Expression) -> dict[str, Expression]:
        X = letter("X", self.channels)
        return {"k": C * X, "v": C * X, "receptance": C * X, "o": X * C}

    def added(self, C: Expression) -> dict[str, Expression]:
        return {"decay": 2 * letter("X", self.channels), "token shift": 3 * C}

    def state(self) -> tuple[State, ...]:
        X, C = letter("X", self.channels), letter("C", self.d_model)
        return State("state", 3 * X, 32), State("token shift", 2 * C)

    def flops_per_token(self) -> Expression:
        """Two decayed sums, updated and read, per channel."""
        return 12 * letter("X", self.channels)


@dataclass(frozen=True)
class ChannelMix(Mechanism):
    """RWKV's feed-forward: squared ReLU, gated by a receptance, of the token and the one before."""

    d_ff: int

    def share(self, n: int) -> ChannelMix:
        """By d_ff; the receptance is whole on each."""
        return replace(self, d_ff=largest_share(self.d_ff, n))

    def matrices(self, C: Expression) -> dict[str, Expression]:
        F = letter("F", self.d_ff)
        return {"feed-forward": 2 * C * F + C * C}

    def added(self, C: Expression) -> dict[str, Expression]:
        return {"token shift": 2 * C}
