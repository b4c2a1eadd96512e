"""Token embeddings with a scale or with learned positions. B batch, T tokens, C d_model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnviz.modules.norm import check_sizes


def empty_embedding(vocab_size: int, d_model: int) -> Tensor:
    """Return an uninitialised weight: initialising one on the meta device imports torch's compiler (1 s, 70 MB)."""
    return torch.empty(vocab_size, d_model)


class ScaledEmbedding(nn.Embedding):
    """Embedding multiplied by a constant, sqrt(d_model) in Gemma."""

    def __init__(self, vocab_size: int, d_model: int, scale: float) -> None:
        check_sizes(vocab_size=vocab_size, d_model=d_model)
        super().__init__(vocab_size, d_model, _weight=empty_embedding(vocab_size, d_model))
        self.scale = scale

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to (B, T, C)."""
        return super().forward(ids) * self.scale  # (B, T, C)


class PositionEmbedding(nn.Embedding):
    """Embedding plus a learned vector of the position (Vaswani et al., arXiv 1706.03762; GPT-2)."""

    def __init__(self, vocab_size: int, d_model: int, n_positions: int) -> None:
        check_sizes(vocab_size=vocab_size, d_model=d_model, n_positions=n_positions)
        super().__init__(vocab_size, d_model, _weight=empty_embedding(vocab_size, d_model))
        self.positions = nn.Parameter(torch.empty(n_positions, d_model))

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """Map ids (B, T) at the positions start, start + 1, … to (B, T, C)."""
        stop, n = start + ids.shape[1], self.positions.shape[0]
        if stop > n:
            raise ValueError(f"the model has learned {n} positions, and position {stop - 1} was requested")
        return super().forward(ids) + self.positions[start:stop]  # (B, T, C)
