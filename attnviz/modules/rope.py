"""Rotary position embeddings (RoPE; Su et al., arXiv 2104.09864): pairs of dimensions rotated by position × frequency.

RoPE is applied to q and k, not to v: a score q·k then depends on the two positions only through their distance.
Angles are taken in float64, since in float32 an angle of 10^6 radians is off by up to 0.03.

T tokens, D head_dim, n_pairs = number of rotated pairs, at most D / 2. This file needs only torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

LAYOUTS = ("half", "interleaved")


def rope_frequencies(head_dim: int, theta: float = 10000.0) -> Tensor:
    """Compute theta^(-2i / head_dim), radians per position, for each pair i: float64 (head_dim // 2,).

    head_dim: number of rotated dimensions. ValueError for an odd head_dim or a theta of 1 or less.
    """
    if isinstance(head_dim, bool) or not isinstance(head_dim, int) or head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim must be an even number of at least 2 to be split into pairs, not {head_dim!r}")
    if not (theta > 1 and math.isfinite(theta)):
        raise ValueError(f"theta must be a finite number above 1, not {theta!r}")
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim  # (n_pairs,)
    return theta**-exponents


def rope_angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """Compute the angle of every pair at every position, in radians: float64 (T, n_pairs)."""
    return positions.double()[..., None] * frequencies.double()


def apply_rope(x: Tensor, positions: Tensor, frequencies: Tensor, layout: str = "half") -> Tensor:
    """Rotate the pairs of x (..., T, D) by positions (T,) × frequencies (n_pairs,).

    layout: "half" pairs dimension i with i + n_pairs (Llama, NeoX), "interleaved" 2i with 2i + 1 (GPT-J, RoFormer).
    Where 2 · n_pairs < D, only the first 2 · n_pairs dimensions are rotated (partial RoPE). ValueError where it is > D.
    """
    return rotate(x, rope_angles(positions, frequencies.to(x.device)), layout)


def rotate(x: Tensor, angles: Tensor, layout: str = "half") -> Tensor:
    """Rotate pair i of token t of x (..., T, D) by angles[t, i] radians; angles (T, n_pairs), layout as above."""
    return rotate_pairs(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype), layout)


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Rotate the first 2 · n_pairs dimensions of x (..., T, D) by angles of this cos and sin, (T, n_pairs) each."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    n_pairs = cos.shape[-1]
    if 2 * n_pairs > x.shape[-1]:
        raise ValueError(f"{n_pairs} frequencies rotate {2 * n_pairs} dimensions, x has {x.shape[-1]}")
    if 2 * n_pairs < x.shape[-1]:  # partial RoPE
        rotated = rotate_pairs(x[..., : 2 * n_pairs], cos, sin, layout)
        return torch.cat((rotated, x[..., 2 * n_pairs :]), dim=-1)
    if layout == "half":
        a, b = x.chunk(2, dim=-1)  # (..., T, n_pairs) each
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    a, b = x[..., 0::2], x[..., 1::2]  # (..., T, n_pairs) each
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


def half_from_interleaved(head_dim: int, rotary_dim: int | None = None) -> Tensor:
    """Return the permutation of dimensions that turns one layout into the other: int64 (head_dim,).

    apply_rope(x, ..., "interleaved")[..., order] equals apply_rope(x[..., order], ..., "half"). Dimensions beyond
    rotary_dim stay where they are.
    """
    order = torch.arange(head_dim)
    rotated = order[: head_dim if rotary_dim is None else rotary_dim]
    return torch.cat((rotated[0::2], rotated[1::2], order[len(rotated) :]))


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotation of q and k: frequencies (n_pairs,), layout of the pairs, the factor of YaRN and LongRoPE on cos and sin
    (arXiv 2309.00071), and DeepSeek's factor on the softmax scale of latent attention."""

    frequencies: Tensor
    layout: str = "half"
    attention_factor: float = 1.0
    latent_softmax_factor: float = 1.0  # used only by latent attention
    _tables: dict[tuple, tuple[Tensor, Tensor]] = field(
        default_factory=dict, repr=False
    )  # cache of cos and sin, shared by all layers

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        """Rotate x (..., T, D) to the positions start, start + 1, …"""
        key = start, x.shape[-2], x.dtype, x.device
        if key not in self._tables:
            self._tables[key] = self._table(*key)
        return rotate_pairs(x, *self._tables[key], self.layout)

    def _table(self, start: int, n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        """Compute cos and sin (n, n_pairs), times the attention factor: unrotated dimensions are not scaled either."""
        positions = torch.arange(start, start + n, device=device)
        angles = rope_angles(positions, self.frequencies.to(device))
        cos, sin = self.attention_factor * angles.cos(), self.attention_factor * angles.sin()
        return cos.to(dtype), sin.to(dtype)
