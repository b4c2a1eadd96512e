"""Rotary position embeddings (Su et al., arXiv 2104.09864): pairs of dimensions turned by position × frequency.

Applied to q and k, never to v: a score q·k then depends on positions only through their distance.
Angles are taken in float64, since in float32 an angle of 10^6 radians is off by up to 0.03.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.config import ROPE_LAYOUTS


def rope_frequencies(head_dim: int, theta: float = 10000.0, scaling: object = None) -> Tensor:
    """float64 (head_dim // 2,), radians a position: pair i turns by theta^(-2i / head_dim)."""
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim must be an even number of at least 2 to be split into pairs, not {head_dim}")
    if scaling is not None:
        raise NotImplementedError("scaling")
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    return theta**-exponents


def rope_angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """float64 (T, head_dim // 2): the angle of every pair at every position, in radians."""
    return positions.double()[..., None] * frequencies.double()


def apply_rope(x: Tensor, positions: Tensor, frequencies: Tensor, layout: str = "half") -> Tensor:
    """x (..., T, D) with its pairs turned; positions (T,), frequencies (n_pairs,), 2 · n_pairs <= D.

    layout "half" pairs dimension i with i + n_pairs (Llama, NeoX), "interleaved" 2i with 2i + 1 (GPT-J, RoFormer).
    Where 2 · n_pairs < D, only the first 2 · n_pairs dimensions turn (partial RoPE).
    """
    if layout not in ROPE_LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(ROPE_LAYOUTS)}, not {layout!r}")
    rotary_dim = 2 * frequencies.shape[-1]
    if rotary_dim > x.shape[-1]:
        raise ValueError(f"{frequencies.shape[-1]} frequencies turn {rotary_dim} dimensions, x has {x.shape[-1]}")
    angles = rope_angles(positions, frequencies.to(x.device))  # (T, n_pairs)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    turned, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    if layout == "half":
        a, b = turned.chunk(2, dim=-1)  # (..., T, n_pairs) each
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    else:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    return torch.cat((turned, rest), dim=-1) if rest.shape[-1] else turned


@dataclass(frozen=True, eq=False)
class Rope:
    """How q and k are turned: frequencies (n_pairs,), the layout of the pairs, and the factor that YaRN and
    LongRoPE put on cos and sin (arXiv 2309.00071)."""

    frequencies: Tensor
    layout: str = "half"
    attention_factor: float = 1.0

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        turned = apply_rope(x, positions, self.frequencies, self.layout)
        if self.attention_factor == 1.0:
            return turned
        rotary_dim = 2 * self.frequencies.shape[-1]  # what did not turn is not scaled either
        return torch.cat((turned[..., :rotary_dim] * self.attention_factor, turned[..., rotary_dim:]), dim=-1)


def as_rope(rope: Rope | Tensor | None) -> Rope | None:
    """A bare tensor of frequencies stands for the half-split layout."""
    return Rope(rope) if isinstance(rope, Tensor) else rope
