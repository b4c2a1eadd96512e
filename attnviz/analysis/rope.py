"""What RoPE does to a score, in closed form: pairs as complex numbers, distances, and the decay bound of the paper.

A pair (a, b) of a head's dimensions is the complex number a + ib, and turning it by an angle is a multiplication by
e^(i·angle). A query at m and a key at n then score Re Σ h_j · e^(i·d·θ_j), where d = m - n and h_j = q_j · conj(k_j)
(Su et al., arXiv 2104.09864, section 3.4.3).
"""

from __future__ import annotations

import numpy as np


def wavelengths(frequencies: np.ndarray) -> np.ndarray:
    """(n_pairs,): tokens in which each pair turns once."""
    return 2 * np.pi / frequencies


def full_turns(frequencies: np.ndarray, length: int) -> int:
    """How many pairs turn at least once inside a text of this many tokens."""
    return int((wavelengths(frequencies) <= length).sum())


def as_pairs(x: np.ndarray, n_pairs: int, layout: str = "half") -> np.ndarray:
    """x (..., D) -> complex (..., n_pairs): the dimensions that turn, paired as the layout pairs them."""
    if layout == "half":
        return x[..., :n_pairs] + 1j * x[..., n_pairs : 2 * n_pairs]
    return x[..., 0 : 2 * n_pairs : 2] + 1j * x[..., 1 : 2 * n_pairs : 2]


def score_parts(
    q: np.ndarray, k: np.ndarray, frequencies: np.ndarray, distances: np.ndarray, layout: str = "half"
) -> np.ndarray:
    """float64 (n_pairs + 1, n_distances): what each pair adds to q·k at each distance, and last what never turned.

    q, k (D,) as they are before RoPE; their sum over the first axis is the score, not yet divided by sqrt(D).
    """
    n_pairs = len(frequencies)
    h = _products(q, k, n_pairs, layout)  # (n_pairs,)
    turning = (h[:, None] * np.exp(1j * np.outer(frequencies, distances))).real
    still = np.full((1, len(distances)), _unturned_part(q, k, n_pairs))
    return np.concatenate((turning, still))


def decay_bound(
    q: np.ndarray, k: np.ndarray, frequencies: np.ndarray, distances: np.ndarray, layout: str = "half"
) -> np.ndarray:
    """float64 (n_distances,): |q·k| can be no larger at this distance; not yet divided by sqrt(D).

    Summation by parts (section 3.4.3 of the paper): |Σ h_j e^(idθ_j)| <= max |h_(j+1) - h_j| · Σ |S_j|, where S_j is
    the sum of the first j rotations and h behind the last pair is 0.
    """
    n_pairs = len(frequencies)
    h = _products(q, k, n_pairs, layout)
    steepest = np.abs(np.diff(h, append=0)).max()
    return steepest * n_pairs * mean_partial_sum(frequencies, distances) + abs(_unturned_part(q, k, n_pairs))


def mean_partial_sum(frequencies: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """float64 (n_distances,): the mean of |S_1| … |S_n|, the part of the bound that every q and k share."""
    rotations = np.exp(1j * np.outer(frequencies, distances))  # (n_pairs, n_distances)
    return np.abs(rotations.cumsum(axis=0)).mean(axis=0)


def by_distance(scores: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """scores (T, T) -> mean, lowest and highest (T,) of the allowed pairs 0, 1, … T - 1 tokens apart, else NaN."""
    result = np.full((3, len(scores)), np.nan)
    for distance in range(len(scores)):
        found = np.diagonal(scores, -distance)[np.diagonal(allowed, -distance)]
        if len(found):
            result[:, distance] = found.mean(), found.min(), found.max()
    return tuple(result)


def split_scores(q: np.ndarray, k: np.ndarray, rotary_dim: int) -> tuple[np.ndarray, np.ndarray]:
    """q (T, D), k (S, D) of an MLA head -> scores (T, S) from its content and from its decoupled key, whose last
    rotary_dim dimensions carry the position; both divided by sqrt(D), so that they add up to the head's score."""
    scale = q.shape[-1] ** -0.5
    content, position = slice(None, -rotary_dim), slice(-rotary_dim, None)
    return q[:, content] @ k[:, content].T * scale, q[:, position] @ k[:, position].T * scale


def binned(values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) -> the middle position and the mean of each `size` values in a row; the last bin may be shorter."""
    starts = np.arange(0, len(values), size)
    counts = np.minimum(size, len(values) - starts)
    return starts + (counts - 1) / 2, np.add.reduceat(values.astype(np.float64), starts) / counts


def _products(q: np.ndarray, k: np.ndarray, n_pairs: int, layout: str) -> np.ndarray:
    """h (n_pairs,), complex."""
    q, k = q.astype(np.float64), k.astype(np.float64)
    return as_pairs(q, n_pairs, layout) * as_pairs(k, n_pairs, layout).conj()


def _unturned_part(q: np.ndarray, k: np.ndarray, n_pairs: int) -> float:
    """What the dimensions beyond the pairs add, at every distance alike."""
    return float(q[2 * n_pairs :].astype(np.float64) @ k[2 * n_pairs :].astype(np.float64))
