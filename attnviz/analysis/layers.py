"""Arrays of all layers, which may differ in their number of heads: L layers, H heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Arrays = Sequence[np.ndarray] | np.ndarray  # one for each layer


class Each(Sequence[np.ndarray]):
    """One array of each layer, such as its `weights`; of lazy layers, computed when it is accessed."""

    def __init__(self, layers: Sequence[Any], name: str) -> None:
        self.layers, self.name = layers, name

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: Any) -> Any:
        return getattr(self.layers[index], self.name)


class Rows(Sequence[np.ndarray]):
    """The same arrays (…, T, S) with some of their rows."""

    def __init__(self, layers: Arrays, rows: range) -> None:
        self.layers, self.rows = layers, slice(rows.start, rows.stop)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: Any) -> Any:
        return self.layers[index][..., self.rows, :]


def by_head(layers: Sequence[np.ndarray]) -> np.ndarray:
    """Return (L, H) from each layer's numbers (H,); NaN for the heads that other layers have more of."""
    most = max(map(len, layers))
    return np.array([np.pad(layer, (0, most - len(layer)), constant_values=np.nan) for layer in layers])
