"""The KV cache of one attention layer. B batch, T new tokens, S tokens so far, K KV heads, D head_dim.

This file needs torch and nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor


class KVCache:
    """Hold the keys and values of the tokens so far; whoever decodes owns the cache, not the attention module.

    GQA caches k and v, each (B, K, S, D): 2 · K · D numbers per token. MLA caches its latent (B, S, kv_lora_rank)
    and its rotated key (B, S, qk_rope_head_dim).
    """

    def __init__(self) -> None:
        self.tensors: tuple[Tensor, ...] = ()

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Add the new tokens' tensors, (..., T, width) each, and return those of all tokens, (..., S, width).

        ValueError for another number of tensors than before.
        """
        if self.tensors:
            new = tuple(torch.cat((old, fresh), dim=-2) for old, fresh in zip(self.tensors, new, strict=True))
        self.tensors = new
        return new

    def __len__(self) -> int:
        """Count the tokens so far, S."""
        return self.tensors[0].shape[-2] if self.tensors else 0

    @property
    def nbytes(self) -> int:
        """Count the bytes of the cached tensors."""
        return sum(t.numel() * t.element_size() for t in self.tensors)
