"""The KV cache of one attention layer: what a decoder must remember of every token it has read."""

from __future__ import annotations

import torch
from torch import Tensor


class KVCache:
    """Keys and values of the tokens so far, owned by whoever decodes; nothing hides on a module.

    GQA stores k and v, each (B, K, S, D): 2 · K · D numbers a token. MLA stores its latent (B, S, kv_lora_rank)
    and its rotated key (B, S, qk_rope_head_dim). `nbytes` is counted from the tensors themselves.
    """

    def __init__(self) -> None:
        self.tensors: tuple[Tensor, ...] = ()

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Add the new tokens' tensors (..., T, numbers) and return all of them (..., S, numbers)."""
        if self.tensors:
            new = tuple(torch.cat((old, fresh), dim=-2) for old, fresh in zip(self.tensors, new, strict=True))
        self.tensors = new
        return new

    def __len__(self) -> int:
        """Tokens remembered."""
        return self.tensors[0].shape[-2] if self.tensors else 0

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors)
