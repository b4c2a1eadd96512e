"""State space models: Mamba (arXiv 2312.00752), a state per channel, and Mamba-2 (2405.21060), one per head.

Each channel has a state of Dₛ numbers that decays by a time step, takes up the input through B and is read through C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from attnviz.equations import Expression
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import State, largest_share
from attnviz.mechanisms.recurrent import Recurrent
from attnviz.phrases import count

SENTENCE = "AttnViz counts {} and does not run it: it has a state per channel and no map of weights."


@dataclass(frozen=True, kw_only=True)
class Mamba(Recurrent):
    """Mamba over its channels, in `n_heads` independent parts (1 but in Zamba).

    normed: norms on the time step, B and C, as in Jamba.
    """

    state_size: int
    step_rank: int
    taps: int
    conv_bias: bool = True
    bias: bool = False
    normed: bool = False

    by_channel: ClassVar[bool] = True
    only_costs: ClassVar[str] = SENTENCE.format("Mamba")
    kind: ClassVar[str] = "mamba"
    name: ClassVar[str] = "Mamba"

    def summary(self) -> str:
        return f"Mamba: {count(self.channels, 'channel')}, each with a state of {count(self.state_size, 'number')}"

    def _letters(self) -> tuple[Expression, ...]:
        rank = letter("Y", self.step_rank)
        return letter("X", self.channels), letter("Dₛ", self.state_size), rank, letter("w", self.taps)

    def matrices(self, C: Expression) -> dict[str, Expression]:
        X, Ds, Y, _ = self._letters()
        return {
            "in projection": 2 * C * X,
            "time step, B and C": X * (Y + 2 * Ds),
            "time step": Y * X,
            "out projection": X * C,
        }

    def added(self, C: Expression) -> dict[str, Expression]:
        X, Ds, Y, w = self._letters()
        return {
            "convolution": X * (w + 1) if self.conv_bias else X * w,
            "A and D": X * (Ds + 1),
            "time step": X,
            **({"in projection": 2 * X, "out projection": C} if self.bias else {}),
            **({"norms of the time step, B and C": Y + 2 * Ds} if self.normed else {}),
        }

    def state(self) -> tuple[State, ...]:
        X, Ds, _, w = self._letters()
        return State("state", X * Ds, 32), State("convolution", X * w)

    def flops_per_token(self) -> Expression:
        """Decay, input through B and read through C: 1 + 3 + 2 per number of the state."""
        X, Ds, _, w = self._letters()
        return 6 * X * Ds + 2 * w * X


@dataclass(frozen=True, kw_only=True)
class Mamba2(Recurrent):
    """Mamba-2 with `n_heads` heads; B and C are shared by the heads of a group.

    normed: a norm before the output. out_bias: of the output, None as of the input.
    """

    state_size: int
    n_groups: int
    taps: int
    conv_bias: bool = True
    bias: bool = False
    out_bias: bool | None = None
    normed: bool = True

    only_costs: ClassVar[str] = SENTENCE.format("Mamba-2")
    kind: ClassVar[str] = "mamba2"
    name: ClassVar[str] = "Mamba-2"

    def summary(self) -> str:
        return f"Mamba-2: {count(self.n_heads, 'head')}, each with a state of {self.head_dim} × {self.state_size}"

    def _letters(self) -> tuple[Expression, ...]:
        H, D = letter("H", self.n_heads, "heads"), letter("D", self.head_dim, "channels of a head")
        return H, D, letter("Dₛ", self.state_size), letter("J", self.n_groups), letter("w", self.taps)

    def _channels(self) -> Expression:
        """Return the channels that the convolution passes over: those of the heads, and B and C of each group."""
        H, D, Ds, J, _ = self._letters()
        return H * D + 2 * J * Ds

    def share(self, n: int) -> Mamba2:
        """By heads; B and C of a group are copied where there are fewer groups than accelerators."""
        return replace(self, n_heads=largest_share(self.n_heads, n), n_groups=largest_share(self.n_groups, n))

    def matrices(self, C: Expression) -> dict[str, Expression]:
        H, D, _, _, _ = self._letters()
        return {"in projection": C * (H * D + self._channels() + H), "out projection": H * D * C}

    def added(self, C: Expression) -> dict[str, Expression]:
        H, D, _, _, w = self._letters()
        taps = w + 1 if self.conv_bias else w
        return {
            "convolution": taps * self._channels(),
            "A, D and time step": 3 * H,
            **({"in projection": H * D + self._channels() + H} if self.bias else {}),
            **({"out projection": C} if (self.bias if self.out_bias is None else self.out_bias) else {}),
            **({"output norm": H * D} if self.normed else {}),
        }

    def state(self) -> tuple[State, ...]:
        H, D, Ds, _, w = self._letters()
        return State("state", H * D * Ds, 32), State("convolution", w * self._channels())

    def flops_per_token(self) -> Expression:
        """Decay, input through B and read through C: 1 + 3 + 2 per number of the state."""
        H, D, Ds, _, w = self._letters()
        return 6 * H * D * Ds + 2 * w * self._channels()
