"""Who may attend to whom. True means "may attend", as in torch.nn.functional.scaled_dot_product_attention.

T query tokens, S key tokens, B batch.
"""

from __future__ import annotations

import torch
from torch import Tensor


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


def both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """What both masks allow; None stands for "everything"."""
    for mask in (a, b):
        if mask is not None:
            require_boolean(mask)
    if a is None or b is None:
        return a if b is None else b
    return a & b


def require_boolean(mask: Tensor) -> None:
    """A mask of numbers could mean 1 = may attend, 1 = masked, or something to add: refused rather than guessed."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean (True = may attend), not {mask.dtype}")
