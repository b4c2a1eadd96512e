"""Attention kernels with mistakes, as options of one kernel, so that two mistakes can be combined.

B batch, T query tokens, S key tokens, H query heads, K KV heads, D head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnviz.modules.attention import Attended
from attnviz.practice.task import Mistaken
from attnviz.practice.tasks.inputs import causal

Kernel = Callable[..., Attended]
ChangeMask = Callable[[Tensor, int, int], Tensor]  # the mask, T, S -> the mask that is used


def interleaved(H: int, K: int) -> list[int]:
    """Return the KV head that each query head reads, (H,)."""
    return [h * K // H for h in range(H)]


def tiled(H: int, K: int) -> list[int]:
    """Return the KV head that each query head reads where the KV heads are tiled, (H,)."""
    return [h % K for h in range(H)]


def zeros(weights: Tensor, allowed: Tensor) -> Tensor:
    """Set the weights (B, H, T, S) of fully masked queries to 0."""
    return weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)


def unchanged(weights: Tensor, allowed: Tensor) -> Tensor:
    """Return the weights (B, H, T, S) of fully masked queries as the softmax gives them."""
    return weights


def zeros_for_nan(weights: Tensor, allowed: Tensor) -> Tensor:
    """Set weights (B, H, T, S) that are NaN to 0."""
    return weights.nan_to_num()


def filled(value: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that sets the scores of masked keys to a value."""
    return lambda scores, allowed: scores.masked_fill(~allowed, value)


minus_infinity = filled(-math.inf)


