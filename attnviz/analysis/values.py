"""The value side of attention: what a head adds to the residual stream, and what that does to the logits.

T query tokens, S key tokens, D numbers of a value, C d_model, V tokens of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Writes:
    """What one head writes, in float64: its output is the sum of weight · (W_o · value) over the keys."""

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
    """From one head's weights (T, S), the values v (S, D) that it reads, and its columns w_o (C, D) of o_proj."""
    weights, v = weights.astype(np.float64), v.astype(np.float64)
    written = v @ w_o.astype(np.float64).T  # (S, C)
    lengths, lengths_written = np.linalg.norm(v, axis=-1), np.linalg.norm(written, axis=-1)  # (S,) each
    return Writes(weights * lengths, weights * lengths_written, weights @ written)


def logit_effects(
    output: np.ndarray, stream: np.ndarray, gain: np.ndarray, eps: float, unembedding: np.ndarray,
    centred: bool = False,
) -> np.ndarray:  # fmt: skip
    """(V,): what an output (C,) adds to each logit by itself, less the mean over the vocabulary.

    stream (C,): the residual stream before the last RMSNorm, with weight `gain` (C,), of this run. The norm divides by
    the stream's root mean square; that is held fixed, so that the effects of parts of the stream add up. What later
    layers make of the output is not in it. Softmax sees no constant added to all logits: the mean is taken away.
    """
    stream, output = stream.astype(np.float64), output.astype(np.float64)
    if centred:
        stream, output = stream - stream.mean(), output - output.mean()
    scale = 1 / np.sqrt((stream**2).mean() + eps)
    effects = unembedding.astype(np.float64) @ (gain * output * scale)  # (V, C) · (C,)
    return effects - effects.mean()
