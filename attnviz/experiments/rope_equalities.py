"""Numerical checks of RoPE's properties, run by the real functions on the user's own queries and keys.

T query tokens, S key tokens, D head_dim. numpy in, numpy out, so that figures can draw the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnviz.experiments.fused import fused_attend
from attnviz.mechanisms import Mixer
from attnviz.modules import Transformer, attend
from attnviz.modules.rope import apply_rope, half_from_interleaved, rotate
from attnviz.modules.rope_scaling import RopeScaling, scaled_rope_frequencies
from attnviz.modules.shallow import changed, with_own_parts

SHIFTS = (0, 1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
OTHER_LAYOUT = {"half": "interleaved", "interleaved": "half"}


@dataclass(frozen=True)
class ShiftedScores:
    """One score, with query and key shifted together by each of `shifts` positions, in three kinds of arithmetic."""

    shifts: tuple[int, ...]
    float64: np.ndarray  # (n_shifts,)
    float32: np.ndarray  # q, k, cos and sin in float32, the angles in float64: as AttnViz runs
    float32_angles: np.ndarray  # float32 throughout, as in many implementations

    def largest_difference(self, arithmetic: str) -> float:
        """Return the largest change of the score from the unshifted one."""
        scores = getattr(self, arithmetic)
        return float(np.abs(scores - scores[0]).max())


@torch.inference_mode()
def shifted_scores(
    q: np.ndarray,
    k: np.ndarray,
    m: int,
    n: int,
    frequencies: np.ndarray,
    layout: str = "half",
) -> ShiftedScores:
    """Compute q·k / sqrt(D) with q (D,) at position m + shift and k (D,) at n + shift; q and k before RoPE."""
    at, freqs = torch.tensor(SHIFTS), torch.as_tensor(frequencies)

    def score(dtype: torch.dtype, rotation: Callable[[Tensor, Tensor], Tensor]) -> np.ndarray:
        query, key = (torch.tensor(x, dtype=dtype).expand(len(at), -1) for x in (q, k))  # (n_shifts, D)
        scores = (rotation(query, at + m) * rotation(key, at + n)).sum(-1) * query.shape[-1] ** -0.5
        return scores.double().numpy()

    def rotate_exactly(x: Tensor, positions: Tensor) -> Tensor:
        return apply_rope(x, positions, freqs, layout)

    def rotate_in_float32(x: Tensor, positions: Tensor) -> Tensor:
        return rotate(x, positions.float()[:, None] * freqs.float(), layout)

    return ShiftedScores(
        SHIFTS,
        score(torch.float64, rotate_exactly),
        score(torch.float32, rotate_exactly),
        score(torch.float32, rotate_in_float32),
    )


@dataclass(frozen=True)
class ShiftedOutputs:
    """Changes of one query's output when the whole text is shifted to later positions."""

    shifts: tuple[int, ...]
    q_and_k: np.ndarray  # (n_shifts,), largest change of an output number, with q and k rotated, as in RoPE
    values_too: np.ndarray  # (n_shifts,), the same with v rotated as well
    largest: float  # largest number of the unshifted output


@torch.inference_mode()
def shifted_outputs(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray, frequencies: np.ndarray, m: int,
    layout: str = "half",
) -> ShiftedOutputs:  # fmt: skip
    """Compare the head's output for query m at each shift; q and k (T, D) before RoPE, v (T, Dv), allowed (T, T)."""
    query, key, value = (torch.tensor(x)[None, None] for x in (q[m : m + 1], k, v))  # (1, 1, 1 or T, D)
    mask, freqs = torch.tensor(allowed[m : m + 1]), torch.as_tensor(frequencies)

    def output(shift: int, rotate_values: bool) -> Tensor:
        at = torch.arange(len(k)) + shift
        rotated_q = apply_rope(query, at[m : m + 1], freqs, layout)
        rotated_k = apply_rope(key, at, freqs, layout)
        values = apply_rope(value, at, freqs, layout) if rotate_values else value
        return attend(rotated_q, rotated_k, values, mask=mask).output  # (1, 1, 1, Dv)

    def changes(rotate_values: bool) -> np.ndarray:
        first = output(0, rotate_values)
        return np.array([float((output(shift, rotate_values) - first).abs().max()) for shift in SHIFTS])

    return ShiftedOutputs(SHIFTS, changes(False), changes(True), float(output(0, False).abs().max()))


@dataclass(frozen=True)
class LayoutsCompared:
    """The scores (T, S) of the same q and k in both layouts, and with their dimensions reordered for the other one."""

    half: np.ndarray
    interleaved: np.ndarray
    interleaved_reordered: np.ndarray  # should equal `half`
    order: np.ndarray  # (D,), the dimension at each place after reordering

    @property
    def difference(self) -> float:
        """Largest change of a score when one layout's q and k are rotated in the other."""
        return float(np.abs(self.half - self.interleaved).max())

    @property
    def difference_reordered(self) -> float:
        """The same after reordering the dimensions."""
        return float(np.abs(self.half - self.interleaved_reordered).max())


