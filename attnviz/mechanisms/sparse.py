"""Sparse attention with an indexer (DeepSeek sparse attention, arXiv 2512.02556): each query attends to its top-k keys.

Index heads score all keys by one index key per token, which is cached besides what the attention itself caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from attnviz.equations import Expression, Value, function
from attnviz.mechanisms.latent import Latent
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Vectors, combined


@dataclass(frozen=True, kw_only=True)
class IndexedLatent(Latent):
    """MLA over the top-k keys of an indexer. shared: the layer uses the choice of an earlier layer's indexer."""

    top_k: int
    n_index_heads: int
    index_dim: int
    shared: bool = False

    ONLY_COSTS: ClassVar[str] = (
        "AttnViz counts sparse attention with an indexer and does not run it on MLA: which keys are chosen depends on "
        "the weights."
    )
    refusals: ClassVar[Mapping[str, str]] = {**Latent.refusals, "run": ONLY_COSTS}

    def matrices(self, C: Expression) -> dict[str, Expression]:
        weights = super().matrices(C)
        if self.shared:
            return weights
        heads, D = letter("I", self.n_index_heads), letter("Dᵢ", self.index_dim)
        queries = C if self.q_lora_rank is None else letter("Q", self.q_lora_rank)
        return weights | {"indexer": queries * heads * D + C * D + C * heads}

    def added(self, C: Expression) -> dict[str, Expression]:
        norm = {} if self.shared else {"indexer": 2 * letter("Dᵢ", self.index_dim)}
        return combined(super().added(C), norm)

    def cached(self) -> tuple[Vectors, ...]:
        return super().cached() + (() if self.shared else (Vectors(("index key",), letter("Dᵢ", self.index_dim)),))

    def seen(self) -> str:
        return f"top {self.top_k:,} keys"

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
