"""Rotary position embeddings (Su et al., arXiv 2104.09864): pairs of dimensions turned by position × frequency.

Applied to q and k, never to v: a score q·k then depends on positions only through their distance.
Angles are taken in float64, since in float32 an angle of 10^6 radians is off by up to 0.03.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnviz.config import ROPE_LAYOUTS, ConfigError
from attnviz.modules.rope_scaling import RopeScaling, scale_frequencies


def rope_frequencies(
    head_dim: int,
    theta: float = 10000.0,
    scaling: RopeScaling | Mapping | Iterable[tuple[str, object]] | None = None,
    length: int | None = None,
) -> Tensor:
    """float64 (head_dim // 2,), radians a position: pair i turns by theta^(-2i / head_dim), then scaled.

    head_dim counts the dimensions that turn. scaling is a `RopeScaling`, or the dictionary of a published
    configuration, or its pairs; length, in tokens, matters to dynamic NTK and LongRoPE only. What YaRN and LongRoPE
    put on cos and sin is not in the frequencies: it is `RopeScaling.attention_factor`.
    """
    if isinstance(head_dim, bool) or not isinstance(head_dim, int) or head_dim < 2 or head_dim % 2:
        raise ConfigError(f"head_dim must be an even number of at least 2 to be split into pairs, not {head_dim!r}")
    if not (theta > 1 and math.isfinite(theta)):
        raise ConfigError(f"theta must be a finite number above 1, not {theta!r}")
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim  # (n_pairs,)
    frequencies = theta**-exponents
    scaling = RopeScaling.of(scaling)
    return frequencies if scaling is None else scale_frequencies(frequencies, theta, scaling, length)


def rope_angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """float64 (T, head_dim // 2): the angle of every pair at every position, in radians."""
    return positions.double()[..., None] * frequencies.double()


def apply_rope(x: Tensor, positions: Tensor, frequencies: Tensor, layout: str = "half") -> Tensor:
    """x (..., T, D) with its pairs turned; positions (T,), frequencies (n_pairs,), 2 · n_pairs <= D.

    layout "half" pairs dimension i with i + n_pairs (Llama, NeoX), "interleaved" 2i with 2i + 1 (GPT-J, RoFormer).
    Where 2 · n_pairs < D, only the first 2 · n_pairs dimensions turn (partial RoPE).
    """
    return rotate(x, rope_angles(positions, frequencies.to(x.device)), layout)


def rotate(x: Tensor, angles: Tensor, layout: str = "half") -> Tensor:
    """x (..., T, D) with pair i of token t turned by angles[t, i] radians; angles (T, n_pairs), layout as above."""
    if layout not in ROPE_LAYOUTS:
        raise ConfigError(f"layout must be one of {', '.join(ROPE_LAYOUTS)}, not {layout!r}")
    rotary_dim = 2 * angles.shape[-1]
    if rotary_dim > x.shape[-1]:
        raise ConfigError(f"{angles.shape[-1]} frequencies turn {rotary_dim} dimensions, x has {x.shape[-1]}")
    return turn(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype), layout)


def turn(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """x (..., T, D) with its first 2 · n_pairs dimensions turned; cos and sin (T, n_pairs)."""
    rotary_dim = 2 * cos.shape[-1]
    turned, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    if layout == "half":
        a, b = turned.chunk(2, dim=-1)  # (..., T, n_pairs) each
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    else:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    return torch.cat((turned, rest), dim=-1) if rest.shape[-1] else turned


def half_from_interleaved(head_dim: int, rotary_dim: int | None = None) -> Tensor:
    """int64 (head_dim,), the order that makes one layout the other: apply_rope(x, ..., "interleaved")[..., order]
    equals apply_rope(x[..., order], ..., "half"). Dimensions beyond rotary_dim stay where they are."""
    order = torch.arange(head_dim)
    turned = order[: head_dim if rotary_dim is None else rotary_dim]
    return torch.cat((turned[0::2], turned[1::2], order[len(turned) :]))


@dataclass(frozen=True, eq=False)
class Rope:
    """How q and k are rotated: frequencies (n_pairs,), the layout of the pairs, the factor that YaRN and LongRoPE
    put on cos and sin (arXiv 2309.00071), and the one that DeepSeek puts on the softmax scale of latent attention."""

    frequencies: Tensor
    layout: str = "half"
    attention_factor: float = 1.0
    latent_softmax_factor: float = 1.0  # read by latent attention alone
    _tables: dict = field(default_factory=dict, repr=False)  # cos and sin, which every layer asks for again

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        """x (..., T, D) with its pairs turned as at the positions start, start + 1, …"""
        asked = start, x.shape[-2], x.dtype, x.device
        if asked not in self._tables:
            self._tables[asked] = self._table(*asked)
        return turn(x, *self._tables[asked], self.layout)

    def _table(self, start: int, n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        """cos and sin (n, n_pairs), the attention factor in them: what does not turn is not scaled either."""
        positions = torch.arange(start, start + n, device=device)
        angles = rope_angles(positions, self.frequencies.to(device))
        return tuple((self.attention_factor * part).to(dtype) for part in (angles.cos(), angles.sin()))


def as_rope(rope: Rope | Tensor | None) -> Rope | None:
    """A bare tensor of frequencies stands for the half-split layout."""
    return Rope(rope) if isinstance(rope, Tensor) else rope
