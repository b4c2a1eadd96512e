"""Lightning attention (arXiv 2401.04658), linear attention with a fixed decay per head, as in MiniMax-Text-01.

Per head a state of D × D numbers is decayed, takes up the product of key and value, and is read by the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attnviz.equations import Expression
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import State
from attnviz.mechanisms.recurrent import Recurrent
from attnviz.phrases import count


@dataclass(frozen=True, kw_only=True)
class Lightning(Recurrent):
    """Linear attention with `n_heads` heads, an output gate and a norm over all heads."""

    only_costs: ClassVar[str] = (
        "AttnViz counts lightning attention and does not run it: it has a state per head and no map of weights."
    )
    kind: ClassVar[str] = "lightning"
    name: ClassVar[str] = "lightning attention"

    def summary(self) -> str:
        heads = count(self.n_heads, "head")
        return f"Lightning attention: {heads}, each with a state of {self.head_dim} × {self.head_dim}"

    def matrices(self, C: Expression) -> dict[str, Expression]:
        H, D = letter("H", self.n_heads, "heads"), letter("D", self.head_dim)
        return {"q": C * H * D, "k": C * H * D, "v": C * H * D, "output gate": C * H * D, "o": H * D * C}

    def added(self, C: Expression) -> dict[str, Expression]:
        return {"output norm": letter("H", self.n_heads, "heads") * letter("D", self.head_dim)}

    def state(self) -> tuple[State, ...]:
        D = letter("D", self.head_dim)
        return (State("state", letter("H", self.n_heads, "heads") * D * D),)

    def flops_per_token(self) -> Expression:
        """Decay, write and read by the query: 1 + 2 + 2 per number of the state."""
        D = letter("D", self.head_dim)
        return 5 * letter("H", self.n_heads, "heads") * D * D