def added(value: float, dtype: torch.dtype = torch.float32) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that adds a value to the scores of masked keys, in this precision."""
    return lambda scores, allowed: scores.to(dtype) + value * (~allowed).to(dtype)


def attend_with(
    scale: Callable[[int, int], float] = lambda D, C: D**-0.5,
    change_mask: ChangeMask = lambda mask, T, S: mask,
    order: Callable[[int, int], list[int]] = interleaved,
    order_of_values: Callable[[int, int], list[int]] | None = None,
    mask_after: bool = False,
    mask_scores: Callable[[Tensor, Tensor], Tensor] = minus_infinity,
    axis: int = -1,
    empty: Callable[[Tensor, Tensor], Tensor] = zeros,
    swapped: bool = False,
    keys_for_values: bool = False,
    shifted: bool = True,
) -> Kernel:
    """Build an attention kernel; without options it is right.

    scale: the factor on the scores, of head_dim and d_model (the argument width of the kernel, H·D by default). order:
    the KV head that each query head reads, order_of_values where it differs for the values. mask_after: the mask is
    applied after the softmax. mask_scores: what masked keys' scores become. axis: of the softmax. empty: what the
    weights of a fully masked query become. swapped: q and k. keys_for_values: the keys are averaged.
    shifted: the softmax subtracts the maximum first.
    """
    factor, softmax = scale, torch.softmax if shifted else _softmax_that_overflows

    def kernel(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, width: int = 0, scale: float | None = None,
        **_: Any,
    ) -> Attended:  # fmt: skip
        H, K, D, T, S = q.shape[1], k.shape[1], q.shape[3], q.shape[2], k.shape[2]
        k, v = k[:, order(H, K)], (k if keys_for_values else v)[:, (order_of_values or order)(H, K)]
        scores = k @ q.mT if swapped else q @ k.mT  # (B, H, T, S), (B, H, S, T) if swapped
        scores = scores * factor(D, width or H * D)
        scores = scores * (D**0.5 * scale if scale else 1.0)  # what latent attention's own scale has beside 1 / √D
        allowed = change_mask(torch.ones(T, S, dtype=torch.bool) if mask is None else mask, T, S)
        if mask_after:
            weights = softmax(scores, axis) * allowed
        else:
            weights = empty(softmax(mask_scores(scores, allowed), axis), allowed)
        return Attended(weights.to(v.dtype) @ v, weights)

    return kernel


def _softmax_that_overflows(scores: Tensor, axis: int) -> Tensor:
    """Compute the softmax without subtracting the maximum first."""
    weights = scores.exp()
    return weights / weights.sum(axis, keepdim=True)


def _everything(mask: Tensor, T: int, S: int) -> Tensor:
    return torch.ones_like(mask)


def _of_the_first(axis: int) -> ChangeMask:
    """Return a function that uses the first mask along an axis for all, where the mask has that axis."""
    return lambda mask, T, S: mask.narrow(axis, 0, 1) if mask.ndim == 4 else mask


MASK_IGNORED = Mistaken("with the causal mask always, ignoring the argument mask",
                        {"change_mask": lambda mask, T, S: causal(T, S)})  # fmt: skip
EMPTY = (zeros, unchanged, zeros_for_nan)
WRONG_SCALES = (
    Mistaken("without the division by √head_dim", {"scale": lambda D, C: 1.0}),
    Mistaken("with scores divided by head_dim instead of √head_dim", {"scale": lambda D, C: 1 / D}),
)  # fmt: skip
WRONG_SCORES = (  # these change the output also if no mask is given
    *WRONG_SCALES,
    Mistaken("with the mask inverted, so that True masks a key", {"change_mask": lambda mask, T, S: ~mask}),
    Mistaken("with the mask applied after the softmax, so that rows do not sum to 1", {"mask_after": True},
             "mask_after_softmax"),
    *(Mistaken("with the mask added to the scores as 0 and 1, so that nothing is masked",
               {"mask_scores": lambda scores, allowed: scores + allowed.float(), "empty": empty})
      for empty in (unchanged, zeros)),
    *(Mistaken("with scores of 0 instead of −∞ for masked keys, so that they keep a weight",
               {"mask_scores": filled(0.0), "empty": empty}) for empty in (unchanged, zeros)),
    *(Mistaken("with the softmax over the queries instead of the keys", {"axis": -2, "empty": empty},
               "softmax_over_queries") for empty in EMPTY),
    Mistaken("with q and k swapped in the scores: k · qᵀ instead of q · kᵀ", {"swapped": True}),
)  # fmt: skip
WRONG_MASKS = (
    Mistaken("with the mask never used", {"change_mask": _everything}, "mask_never_used"),
    Mistaken("with the causal mask applied too where a mask is given, which replaces it",
             {"change_mask": lambda mask, T, S: mask & causal(T, S)}),
    MASK_IGNORED,
    Mistaken("with the mask of the first sequence for all of the batch", {"change_mask": _of_the_first(0)},
             "mask_of_another_batch"),
    Mistaken("with NaN for a fully masked query (a row of −∞ before the softmax)", {"empty": unchanged},
             "fully_masked_row"),
    Mistaken("with the average of all values for a fully masked query (a large negative number instead of −∞)",
             {"mask_scores": filled(-1e9), "empty": unchanged}, "fully_masked_row"),
    *(Mistaken("with a fully masked query that attends as if nothing were masked (a large negative number is added to "
               "the scores, the same for all keys)",
               {"mask_scores": added(value, dtype), "empty": unchanged}, "fully_masked_row")
      for value, dtype in ((-1e4, torch.float32), (-1e9, torch.float64))),
)  # fmt: skip
OVERFLOW = tuple(Mistaken("without subtracting the maximum in the softmax, so that large scores overflow",
                          {"shifted": False, "empty": empty}) for empty in (zeros, zeros_for_nan))  # fmt: skip
KEYS_FOR_VALUES = Mistaken("with the keys in place of the values", {"keys_for_values": True})
SOFTMAX_OVER_HEADS = tuple(Mistaken("with the softmax over the heads instead of the keys", {"axis": 1, "empty": empty})
                           for empty in EMPTY)  # fmt: skip
MASK_OF_ONE_HEAD = Mistaken("with the mask of the first head for all heads", {"change_mask": _of_the_first(1)})
BY_D_MODEL = Mistaken("with scores divided by √d_model instead of √head_dim",
                      {"scale": lambda D, C: C**-0.5}, "scale_by_d_model")  # fmt: skip
TILED = Mistaken("with the KV heads tiled (0 1 0 1) instead of interleaved (0 0 1 1)", {"order": tiled},
                 "tiled_kv_heads")  # fmt: skip
HALF_TILED = (
    Mistaken("with the values tiled (0 1 0 1), but the keys interleaved (0 0 1 1)", {"order_of_values": tiled}),
    Mistaken("with the keys tiled (0 1 0 1), but the values interleaved (0 0 1 1)",
             {"order": tiled, "order_of_values": interleaved}),
)  # fmt: skip
WRONG_CAUSAL_MASKS = (
    Mistaken("without a causal mask if mask is None", {"before": lambda T: causal(T, shift=T)}, "mask_never_used"),
    Mistaken("with tril(-1) as causal mask: a token does not attend to itself",
             {"before": lambda T: causal(T, shift=-1)}),
    Mistaken("with tril(1) as causal mask: a token attends to the next one too",
             {"before": lambda T: causal(T, shift=1)}),
    Mistaken("with triu() as causal mask: a token attends to itself and later ones",
             {"before": lambda T: causal(T).mT}),
)  # fmt: skip
