"""Feed-forwards: SwiGLU and GeGLU (Shazeer, arXiv 2002.05202), GELU (Hendrycks & Gimpel, arXiv 1606.08415).

B batch, T tokens, C d_model, F d_ff.

This file needs only torch.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


def _check_sizes(**sizes: int) -> None:
    """Raise ValueError for a size that is not a whole number of at least 1."""
    for name, n in sizes.items():
        if type(n) is not int or n < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {n!r}")


class SwiGLU(nn.Module):
    """SwiGLU feed-forward, down(silu(gate(x)) · up(x)). With a sigmoid in place of SiLU it would be GLU."""

    def __init__(self, d_model: int, d_ff: int, bias: bool = False) -> None:
        super().__init__()
        _check_sizes(d_model=d_model, d_ff=d_ff)
        self.gate_proj = nn.Linear(d_model, d_ff, bias=bias)
        self.up_proj = nn.Linear(d_model, d_ff, bias=bias)
        self.down_proj = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, C) to (B, T, C)."""
        hidden = F.silu(self.gate_proj(x)) * self.up_proj(x)  # (B, T, C) -> (B, T, F)
        return self.down_proj(hidden)  # (B, T, F) -> (B, T, C)


class GeGLU(SwiGLU):
    """GeGLU feed-forward, down(gelu(gate(x)) · up(x)), with the tanh form of GELU as in Gemma."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, C) to (B, T, C)."""
        hidden = F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x)  # (B, T, C) -> (B, T, F)
        return self.down_proj(hidden)  # (B, T, F) -> (B, T, C)


class GELUFeedForward(nn.Module):
    """GELU feed-forward without a gate, down(gelu(up(x))), with the tanh form of GELU as in GPT-2."""

    def __init__(self, d_model: int, d_ff: int, bias: bool = True) -> None:
        super().__init__()
        _check_sizes(d_model=d_model, d_ff=d_ff)
        self.up_proj = nn.Linear(d_model, d_ff, bias=bias)
        self.down_proj = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, C) to (B, T, C)."""
        hidden = F.gelu(self.up_proj(x), approximate="tanh")  # (B, T, C) -> (B, T, F)
        return self.down_proj(hidden)  # (B, T, F) -> (B, T, C)
