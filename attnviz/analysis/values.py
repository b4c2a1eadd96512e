"""The output of attention: what a head adds to the residual stream, and its effect on the logits.

T query tokens, S key tokens, D numbers of a value, C d_model, V tokens of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Writes:
    """One head's contributions per key, in float64: its output is the sum of weight · (W_o · value) over the keys."""

    weighted: np.ndarray  # (T, S), ‖weight · value‖
    projected: np.ndarray  # (T, S), ‖weight · (W_o · value)‖ (Kobayashi et al., arXiv 2004.10102)
    outputs: np.ndarray  # (T, C), their sum over the keys, before the norm is taken

    @property
    def norms(self) -> np.ndarray:
        """(T,): ‖output‖ of each token."""
        return np.linalg.norm(self.outputs, axis=-1)

    @property
    def nbytes(self) -> int:
        return self.weighted.nbytes + self.projected.nbytes + self.outputs.nbytes


def writes(weights: np.ndarray, v: np.ndarray, w_o: np.ndarray) -> Writes:
    """Compute them from one head's weights (T, S), its values v (S, D) and its columns w_o (C, D) of o_proj."""
    weights, v = weights.astype(np.float64), v.astype(np.float64)
    projected = v @ w_o.astype(np.float64).T  # (S, C)
    lengths, projected_lengths = np.linalg.norm(v, axis=-1), np.linalg.norm(projected, axis=-1)  # (S,) each
    return Writes(weights * lengths, weights * projected_lengths, weights @ projected)


def logit_effects(
    output: np.ndarray, stream: np.ndarray, gain: np.ndarray, eps: float, unembedding: np.ndarray,
    centred: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return (V,): the direct effect of an output (C,) on each logit, minus the mean over the vocabulary.

    stream (C,): the residual stream of this run before the last RMSNorm, whose weight is `gain` (C,). The norm divides
    by the stream's root mean square, which is held fixed so that the effects of parts of the stream add up. Effects
    through later layers are not included. The mean is subtracted because softmax ignores a constant added to all
    logits. centred: the last norm is a LayerNorm, which subtracts the mean.
    """
    effects = unembedding.astype(np.float64) @ _after_norm(output, stream, gain, eps, centred)  # (V, C) · (C,)
    return effects - effects.mean()


def mean_logit_effects(
    parts: np.ndarray, stream: np.ndarray, gain: np.ndarray, eps: float, unembedding: np.ndarray,
    centred: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return (N,): the mean over the vocabulary of the direct effects of parts (N, C), as `logit_effects` subtracts it.

    Found from the mean row of the unembedding (V, C), since the effects are linear in its rows.
    """
    return _after_norm(parts, stream, gain, eps, centred) @ unembedding.mean(0, dtype=np.float64)


def _after_norm(parts: np.ndarray, stream: np.ndarray, gain: np.ndarray, eps: float, centred: bool) -> np.ndarray:
    """Return parts (…, C) of the stream (C,) as the last norm scales them, in float64; its divisor is the stream's."""
    stream, parts = stream.astype(np.float64), parts.astype(np.float64)
    if centred:
        stream, parts = stream - stream.mean(), parts - parts.mean(-1, keepdims=True)
    return gain * parts / np.sqrt((stream**2).mean() + eps)
