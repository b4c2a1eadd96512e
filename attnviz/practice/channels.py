"""A layer's input in which each token carries a channel of its own, to tell the tokens' values apart.

T tokens, C width of the input, W outputs of a projection.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Channels:
    """One direction per token, orthogonal to all tokens' inputs x (T, C), which needs C ≥ 2 · T.

    input (T, C) is x plus each token's channel. With `ignoring`, a projection gives the same as before on x; with
    `reading`, it gives rows of the identity. So the weights of any code on `input` are those on x, and its outputs show
    them. Tokens with equal x are told apart too. norm_weight (C,) and eps: an RMSNorm between input and projection.
    """

    def __init__(self, x: Tensor, norm_weight: Tensor | None = None, eps: float = 0.0) -> None:
        (T, C), x = x.shape, x.double()
        if C < 2 * T:
            raise ValueError(f"{T} tokens need inputs of at least {2 * T} dimensions to be told apart, not {C}")
        basis = torch.linalg.qr(x.T, mode="complete").Q  # (C, C), its first T columns span x
        self.directions = basis[:, T : 2 * T].T  # (T, C)
        squares = x.square().mean(-1, keepdim=True) + eps  # (T, 1)
        normed = norm_weight is not None
        self.weight = torch.ones(C, dtype=torch.float64) if norm_weight is None else norm_weight.double()
        size = (C * (squares if normed else squares.mean())).sqrt()  # as long as x, so the norm divides by √2 more
        self.input = (x + size * self.directions).float()
        self.shrunk = 2**0.5 if normed else 1.0
        self.size = C**0.5 if normed else float(size)  # of the channels that the projection is given

    def ignoring(self, weight: Tensor) -> Tensor:
        """Return a projection (W, C) that gives on `input` what `weight` gives on x."""
        scaled = weight.double() * self.weight
        return (self.shrunk * (scaled - scaled @ self.directions.T @ self.directions) / self.weight).float()

    def reading(self, first: int, n: int) -> Tensor:
        """Return a projection (n, C) that gives 1 in dimension i for token first + i, and 0 for all other tokens."""
        rows = self.directions[first : first + n]
        missing = rows.new_zeros(n - len(rows), rows.shape[1])  # dimensions beyond the last token
        return (self.shrunk / self.size * torch.cat((rows, missing)) / self.weight).float()
