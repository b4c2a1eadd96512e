"""Attention maps with one row and one column per character, where a character is several tokens.

The convention for split words (Clark et al., arXiv 1906.04341, section 4.1): the weight on a character is the sum over
its keys, the weights from it are the mean over its queries. A row then still sums to 1.

H query heads, T tokens, N characters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnviz.characters import Span, readable

if TYPE_CHECKING:
    from attnviz.trace import LayerTrace, Trace


def merged_weights(weights: np.ndarray, starts: Sequence[int]) -> np.ndarray:
    """Sum the keys and average the queries of each character: (..., T, T) -> (..., N, N).

    starts: (N,) the first token of each. A query whose keys are all masked has no weights and is left out of the mean.
    """
    summed = np.add.reduceat(weights, starts, axis=-1)  # (..., T, T) -> (..., T, N)
    some = (summed != 0).any(-1, keepdims=True).astype(summed.dtype)  # (..., T, 1)
    counts = np.add.reduceat(some, starts, axis=-2).clip(1)  # (..., T, 1) -> (..., N, 1)
    return np.add.reduceat(summed, starts, axis=-2) / counts  # (..., T, N) -> (..., N, N)


def merged_allowed(allowed: np.ndarray, starts: Sequence[int]) -> np.ndarray:
    """Return whether any query of a character may attend to any key of another: (..., T, T) -> (..., N, N)."""
    return np.logical_or.reduceat(np.logical_or.reduceat(allowed, starts, axis=-1), starts, axis=-2)


@dataclass(frozen=True, eq=False)
class MergedLayer:
    """A layer's maps, merged by character when they are accessed."""

    layer: LayerTrace
    starts: Sequence[int]

    @property
    def weights(self) -> np.ndarray:  # (H, N, N)
        return merged_weights(self.layer.weights, self.starts)

    def weights_of(self, head: int) -> np.ndarray:  # (N, N)
        return merged_weights(self.layer.weights[head], self.starts)

    @property
    def allowed(self) -> np.ndarray:  # (N, N)
        return merged_allowed(self.layer.allowed, self.starts)


class MergedLayers(Sequence[MergedLayer]):
    """The merged layers of a trace."""

    def __init__(self, layers: Sequence[LayerTrace], starts: Sequence[int]) -> None:
        self.layers, self.starts = layers, starts

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: Any) -> Any:
        return MergedLayer(self.layers[index], self.starts)


@dataclass(frozen=True, eq=False)
class Merged:
    """The maps of a trace, merged by character."""

    layers: MergedLayers
    labels: list[str]
    spans: list[Span]

    @classmethod
    def of(cls, trace: Trace, labels: Sequence[str], spans: Sequence[Span]) -> Merged:
        """Merge the tokens of each span; one of a single token keeps its label."""
        return cls(
            MergedLayers(trace.layers, [span.start for span in spans]),
            [labels[s.start] if s.stop - s.start == 1 else _label(s.text) for s in spans],
            list(spans),
        )

    @property
    def positions(self) -> list[str]:
        """The tokens of each character: "3", "4–6"."""
        return [f"{s.start}" if s.stop - s.start == 1 else f"{s.start}–{s.stop - 1}" for s in self.spans]

    @property
    def last(self) -> list[int]:
        """The last token of each character, after which the model predicts the next one."""
        return [span.stop - 1 for span in self.spans]

    def at(self, token: int) -> int:
        """Return the character that a token belongs to; -1 for -1."""
        return bisect_right([span.start for span in self.spans], token) - 1 if token >= 0 else -1


def _label(text: str) -> str:
    return readable(text).replace(" ", "·").replace("\n", "⏎")
