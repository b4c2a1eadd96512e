"""Sparse attention with an indexer (DeepSeek sparse attention, arXiv 2512.02556): each query attends to its top-k keys.

Index heads score all keys by one index key per token, which is cached besides what the attention itself caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from attnviz.equations import Expression, Value, function
from attnviz.mechanisms.grouped import Grouped, GroupedShare
from attnviz.mechanisms.latent import Latent
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Vectors, combined
from attnviz.mechanisms.mixer import ABSORBED, Mixer


@dataclass(frozen=True, kw_only=True)
class Indexed(Mixer):
    """Attention over the top-k keys of an indexer. shared: the layer uses the choice of an earlier layer's indexer."""

    top_k: int
    n_index_heads: int
    index_dim: int
    shared: bool = False

    ONLY_COSTS: ClassVar[str] = (
        "AttnViz runs layers with an indexer of their own, and counts those that use an earlier layer's choice."
    )
    REFUSED: ClassVar[Mapping[str, str]] = {  # what is not done or shown with an indexer, and why
        "convert": "the indexer of sparse attention was trained with these KV heads",
        "kernel": "An indexer chooses the keys of this layer by the text; the equal forms are those of dense "
        "attention, so the numerical checks are skipped.",
        "mistake softmax_over_queries": "A key that no query keeps would have a column without a score, whose softmax "
        "is not defined: with an indexer this mistake gives NaN, not other weights.",
        "work": "The formulas count the keys that the indexer keeps, and the module here scores all keys and masks the "
        "others, so the two are not compared.",
        "cross-attention": "The indexer ranks the tokens of one text; it has not learnt to rank those of another.",
    }

    def cannot(self, what: str) -> str:
        if self.shared and what == "run":
            return self.ONLY_COSTS
        return self.REFUSED.get(what) or super().cannot(what)

    def _query_width(self, C: Expression) -> Expression:
        """Return the width of what index queries are projected from."""
        return C

    def matrices(self, C: Expression) -> dict[str, Expression]:
        weights = super().matrices(C)
        if self.shared:
            return weights
        heads, D = letter("I", self.n_index_heads), letter("Dᵢ", self.index_dim)
        return weights | {"indexer": self._query_width(C) * heads * D + C * D + C * heads}

    def added(self, C: Expression) -> dict[str, Expression]:
        norm = {} if self.shared else {"indexer": 2 * letter("Dᵢ", self.index_dim)}
        return combined(super().added(C), norm)

    def cached(self) -> tuple[Vectors, ...]:
        return super().cached() + (() if self.shared else (Vectors(("index key",), letter("Dᵢ", self.index_dim)),))

    def seen(self) -> str:
        return f"top {self.top_k:,} keys"

    def masked_note(self, n_keys: int) -> str:
        if n_keys <= self.top_k:
            return f"Grey cells are masked. The indexer keeps {self.top_k} keys per query, all that there are here."
        return f"Grey cells are masked, or not among the {self.top_k} keys that the indexer keeps for the query."

    def keys(self, S: Value) -> Expression:
        return function("min", S, letter("Sₖ", self.top_k))

    def kept(self, S: Value) -> Expression:
        return S

    def pairs(self, S: Value) -> Expression:
        if self.top_k >= S.number:
            return S * (S + 1) / 2
        k = self.keys(S)
        return k * (2 * S - k + 1) / 2

    def _index_flops(self) -> Expression:
        """Return the FLOPs of one index score: a product and a weighted ReLU in each index head."""
        return 2 * letter("I", self.n_index_heads) * (letter("Dᵢ", self.index_dim) + 1)

    def decoding(self, S: Value) -> tuple[tuple[Expression, Expression], ...]:
        return super().decoding(S) + (() if self.shared else ((S, self._index_flops()),))

    def prompt(self, S: Value) -> tuple[tuple[Expression, Expression], ...]:
        return super().prompt(S) + (() if self.shared else ((S * (S + 1) / 2, self._index_flops()),))

    def without_cache(self, T: Value) -> tuple[tuple[Expression, Expression], ...]:
        return super().without_cache(T) + (() if self.shared else ((T * T, self._index_flops()),))

    def traced_bytes(self, n_tokens: int) -> int:
        return super().traced_bytes(n_tokens) + 4 * n_tokens**2  # the index scores

    def axes(self) -> dict[str, int]:
        return super().axes() | {"I": self.n_index_heads, "Dᵢ": self.index_dim}


@dataclass(frozen=True, kw_only=True)
class IndexedGrouped(Indexed, Grouped):
    """Grouped-query attention over the top-k keys of an indexer."""

    rotated_tensors: ClassVar[tuple[int, ...]] = (0, 2)  # k, and the index key
    called: ClassVar[str] = "grouped-query attention with an indexer"
    source: ClassVar[str] = "indexed.py"

    @property
    def name(self) -> str:
        return f"{super().name} with indexer"

    def on_each(self, n: int) -> str:
        return super().on_each(n) if self.shared else f"{super().on_each(n)} and the index key"

    def _share_class(self) -> type[Grouped]:
        return IndexedGroupedShare


@dataclass(frozen=True, kw_only=True)
class IndexedGroupedShare(Indexed, GroupedShare):
    """What one accelerator holds of it: the indexer is whole on each."""


@dataclass(frozen=True, kw_only=True)
class IndexedLatent(Indexed, Latent):
    """MLA over the top-k keys of an indexer, as in DeepSeek V3.2."""

    called: ClassVar[str] = "latent attention with an indexer"
    source: ClassVar[str] = "indexed.py"

    def cannot(self, what: str) -> str:
        if what == ABSORBED:
            return "The indexer chooses other keys for each query, so MLA's two forms are not compared for all of them."
        return super().cannot(what)

    def _query_width(self, C: Expression) -> Expression:
        return C if self.q_lora_rank is None else letter("Q", self.q_lora_rank)
