"""Parts with weights that neither mix tokens nor are a feed-forward: gates, adapters, per-layer embeddings.

`Other` holds what only one architecture has, under the name that its paper gives it. `Again` is a part that uses the
weights of an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from attnviz.equations import Expression, function
from attnviz.mechanisms.letters import letter
from attnviz.mechanisms.mechanism import Mechanism


@dataclass(frozen=True)
class Other(Mechanism):
    """Weights under one name: those that a token is multiplied with, those only added, and an embedding's."""

    name: str
    weights: Expression | None = None
    extra: Expression | None = None
    embedding: Expression | None = None

    def matrices(self, C: Expression) -> dict[str, Expression]:
        return {} if self.weights is None else {self.name: self.weights}

    def added(self, C: Expression) -> dict[str, Expression]:
        found = [each for each in (self.extra, self.embedding) if each is not None]
        return {self.name: found[0] if len(found) == 1 else found[0] + found[1]} if found else {}

    def looked_up(self) -> Expression | None:
        return self.embedding

    def share(self, n: int) -> Other:
        """Whole on each, but for an embedding, whose rows are divided."""
        if self.embedding is None or n == 1:
            return self
        return replace(self, embedding=function("ceil", self.embedding / letter("Nₐ", n)))


@dataclass(frozen=True)
class Again(Mechanism):
    """A part that runs with the weights of an earlier one, and caches for itself if it mixes tokens."""

    part: Mechanism

    def matrices(self, C: Expression) -> dict[str, Expression]:
        return {}

    def multiplied(self, C: Expression) -> dict[str, Expression]:
        return self.part.multiplied(C)

    def share(self, n: int) -> Again:
        return Again(self.part.share(n))


def per_layer_embeddings(n_layers: int, rows: int, width: int, C: Expression) -> Other:
    """Return Gemma 3n's per-layer embeddings: a table of `width` numbers per layer and token, and its projection."""
    L, P = letter("L", n_layers), letter("N", width, "width of a per-layer embedding")
    U = letter("U", rows, "rows of the per-layer embeddings")
    return Other("per-layer embeddings", C * L * P, P, U * L * P)
