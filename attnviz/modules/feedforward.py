"""SwiGLU (Shazeer, arXiv 2002.05202). B batch, T tokens, C d_model, F d_ff.

This file needs torch and nothing else.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class SwiGLU(nn.Module):
    """Compute down(silu(gate(x)) · up(x)). With a sigmoid in place of SiLU it would be GLU, another layer."""

    def __init__(self, d_model: int, d_ff: int, bias: bool = False) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(d_model, d_ff, bias=bias)
        self.up_proj = nn.Linear(d_model, d_ff, bias=bias)
        self.down_proj = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, C) to (B, T, C)."""
        hidden = F.silu(self.gate_proj(x)) * self.up_proj(x)  # (B, T, C) -> (B, T, F)
        return self.down_proj(hidden)  # (B, T, F) -> (B, T, C)
