"""DeepSeek-V4's attention: one KV vector per token in a window, and compressed entries of the tokens before it.

CSA (compressed sparse attention) compresses m tokens to one entry, with overlap, and an indexer chooses the entries of
each query. HCA (heavily compressed attention) compresses many more tokens, and attends to all entries. Tokens that do
not fill an entry yet wait with their gates. Layers with the window alone cache the vector twice, as transformers does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from attnviz.equations import Expression, Value, function
from attnviz.mechanisms.grouped import Grouped
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Vectors, largest_share, whole_pages


@dataclass(frozen=True, kw_only=True)
class Compressed(Grouped):
    """H query heads over one vector per token that is key and value.

    rate: tokens per compressed entry, None for the window alone. top_k: entries that a query attends to, None for all
    without an indexer.
    """

    q_lora_rank: int
    o_groups: int
    o_lora_rank: int
    rate: int | None = None
    top_k: int | None = None
    n_index_heads: int | None = None
    index_dim: int | None = None

    ONLY_COSTS: ClassVar[str] = (
        "AttnViz counts compressed attention and does not run it: an entry that a query attends to stands for several "
        "tokens."
    )
    refusals: ClassVar[Mapping[str, str]] = {**Grouped.refusals, "run": ONLY_COSTS}

    @property
    def name(self) -> str:
        if self.rate is None:
            return "MQA, key = value"
        return f"{'HCA' if self.top_k is None else 'CSA'}, {self.rate:,} tokens per entry"

    def _ranks(self) -> tuple[Expression, Expression]:
        return letter("Q", self.q_lora_rank), letter("R", self.o_lora_rank, "o_lora_rank")

    def _compressor_width(self) -> Expression:
        """Return the width of what is compressed: both series that overlap, in CSA."""
        D = letter("D", self.head_dim)
        return D if self.top_k is None else 2 * D

    def matrices(self, C: Expression) -> dict[str, Expression]:
        H, _, D, _ = self._letters()
        Q, R = self._ranks()
        groups = Value(self.o_groups)
        found = {"q down": C * Q, "q up": Q * H * D, "k and v": C * D, "o down": R * H * D, "o up": groups * R * C}
        if self.rate is not None:
            found["compressor"] = 2 * C * self._compressor_width()
        if self.index_dim is not None:
            heads, width = letter("I", self.n_index_heads or 0), letter("Dᵢ", self.index_dim)
            found["indexer"] = 4 * C * width + Q * heads * width + C * heads
        return found

    def added(self, C: Expression) -> dict[str, Expression]:
        H, _, D, _ = self._letters()
        Q, _ = self._ranks()
        found: dict[str, Expression] = {"latent norms": Q + D, "sinks": H}
        if self.rate is not None:
            found["compressor"] = self._rate() * self._compressor_width() + D
        if self.index_dim is not None:
            width = letter("Dᵢ", self.index_dim)
            found["indexer"] = 2 * self._rate() * width + width
        return found

    def _rate(self) -> Value:
        return letter("Sₘ", self.rate or 0)

    def cached(self) -> tuple[Vectors, ...]:
        parts = ("k", "v") if self.rate is None else ("k and v",)
        return (Vectors(parts, letter("D", self.head_dim)),)

    @property
    def entry_tokens(self) -> int:
        return self.rate or 1

    def share(self, n: int) -> Compressed:
        """By heads and groups of the output; what makes the one KV vector and its entries is whole on each."""
        return replace(self, n_heads=largest_share(self.n_heads, n), o_groups=largest_share(self.o_groups, n))

    def stores(self, S: Value, page: int = 1) -> tuple[tuple[Expression, tuple[Vectors, ...]], ...]:
        """Entries are rounded up to whole pages as tokens are; those that wait have room of a fixed size."""
        window = (self.in_pages(S, page), self.cached())
        if self.rate is None:
            return (window,)
        m, D = self._rate(), letter("D", self.head_dim)
        full = m * function("floor", S / m)
        waiting = ("tokens to compress", "their gates")
        index = () if self.index_dim is None else (letter("Dᵢ", self.index_dim),)
        entries = (Vectors(("compressed entries",), D), *(Vectors(("index keys",), width) for width in index))
        two = None if self.top_k is None else Value(2)
        tokens = tuple(Vectors(waiting, width, two) for width in (D, *index))
        found = (window, (whole_pages(function("floor", S / m), page), entries), (S - full, tokens))
        if self.top_k is None:
            return found
        return (*found, (function("min", m, full), tuple(Vectors(waiting, width) for width in (D, *index))))

    def _entries(self, S: Value) -> Expression:
        found = function("floor", S / self._rate())
        if self.top_k is None:
            return found
        return function("min", found, letter("Sₖ", self.top_k, "entries that a query attends to at most"))

    def _index_flops(self) -> Expression:
        return 2 * letter("I", self.n_index_heads or 0) * (letter("Dᵢ", self.index_dim or 0) + 1)

    def decoding(self, S: Value) -> tuple[tuple[Expression, Expression], ...]:
        per_key = self.flops_per_pair()
        if self.rate is None:
            return ((self.keys(S), per_key),)
        found = ((self.keys(S) + self._entries(S), per_key),)
        index = () if self.index_dim is None else ((function("floor", S / self._rate()), self._index_flops()),)
        return (*found, *index)

    def prompt(self, S: Value) -> tuple[tuple[Expression, Expression], ...]:
        per_key = self.flops_per_pair()
        if self.rate is None:
            return ((self.pairs(S), per_key),)
        m, entries = self._rate(), function("floor", S / self._rate())
        seen = m * entries * (entries - 1) / 2 + entries * (S - m * entries + 1)  # by all tokens of all entries
        if self.top_k is None:
            return ((self.pairs(S) + seen, per_key),)
        chosen = seen
        if entries.value > self.top_k:  # k entries more than with none for each token from m · k on
            k = letter("Sₖ", self.top_k, "entries that a query attends to at most")
            chosen = m * k * (k - 1) / 2 + k * (S - m * k + 1)
        return (self.pairs(S) + chosen, per_key), (seen, self._index_flops())
