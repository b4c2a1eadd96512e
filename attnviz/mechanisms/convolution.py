"""Gated short convolution, as in LFM2: each channel mixes the last w tokens, between two gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attnviz.equations import Expression
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import State
from attnviz.mechanisms.recurrent import Recurrent
from attnviz.phrases import count


@dataclass(frozen=True, kw_only=True)
class ShortConvolution(Recurrent):
    """A convolution over d_model channels, given as head_dim, and `taps` tokens, its own included."""

    taps: int
    bias: bool = False

    by_channel: ClassVar[bool] = True
    only_costs: ClassVar[str] = (
        "AttnViz counts short convolutions and does not run them: they mix a few tokens with fixed weights, no map."
    )
    kind: ClassVar[str] = "convolution"
    name: ClassVar[str] = "short convolution"

    def summary(self) -> str:
        return f"Short convolution over {count(self.taps, 'token')}"

    def _channels(self, C: Expression) -> Expression:
        """Return the channels: all d_model of them, or one accelerator's."""
        return C if self.channels == C.value else letter("X", self.channels)

    def matrices(self, C: Expression) -> dict[str, Expression]:
        X = self._channels(C)
        return {"in projection": 3 * C * X, "out projection": X * C}

    def added(self, C: Expression) -> dict[str, Expression]:
        w, X = letter("w", self.taps), self._channels(C)
        if self.bias:
            return {"convolution": (w + 1) * X, "in projection": 3 * X, "out projection": C}
        return {"convolution": w * X}

    def state(self) -> tuple[State, ...]:
        return (State("convolution", letter("w", self.taps) * letter("C", self.channels)),)

    def flops_per_token(self) -> Expression:
        """The convolution, and a product with each of the two gates."""
        C = letter("C", self.channels)
        return 2 * letter("w", self.taps) * C + 2 * C
