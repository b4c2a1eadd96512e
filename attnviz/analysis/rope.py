"""RoPE's effect on a score in closed form: pairs as complex numbers, distances, and the paper's decay bound.

A pair (a, b) of a head's dimensions is the complex number a + ib, and rotating it by an angle is a multiplication by
e^(i·angle). The rotated dimensions of a query at m and a key at n then add Re Σ h_j · e^(i(m-n)θ_j) to the score, where
h_j = q_j · conj(k_j) (Su et al., arXiv 2104.09864, section 3.4.3); the others add their plain product.
"""

from __future__ import annotations

import cmath
from dataclasses import dataclass

import numpy as np


def wavelengths(frequencies: np.ndarray) -> np.ndarray:
    """Return (n_pairs,): tokens per full turn of each pair."""
    return 2 * np.pi / frequencies


def turns(frequencies: np.ndarray, n_tokens: int) -> np.ndarray:
    """Return (n_pairs,): turns of each pair from the first to the last of n_tokens, n_tokens - 1 steps apart."""
    return (n_tokens - 1) / wavelengths(frequencies)


def beyond_training(frequencies: np.ndarray, plain: np.ndarray, n_tokens: int, trained: int) -> np.ndarray:
    """Return bool (n_pairs,): pairs that n_tokens rotate to angles not seen in training rows of `trained` tokens.

    These pairs did not complete a turn in training, where the positions were 0 … trained - 1 and the frequencies
    `plain`, and reach the angle of position `trained` with `frequencies`.
    """
    return (turns(plain, trained) < 1) & ((n_tokens - 1) * frequencies >= trained * plain)


def as_pairs(x: np.ndarray, n_pairs: int, layout: str = "half") -> np.ndarray:
    """Convert x (..., D) to complex (..., n_pairs): the rotated dimensions, paired by the layout."""
    if layout == "half":
        return x[..., :n_pairs] + 1j * x[..., n_pairs : 2 * n_pairs]
    return x[..., 0 : 2 * n_pairs : 2] + 1j * x[..., 1 : 2 * n_pairs : 2]


def dimensions(pair: int, n_pairs: int, layout: str = "half", first: int = 0) -> tuple[int, int]:
    """Return the two dimensions of a pair in this layout; first: the head's first rotated dimension."""
    if layout == "half":
        return first + pair, first + pair + n_pairs
    return first + 2 * pair, first + 2 * pair + 1


@dataclass(frozen=True)
class RotatedPair:
    """One pair of the query at position m and of the key at position n; q and k are before RoPE."""

    pair: int
    frequency: float  # radians per token
    m: int
    n: int
    q: complex
    k: complex

    @property
    def q_rotated(self) -> complex:
        """Rotated to position m."""
        return self.q * cmath.exp(1j * self.m * self.frequency)

    @property
    def k_rotated(self) -> complex:
        """Rotated to position n."""
        return self.k * cmath.exp(1j * self.n * self.frequency)

    @property
    def product(self) -> float:
        """The pair's part of q·k."""
        return (self.q_rotated * self.k_rotated.conjugate()).real


def score_parts(
    q: np.ndarray, k: np.ndarray, frequencies: np.ndarray, distances: np.ndarray, layout: str = "half"
) -> np.ndarray:
    """Return float64 (n_pairs + 1, n_distances): each pair's part of q·k at each distance, last the unrotated part.

    q, k (D,) before RoPE; the sum over the first axis is the score, not yet divided by sqrt(D).
    """
    n_pairs = len(frequencies)
    h = _products(q, k, n_pairs, layout)  # (n_pairs,)
    rotated = (h[:, None] * np.exp(1j * np.outer(frequencies, distances))).real
    unrotated = np.full((1, len(distances)), unrotated_part(q, k, n_pairs))
    return np.concatenate((rotated, unrotated))


def unrotated_part(q: np.ndarray, k: np.ndarray, n_pairs: int) -> float:
    """Return the part of q·k from the unrotated dimensions, the same at each distance."""
    return float(q[2 * n_pairs :].astype(np.float64) @ k[2 * n_pairs :].astype(np.float64))


@dataclass(frozen=True)
class DecayBound:
    """The parts of an upper bound of |q·k| at each distance, not yet divided by sqrt(D).

    Summation by parts (section 3.4.3 of the paper): |Σ h_j e^(i(m-n)θ_j)| <= max |h_(j+1) - h_j| · Σ |S_j|, where S_j
    is the sum of the first j rotations and h after the last pair is 0. The unrotated part is added to it.
    """

    steepest: float  # max |h_(j+1) - h_j|
    partial_sums: np.ndarray  # float64 (n_distances,), |S_1| + … + |S_n|
    unrotated: float  # part of q·k from the unrotated dimensions

    @property
    def values(self) -> np.ndarray:
        """The bound at each distance, float64 (n_distances,)."""
        return self.steepest * self.partial_sums + abs(self.unrotated)


def decay_bound(
    q: np.ndarray, k: np.ndarray, frequencies: np.ndarray, distances: np.ndarray, layout: str = "half"
) -> DecayBound:
    """Compute the bound for q, k (D,) before RoPE."""
    n_pairs = len(frequencies)
    steepest = np.abs(np.diff(_products(q, k, n_pairs, layout), append=0)).max()
    return DecayBound(float(steepest), partial_sums(frequencies, distances), unrotated_part(q, k, n_pairs))


def partial_sums(frequencies: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Return float64 (n_distances,): |S_1| + … + |S_n|, the part of the bound that does not depend on q and k."""
    rotations = np.exp(1j * np.outer(frequencies, distances))  # (n_pairs, n_distances)
    return np.abs(rotations.cumsum(axis=0)).sum(axis=0)


def by_distance(scores: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the distances m - n of the allowed pairs of query m and key n, and the scores at each.

    scores (T, T) -> distances, mean, lowest and highest score; below 0 the key comes after the query.
    """
    rows = []
    for distance in range(1 - len(scores), len(scores)):
        at_distance = np.diagonal(scores, -distance)[np.diagonal(allowed, -distance)]
        if len(at_distance):
            rows.append((distance, at_distance.mean(), at_distance.min(), at_distance.max()))
    distances, mean, lowest, highest = map(np.array, zip(*rows, strict=True))
    return distances, mean, lowest, highest


def split_scores(q: np.ndarray, k: np.ndarray, rotary_dim: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Split the scores of an MLA head, q (T, D) and k (S, D), into those of its content and of its decoupled RoPE key.

    The last rotary_dim dimensions are the RoPE key. Both results (T, S) include the softmax scale, so that they add up
    to the head's scores.
    """
    content, position = slice(None, -rotary_dim), slice(-rotary_dim, None)
    return q[:, content] @ k[:, content].T * scale, q[:, position] @ k[:, position].T * scale


def binned(values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle position and the mean of each bin of `size` values (n,); the last bin may be shorter."""
    starts = np.arange(0, len(values), size)
    counts = np.minimum(size, len(values) - starts)
    return starts + (counts - 1) / 2, np.add.reduceat(values.astype(np.float64), starts) / counts


def _products(q: np.ndarray, k: np.ndarray, n_pairs: int, layout: str) -> np.ndarray:
    """Return h (n_pairs,), complex."""
    q, k = q.astype(np.float64), k.astype(np.float64)
    return as_pairs(q, n_pairs, layout) * as_pairs(k, n_pairs, layout).conj()
