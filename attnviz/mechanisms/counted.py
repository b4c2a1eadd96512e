"""A whole model as another program has counted it: parameters and cache are numbers without a formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from attnviz.equations import Expression, Value
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import State, Vectors, largest_share
from attnviz.mechanisms.windowed import Windowed


@dataclass(frozen=True, kw_only=True)
class Counted(Windowed):
    """Part of a model whose mechanisms nobody described: `weights`, numbers cached per token and kept per sequence.

    by: who counted. window: the tokens that the cache holds at most. Its work is not known.
    """

    n_heads: int = 1
    by: str
    weights: int = 0
    per_token: int = 0
    kept_in_16: int = 0  # numbers per sequence, whatever its length, in 16 bits
    kept_in_32: int = 0

    lowest: ClassVar[Mapping[str, int]] = {
        "weights": 0, "per_token": 0, "kept_in_16": 0, "kept_in_32": 0, "n_sinks": 0
    }  # fmt: skip
    attends: ClassVar[bool] = False
    maps: ClassVar[str] = ""
    shares_kv_heads: ClassVar[bool] = False
    absorbed: ClassVar[bool] = False
    work_known: ClassVar[bool] = False
    kind: ClassVar[str] = "other"
    n_kv_heads: ClassVar[int] = 1
    head_dim: ClassVar[int] = 1
    value_dim: ClassVar[int] = 1
    scale: ClassVar[None] = None
    softcap: ClassVar[None] = None
    rotary_dim: ClassVar[int] = 0

    @property
    def name(self) -> str:
        return f"counted by {self.by}"

    def cannot(self, what: str) -> str:
        return (
            f"AttnViz does not know the layers of this model: {self.by} built it without memory, and its parameters "
            "and what its cache object holds were counted. So it has no equations, and the work per token is not known."
        )

    def matrices(self, C: Expression) -> dict[str, Expression]:
        return {"layers": letter("Nₚ", self.weights)} if self.weights else {}

    def cached(self) -> tuple[Vectors, ...]:
        held = letter("Nₖ", self.per_token)
        return (Vectors(("cache",), held),) if self.per_token else ()

    def state(self) -> tuple[State, ...]:
        sizes = ((self.kept_in_16, 16), (self.kept_in_32, 32))
        return tuple(State("state", letter("Nₛ", n), bits) for n, bits in sizes if n)

    def assumption(self, d_model: int) -> str:
        return f"{self.name}: {self.per_token:,} numbers per token"

    def copies(self, n: int) -> Fraction:
        return Fraction(1)

    def on_each(self, n: int) -> str:
        return "an even share, which is assumed: its layers are not known"

    def divides_evenly(self, n: int) -> bool:
        return True

    def share(self, n: int) -> Counted:
        return replace(
            self, weights=largest_share(self.weights, n), per_token=largest_share(self.per_token, n),
            kept_in_16=largest_share(self.kept_in_16, n), kept_in_32=largest_share(self.kept_in_32, n),
        )  # fmt: skip

    def flops_per_pair(self, absorbed: bool = False) -> Expression:
        return Value(0)
