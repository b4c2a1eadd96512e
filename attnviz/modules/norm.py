"""RMSNorm (Zhang & Sennrich, arXiv 1910.07467) and LayerNorm (Ba et al., arXiv 1607.06450).

B batch, T tokens, C d_model. This file needs only torch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def check_sizes(**sizes: int | None) -> None:
    """Raise ValueError for a size that is not a whole number of at least 1; None is one that is not given."""
    for name, n in sizes.items():
        if n is not None and (type(n) is not int or n < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, not {n!r}")


class RMSNorm(nn.Module):
    """RMSNorm, x / sqrt(mean(x²) + eps) · weight over the last dimension; unlike LayerNorm it subtracts no mean."""

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, C) to (B, T, C)."""
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x  # squares overflow in half precision
        scale = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.eps)  # (B, T, 1)
        return self.weight * (wide * scale).to(x.dtype)


class LayerNorm(nn.Module):
    """LayerNorm, (x - mean(x)) / sqrt(var(x) + eps) · weight + bias over the last dimension."""

    def __init__(self, d_model: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        check_sizes(d_model=d_model)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, C) to (B, T, C)."""
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        centred = wide - wide.mean(-1, keepdim=True)  # (B, T, C)
        scale = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + self.eps)  # (B, T, 1)
        scaled = self.weight * (centred * scale).to(x.dtype)  # (B, T, C)
        return scaled if self.bias is None else scaled + self.bias
