"""What the state of a linear layer holds: how it is written, and what its earlier keys read from it.

T tokens, D width of a key, V width of a value. All arrays are one head's; states are float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

ABOUT = 0.05  # difference of cosines that counts as about equal


@dataclass(frozen=True, eq=False)
class Written:
    """How one head of the gated delta rule writes its state (arXiv 2412.06464), from an empty one."""

    k: np.ndarray  # (T, D), normalised
    v: np.ndarray  # (T, V)
    decay: np.ndarray  # (T,), or per channel (T, D)
    beta: np.ndarray  # (T,)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.k, self.v, self.decay, self.beta))

    @cached_property
    def writes(self) -> np.ndarray:
        """What each token writes under its key, β (v − Sᵀ k) with S already decayed: (T, V) float64."""
        return np.stack([write for write, _ in self._steps()])

    @cached_property
    def largest(self) -> float:
        """The largest size of a number in the states after each token."""
        return max(float(np.abs(S).max()) for _, S in self._steps())

    def norms(self) -> np.ndarray:
        """Return the norms of what each token added, of what decay removed at it, and of the state after it: (T, 3)."""
        before, found = np.zeros((self.k.shape[1], self.v.shape[1])), []
        for t, (write, S) in enumerate(self._steps()):
            added = np.outer(self.k[t], write)
            found.append([float(np.linalg.norm(part)) for part in (added, before - (S - added), S)])
            before = S
        return np.array(found)

    def state(self, t: int) -> np.ndarray:
        """Return the state after token t, (D, V)."""
        return next(islice(self._steps(), t, None))[1]

    def plain_state(self, t: int) -> np.ndarray:
        """Return what plain linear attention holds after token t, the sum of k ⊗ v without decay or correction."""
        return self.k[: t + 1].T.astype(float) @ self.v[: t + 1]

    def _steps(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield what each token writes, (V,), and the state after it, (D, V)."""
        k, v = self.k.astype(float), self.v.astype(float)
        kept = self.decay.reshape(len(k), -1, 1).astype(float)  # (T, 1 or D, 1)
        S = np.zeros((k.shape[1], v.shape[1]))
        for t in range(len(k)):
            S = kept[t] * S
            write = self.beta[t] * (v[t] - k[t] @ S)
            S = S + np.outer(k[t], write)
            yield write, S


def recall_errors(state: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return ‖Sᵀk − v‖ / ‖v‖ for each key of k (n, D) and its value of v (n, V): (n,).

    0: the value is read exactly; 1: as wrong as reading nothing.
    """
    wrong = np.linalg.norm(k @ state - v, axis=1)
    return wrong / np.maximum(np.linalg.norm(v, axis=1), np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Repeated:
    """Two positions of a text with similar keys and other values, and the cosines of both."""

    earlier: int
    later: int
    of_keys: float
    of_values: float


def most_repeated(k: np.ndarray, v: np.ndarray) -> Repeated | None:
    """Return the pair whose values (T, V) differ most, of those whose keys (T, D) are about as similar as any two are.

    None for a single token.
    """
    if len(k) < 2:
        return None
    pairs, keys, values = np.tri(len(k), k=-1, dtype=bool), _cosines(k), _cosines(v)  # (T, T)
    similar = pairs & (keys >= keys[pairs].max() - ABOUT)
    later, earlier = map(int, np.unravel_index(int(np.where(similar, values, np.inf).argmin()), keys.shape))
    return Repeated(earlier, later, float(keys[later, earlier]), float(values[later, earlier]))


def _cosines(x: np.ndarray) -> np.ndarray:
    directions = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return directions @ directions.T


def implied_difference(weights: np.ndarray, v: np.ndarray, output: np.ndarray) -> float:
    """Return the largest difference of W v, with effective weights W (T, T), from the rule's output (T, V)."""
    return float(np.abs(weights.astype(float) @ v - output).max())


def reach(weights: np.ndarray, near: int) -> np.ndarray:
    """Return each head's share of the sizes of its effective weights (H, T, T) on keys more than `near` tokens back."""
    sizes, far = np.abs(weights), np.tri(weights.shape[-1], k=-near - 1, dtype=bool)
    return (sizes * far).sum((-2, -1)) / np.maximum(sizes.sum((-2, -1)), np.finfo(np.float32).tiny)
