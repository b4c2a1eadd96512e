"""Grouped-query attention with linear biases (ALiBi), arXiv 2108.12409. B batch, T query tokens, S key tokens, H heads.

The bias -m · (i - j) of query i and key j differs by a constant of the row from m · j, which a softmax does not see. So
each query gets a dimension with its head's slope m, and each key one with its position j, and any kernel for q·k runs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnviz.modules.attention import Attended, GroupedQueryAttention, attend


class AlibiAttention(GroupedQueryAttention):
    """Grouped-query attention whose scores fall linearly with the distance of query and key."""

    def __init__(self, *args: Any, slopes: Tensor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.slopes = slopes  # (H,)
        self.scoring.setdefault("scale", self.head_dim**-0.5)  # of D, without the dimension that is added

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        """Map x (B, T, C) to (B, T, C); options as for `GroupedQueryAttention`."""
        options["kernel"] = partial(self.biased, kernel=options.get("kernel") or attend)
        if record := options.get("record"):
            distance = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])  # (T, T)
            options["record"] = partial(record, bias=-self.slopes[None, :, None, None] * distance)  # (1, H, T, T)
        return super().forward(x, **options)

    def biased(self, q: Tensor, k: Tensor, *rest: Any, kernel: Any, scale: float, **options: Any) -> Attended:
        """Call the kernel with slopes and positions as another dimension of q (B, H, T, D) and k (B, K, S, D)."""
        slopes = self.slopes.to(q)[:, None, None].expand(*q.shape[:-1], 1) / scale  # (B, H, T, 1)
        places = torch.arange(k.shape[-2]).to(k)[:, None].expand(*k.shape[:-1], 1)  # (B, K, S, 1)
        return kernel(torch.cat((q, slopes), -1), torch.cat((k, places), -1), *rest, scale=scale, **options)