@torch.inference_mode()
def compare_layouts(q: np.ndarray, k: np.ndarray, frequencies: np.ndarray) -> LayoutsCompared:
    """Compare the layouts for q (T, D) and k (S, D) before RoPE at positions 0, 1, …; scores are divided by sqrt(D)."""
    query, key, freqs = torch.tensor(q), torch.tensor(k), torch.as_tensor(frequencies)
    D = query.shape[-1]
    order = half_from_interleaved(D, 2 * len(freqs)).argsort()  # from half to interleaved

    def scores(query: Tensor, key: Tensor, layout: str) -> np.ndarray:
        rotated = (apply_rope(x, torch.arange(len(x)), freqs, layout) for x in (query, key))
        return (next(rotated) @ next(rotated).mT * D**-0.5).numpy()

    return LayoutsCompared(
        scores(query, key, "half"),
        scores(query, key, "interleaved"),
        scores(query[:, order], key[:, order], "interleaved"),
        order.numpy(),
    )


def in_other_layout(model: Transformer) -> Transformer:
    """Return the same weights run with the pairs of the other layout: the classic mistake."""
    return model.with_config(replace(model.config, rope_layout=OTHER_LAYOUT[model.config.rope_layout]))


def moved_to_other_layout(model: Transformer) -> Transformer:
    """Convert a model to the other layout, with reordered rows of the query and key projections: same function."""
    attentions = {}
    for i, (layer, block) in enumerate(zip(model.config.layers, model.blocks, strict=True)):
        order = half_from_interleaved(layer.rotary_dim)
        attentions[i] = _reordered(
            block.attn, layer.mixer, order.argsort() if model.config.rope_layout == "half" else order
        )
    return in_other_layout(model.with_attentions(attentions))


def _reordered(attn: nn.Module, mixer: Mixer, order: Tensor) -> nn.Module:
    """Return the layer with the rotated rows of each head of its query and key projections in this order."""
    other = with_own_parts(attn)
    for name, (heads, start) in mixer.rotated_projections().items():
        if hasattr(attn, name):
            setattr(other, name, changed(getattr(attn, name), partial(_reorder_rows, heads, start, order)))
    for name in ("q_norm", "k_norm"):
        if hasattr(getattr(attn, name, None), "weight"):  # one per dimension
            setattr(other, name, changed(getattr(attn, name), partial(_reorder_rows, 1, 0, order)))
    return other


def _reorder_rows(heads: int, start: int, order: Tensor, p: Tensor) -> Tensor:
    """Return a weight or bias with rows start, start + 1, … of each of its heads in this order."""
    rows = p.unflatten(0, (heads, -1)).clone()  # (heads, D, ...)
    rows[:, start : start + len(order)] = rows[:, start + order]
    return rows.flatten(0, 1)


def standard_scalings(factor: float, trained: int) -> dict[str, RopeScaling | None]:
    """Return each method with its published defaults, for texts `factor` times as long as the `trained` tokens.

    LongRoPE is not included: its factors are searched per model, so they have to be given.
    """
    numbers: dict[str, Any] = {"factor": factor, "original_max_position_embeddings": trained}
    return {
        "none": None,
        "linear": RopeScaling("linear", factor=factor),
        "NTK-aware": RopeScaling("ntk", factor=factor),
        "dynamic NTK": RopeScaling("dynamic", **numbers),
        "YaRN": RopeScaling("yarn", **numbers),
        "Llama 3": RopeScaling("llama3", **numbers, low_freq_factor=1.0, high_freq_factor=4.0),
    }


def scaled_frequencies(
    head_dim: int, theta: float, scalings: dict[str, RopeScaling | None], length: int
) -> dict[str, np.ndarray]:
    """Return float64 (head_dim // 2,) frequencies by name of the method, for a text of this many tokens."""
    return {name: scaled_rope_frequencies(head_dim, theta, s, length).numpy() for name, s in scalings.items()}


def with_scaling(model: Transformer, scaling: RopeScaling | None) -> Transformer:
    """Return the same weights, run with the scaled frequencies."""
    return model.with_config(replace(model.config, rope_scaling=scaling))


@torch.inference_mode()
def loss_by_position(model: Transformer, ids: np.ndarray) -> np.ndarray:
    """Return float32 (T - 1,): the loss in nats of each token after the first, for ids (T,) of one text.

    By a fused kernel, in half the time on 512 tokens.
    """
    tokens = torch.as_tensor(ids)
    logits = model(tokens[None, :-1], kernel=fused_attend)[0]  # (T - 1, vocab_size)
    return F.cross_entropy(logits, tokens[1:], reduction="none").numpy()
