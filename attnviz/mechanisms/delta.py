"""Gated delta rule (gated DeltaNet, arXiv 2412.06464; Kimi delta attention with a decay per channel, 2510.26692).

Per head a state of D × V numbers is decayed, corrected by what the new key reads from it, and read by the query. Keys,
queries and values pass a convolution over the last w tokens first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from attnviz.equations import Expression
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import State, largest_share
from attnviz.mechanisms.recurrent import Recurrent
from attnviz.phrases import count

GATES = ("full", "low rank")  # how an output gate, and a decay per channel, are projected


@dataclass(frozen=True, kw_only=True)
class GatedDelta(Recurrent):
    """`n_heads` value heads of width head_dim; `n_key_heads` heads of queries and keys, shared by the value heads.

    decay: None for one number per head, or how a decay per channel is projected. gate: how the output gate is.
    """

    n_key_heads: int
    key_dim: int
    taps: int
    decay: str | None = None
    gate: str = "full"

    called: ClassVar[str] = "the gated delta rule"
    maps: ClassVar[str] = "effective weights"
    source: ClassVar[str] = "delta.py"
    kind: ClassVar[str] = "delta"
    name: ClassVar[str] = "gated delta rule"

    @property
    def n_kv_heads(self) -> int:
        """Key heads: value heads that share one have the same queries and keys."""
        return self.n_key_heads

    @property
    def value_head_of(self) -> tuple[int, ...]:
        return tuple(range(self.n_heads))

    @property
    def value_dim(self) -> int:
        return self.head_dim

    @property
    def score_root(self) -> float:
        return self.key_dim

    def traced_bytes(self, n_tokens: int) -> int:
        """Return the bytes of q and k, twice each, v, decay, β, output and weights per token, and of the state."""
        H, D, V = self.n_heads, self.key_dim, self.head_dim
        per_token = 2 * (H + self.n_key_heads) * D + 2 * H * V + 2 * H + H * n_tokens
        return 4 * (n_tokens * per_token + H * D * V)

    def cannot(self, what: str) -> str:
        if what == "run" and (self.decay is not None or self.gate != "full"):
            return (
                "AttnViz counts the gated delta rule with a decay per channel and does not run it in a model, but with "
                "one decay per head."
            )
        return self.refusals.get(what, "")

    def summary(self) -> str:
        kind = "a decay per channel" if self.decay else "a decay per head"
        return (
            f"Gated delta rule: {count(self.n_heads, 'head')} with {kind}, a state of {self.key_dim} × {self.head_dim}"
        )

    def _letters(self) -> tuple[Expression, ...]:
        return (
            letter("Hₖ", self.n_key_heads), letter("H", self.n_heads, "value heads"),
            letter("D", self.key_dim, "width of a key"), letter("V", self.head_dim, "width of a value"),
        )  # fmt: skip

    def _channels(self) -> Expression:
        """Return the channels of queries, keys and values that the convolution passes over."""
        K, H, D, V = self._letters()
        return 2 * K * D + H * V

    def _projected(self, C: Expression, how: str, width: Expression) -> Expression:
        g = letter("g", self.head_dim)
        return C * width if how == "full" else g * (C + width)

    def matrices(self, C: Expression) -> dict[str, Expression]:
        K, H, D, V = self._letters()
        decay = C * H if self.decay is None else self._projected(C, self.decay, H * D)
        return {
            "q": C * K * D, "k": C * K * D, "v": C * H * V, "output gate": self._projected(C, self.gate, H * V),
            "decay": decay, "write strength": C * H, "o": H * V * C,
        }  # fmt: skip

    def added(self, C: Expression) -> dict[str, Expression]:
        K, H, D, V = self._letters()
        rates = 2 * H if self.decay is None else H * D + H
        return {"convolution": letter("w", self.taps) * self._channels(), "decay": rates, "output norm": V}

    def share(self, n: int) -> GatedDelta:
        """By value heads; a key head is copied where there are fewer of them than accelerators."""
        return replace(self, n_heads=largest_share(self.n_heads, n), n_key_heads=largest_share(self.n_key_heads, n))

    def state(self) -> tuple[State, ...]:
        K, H, D, V = self._letters()
        return (
            State("state", H * D * V, 32),
            State("convolution", letter("w", self.taps) * self._channels()),
        )

    def flops_per_token(self) -> Expression:
        """Decay, read by the key, write and read by the query: 1 + 2 + 2 + 2 per number of the state."""
        K, H, D, V = self._letters()
        return 7 * H * D * V + 2 * letter("w", self.taps) * self._channels()
