"""RMSNorm (Zhang & Sennrich, arXiv 1910.07467)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) · weight over the last dimension; no mean is subtracted and nothing is added."""

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x  # squares overflow in half precision
        scale = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide * scale).to(x.dtype)
