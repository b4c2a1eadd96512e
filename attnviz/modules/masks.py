"""Who may attend to whom. True means "may attend", as in torch.nn.functional.scaled_dot_product_attention.

T query tokens, S key tokens, B batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Mask:
    """Who may attend to whom, and what that does to scores: worked out once for all layers that share it."""

    allowed: Tensor  # bool, True = may attend, broadcastable to (B, H, T, S)

    @cached_property
    def seen(self) -> Tensor:
        """Bool (..., T, 1): which queries may attend to anything."""
        return self.allowed.sum(-1, keepdim=True) > 0

    @cached_property
    def bias(self) -> Tensor:
        """What is added to scores: 0 or -inf. A sum takes a tenth of the time of filling the scores.

        Nothing is added to a row that may attend to nothing: -inf throughout would make it NaN, and its gradient too.
        """
        return torch.where(self.allowed | ~self.seen, 0.0, float("-inf"))

    @cached_property
    def leaves_rows_empty(self) -> bool:
        """Whether it may leave a query nothing; on the meta device there is nothing to look at."""
        return self.allowed.is_meta or not bool(self.seen.all())


def attention_mask(
    n_queries: int,
    n_keys: int,
    *,
    causal: bool = False,
    window: int | None = None,
    n_sinks: int = 0,
    offset: int = 0,
    device: torch.device | None = None,
) -> Tensor | None:
    """Bool (T, S), or None where every query may attend to every key.

    offset: the position of the first query (the number of tokens already in the cache).
    window: keys a query may see, itself counted, as in Mistral: with causal the last `window`, otherwise
        those nearer than `window` on either side.
    n_sinks: first tokens that stay visible although the window has passed them (arXiv 2309.17453).
    """
    if window is not None and window < 1:
        raise ValueError(f"window must be at least 1, not {window}")
    if not causal and window is None:
        return None
    allowed = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    if window is not None:
        query = torch.arange(offset, offset + n_queries, device=device)[:, None]  # (T, 1)
        key = torch.arange(n_keys, device=device)[None, :]  # (1, S)
        allowed &= ((query - key).abs() < window) | (key < n_sinks)
    return allowed.tril(offset) if causal else allowed  # no key behind the query's position


def padding_mask(lengths: Tensor, n_keys: int) -> Tensor:
    """Bool (B, 1, 1, S): the first `lengths[b]` keys of sequence b are real, the rest is padding."""
    return (torch.arange(n_keys, device=lengths.device) < lengths[:, None])[:, None, None, :]


def both(pattern: Tensor | None, mask: Tensor | Mask | None) -> Mask | None:
    """What both allow; None stands for "everything"."""
    mask = as_mask(mask)
    if pattern is None or mask is None:
        return mask if pattern is None else Mask(pattern)
    return Mask(pattern & mask.allowed)


def as_mask(mask: Tensor | Mask | None) -> Mask | None:
    """A bare tensor stands for the mask of what is True in it."""
    if isinstance(mask, Tensor):
        require_boolean(mask)
        return Mask(mask)
    return mask


def require_boolean(mask: Tensor) -> None:
    """A mask of numbers could mean 1 = may attend, 1 = masked, or something to add: refused rather than guessed."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean (True = may attend), not {mask.dtype}")
