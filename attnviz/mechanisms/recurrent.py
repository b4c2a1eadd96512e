"""What recurrent and convolving mixers share: a state of fixed size instead of a cache, and no map of weights.

AttnViz counts what they cost; of those that it has no module of to run, `cannot` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from attnviz.equations import Expression, Value
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Mechanism, Vectors, largest_share
from attnviz.mechanisms.mixer import ABSORBED, Mixer
from attnviz.phrases import count


@dataclass(frozen=True, kw_only=True)
class Recurrent(Mixer):
    """A mixer that keeps a state per sequence. Its work per token does not depend on the tokens before."""

    n_heads: int = 1
    head_dim: int

    attends: ClassVar[bool] = False
    maps: ClassVar[str] = ""
    shares_kv_heads: ClassVar[bool] = False
    absorbed: ClassVar[bool] = False
    rotated_tensors: ClassVar[tuple[int, ...]] = ()
    rotary_start: ClassVar[int] = 0
    by_channel: ClassVar[bool] = False  # each channel has a state of its own
    only_costs: ClassVar[str]  # what cannot be shown of it, as a sentence

    scale: ClassVar[None] = None
    softcap: ClassVar[None] = None
    rotary_dim: ClassVar[int] = 0

    @property
    def n_kv_heads(self) -> int:
        """Each head has a state of its own."""
        return self.n_heads

    @property
    def channels(self) -> int:
        return self.n_heads * self.head_dim

    @property
    def value_dim(self) -> int:
        return self.head_dim

    def flops_per_token(self) -> Expression:
        """Return the FLOPs of updating and reading the state for one token, besides products with weights."""
        raise NotImplementedError

    refusals: ClassVar[Mapping[str, str]] = {
        ABSORBED: "A state is kept instead of a cache: without a latent to expand there is no absorbed form.",
    }

    def cannot(self, what: str) -> str:
        return self.refusals.get(what, self.only_costs)

    def maps_finding(self) -> str:
        return self.only_costs

    def why_cached(self) -> str:
        return "A state of fixed size stands for all earlier tokens: it does not grow with the text."

    def assumption(self, d_model: int) -> str:
        return f"{' and '.join(each.part for each in self.state())} of fixed size, nothing per token"

    def copies(self, n: int) -> Fraction:
        """A state belongs to one head or channel."""
        return Fraction(1)

    def on_each(self, n: int) -> str:
        if self.by_channel:
            return f"the state of {largest_share(self.channels, n):,} of {count(self.channels, 'channel')}"
        return f"the state of {largest_share(self.n_heads, n)} of {count(self.n_heads, 'head')}"

    def uneven(self, n: int) -> str:
        whole, what = (self.channels, "channel") if self.by_channel else (self.n_heads, "head")
        return count(whole, what) if whole % n else ""

    def share(self, n: int) -> Mechanism:
        """By heads, or by channels where these are independent."""
        if self.by_channel:
            return replace(self, n_heads=1, head_dim=largest_share(self.channels, n))
        return replace(self, n_heads=largest_share(self.n_heads, n))

    def read_in_short(self, kv_head: int) -> str:
        return self.keys_read(kv_head)

    def keys_read(self, kv_head: int) -> str:
        return f"state of head {kv_head}"

    def rotated_projections(self) -> dict[str, tuple[int, int]]:
        return {}

    def axes(self) -> dict[str, int]:
        return {}

    def cached(self) -> tuple[Vectors, ...]:
        return ()

    def bands(self) -> str:
        return "Nothing is cached per token: the layer keeps a state."

    def counted_when_decoding(self, n_layers: int) -> str:
        return f"in {n_layers} layers a state is updated and read once per token, in its recurrent form."

    def flops_note(self, n_layers: int) -> str:
        return f"In {n_layers} layers a state is updated and read, which takes as long after any number of tokens."

    def keys(self, S: Value) -> Expression:
        return Value(0)

    def pairs(self, S: Value) -> Expression:
        return Value(0)

    def flops_per_pair(self, absorbed: bool = False) -> Expression:
        return Value(0)

    def decoding(self, S: Value) -> tuple[tuple[Expression, Expression], ...]:
        return ((letter("T", 1), self.flops_per_token()),)

    def prompt(self, S: Value) -> tuple[tuple[Expression, Expression], ...]:
        return ((S, self.flops_per_token()),)

    def without_cache(self, T: Value) -> tuple[tuple[Expression, Expression], ...]:
        return ((T, self.flops_per_token()),)
