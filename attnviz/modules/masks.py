"""Attention masks: True means "may attend", as in torch.nn.functional.scaled_dot_product_attention.

T query tokens, S key tokens.
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
    """Return a mask, bool (T, S), or None if every query may attend to every key.

    offset: the position of the first query (the number of tokens already in the cache).
    window: keys a query may attend to, its own included, as in Mistral: with causal the last `window`, otherwise
        those nearer than `window` on either side. ValueError below 1.
    n_sinks: attention-sink tokens, first tokens that stay visible outside the window (arXiv 2309.17453).
    """
    for name, n in (("n_queries", n_queries), ("n_keys", n_keys), ("n_sinks", n_sinks), ("offset", offset)):
        if n < 0:
            raise ValueError(f"{name} must be at least 0, not {n}")
    if window is not None and window < 1:
        raise ValueError(f"window must be at least 1, not {window}")
    one_last_query = n_queries == 1 and offset == n_keys - 1  # as in decoding: no key comes after it
    if window is None and (not causal or one_last_query):
        return None
    allowed = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    if window is not None:
        query = torch.arange(offset, offset + n_queries, device=device)[:, None]  # (T, 1)
        key = torch.arange(n_keys, device=device)[None, :]  # (1, S)
        allowed &= ((query - key).abs() < window) | (key < n_sinks)
    return allowed.tril(offset) if causal else allowed  # no key after the query's position


def intersection(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Return the conjunction of two masks; None allows everything. TypeError for a mask that is not boolean."""
    for mask in (one, other):
        if mask is not None and mask.dtype != torch.bool:
            raise TypeError(f"mask must be boolean (True = may attend), not {mask.dtype}")
    if one is None or other is None:
        return other if one is None else one
    return one & other
