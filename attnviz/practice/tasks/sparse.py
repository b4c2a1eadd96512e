"""The task of sparse attention with an indexer.

B batch, T queries, S keys, H query heads, K KV heads, D head_dim, V width of a value, I index heads, E width of an
index key.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import Tensor

from attnviz.modules.attention import attend
from attnviz.modules.sparse import index_scores, top_k_mask
from attnviz.practice.task import Case, Mistaken, Task, function_case
from attnviz.practice.tasks.attention import INTERFACE
from attnviz.practice.tasks.inputs import FAR_TOLERANCE, causal, drawn, far_scores, random_mask
from attnviz.practice.tasks.kernels import (
    HALF_TILED,
    KEYS_FOR_VALUES,
    OVERFLOW,
    TILED,
    WRONG_CAUSAL_MASKS,
    WRONG_MASKS,
    WRONG_SCALES,
    attend_with,
    filled,
    unchanged,
    zeros,
)

B, H, K, D, V = 2, 6, 2, 5, 7
INDEX_HEADS, WIDTH = 3, 11  # I, E
APART = 1e-3  # least distance between the last index score that is kept and the first that is not
Choose = Callable[[Tensor, Tensor, int], Tensor]  # index scores and allowed keys (B, T, S), k -> kept keys, bool


def _right(
    q: Tensor, k: Tensor, v: Tensor, index_q: Tensor, index_k: Tensor, index_weights: Tensor, top_k: int,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    allowed = _by_sequence(causal(q.shape[2]) if mask is None else mask)
    kept = top_k_mask(index_scores(index_q, index_k, index_weights), top_k, allowed)  # (B, 1, T, S)
    return attend(q, k, v, kept).output


def _by_sequence(mask: Tensor) -> Tensor:
    """(T, S) or (B, 1, T, S) -> (T, S) or (B, T, S)."""
    return mask[:, 0] if mask.ndim == 4 else mask


def _best(scores: Tensor, k: int, descending: bool = True) -> Tensor:
    """Return where the k best scores are, bool (B, T, S), of equal ones the first."""
    best = scores.argsort(dim=-1, descending=descending, stable=True)[..., :k]  # (B, T, min(k, S))
    return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)


def _after_the_mask(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
    return _best(scores.masked_fill(~allowed, -math.inf), k) & allowed


def _version(
    choose: Choose = _after_the_mask,
    activation: Callable[[Tensor], Tensor] = torch.relu,
    combine: Callable[[Tensor, Tensor], Tensor] = lambda products, weights: (weights * products).sum(1),
    by_attention: bool = False,
    dense: Callable[[Tensor, Tensor], Tensor] | None = None,
    change_mask: Callable[[Tensor, int, int], Tensor] = lambda mask, T, S: mask,
    before: Callable[[int], Tensor] = causal,
    **kernel: Any,
) -> dict[str, Any]:
    """Build sparse attention; without options it is right.

    choose: the kept keys. activation: of index products. combine: the scores (B, T, S), of products (B, I, T, S) and
    weights (B, I, T, 1). by_attention: keys are ranked by q · k, in each head. dense: over which keys the softmax is,
    of those allowed and kept, before the weights of the keys that are not kept become 0. change_mask, before: the mask
    that is used. kernel: options of `attend_with`.
    """
    attend_wrongly = attend_with(**kernel)

    def sparse_attention(
        q: Tensor, k: Tensor, v: Tensor, index_q: Tensor, index_k: Tensor, index_weights: Tensor, top_k: int,
        mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        T, S = q.shape[2], k.shape[2]
        allowed = change_mask(before(T) if mask is None else mask, T, S)
        allowed = _by_sequence(allowed).expand(len(q), T, S)  # (B, T, S)
        products = activation(index_q @ index_k[:, None].mT)  # (B, I, T, S)
        scores = combine(products, index_weights.mT[..., None])  # (B, T, S)
        if by_attention:
            each = (q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT).unbind(1)  # of H, (B, T, S)
            kept = torch.stack([choose(one, allowed, top_k) for one in each], 1)  # (B, H, T, S)
        else:
            kept = choose(scores, allowed, top_k)[:, None]  # (B, 1, T, S)
        if dense is None:
            return attend_wrongly(q, k, v, kept).output
        weights = attend_wrongly(q, k, v, dense(allowed[:, None], kept)).weights
        return (weights * kept) @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)

    return {"sparse_attention": sparse_attention}


def _index(seed: int, T: int, S: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw index queries, keys and weights: the product of index head 0 is positive, so that few scores are equal."""
    index_q, index_k = drawn(seed, B, INDEX_HEADS, T, WIDTH), drawn(seed + 1, B, S, WIDTH)
    index_q[:, 0, :, 0], index_k[..., 0] = 7.0, 2.0 + index_k[..., 0].abs()
    return index_q, index_k, drawn(seed + 2, B, T, INDEX_HEADS)


def _decided(seed: int, T: int, S: int, k: int, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Draw them again until rounding decides about no key."""
    allowed = _by_sequence(causal(T) if mask is None else mask)
    for n in count():
        index = _index(seed + 1000 * n, T, S)
        ranked = index_scores(*index).masked_fill(~allowed, -math.inf).sort(-1, descending=True).values
        gaps = (ranked[..., k - 1 : k] - ranked[..., k : k + 1]).nan_to_num(math.inf)  # −∞ − (−∞): none is left
        if not gaps.numel() or float(gaps.min()) > APART:
            return index
    raise AssertionError


def _integers(seed: int, T: int, S: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw index queries, keys and weights from −1, 0 and 1: many scores are equal, in any order of operations."""
    index_q, index_k = drawn(seed, B, INDEX_HEADS, T, 2), drawn(seed + 1, B, S, 2)
    index_q, index_k, weights = (x.clamp(-1, 1).round() for x in (index_q, index_k, drawn(seed + 2, B, T, INDEX_HEADS)))
    return index_q, index_k, weights


def _cases(seed: int) -> list[Case]:
    def case(label: str, n: int, T: int, S: int, k: int, *, mask: Tensor | None = None, far: bool = False,
             index: tuple[Tensor, Tensor, Tensor] | None = None, **options: Any) -> Case:  # fmt: skip
        q, keys = drawn(seed + n, B, H, T, D), drawn(seed + n + 1, B, K, S, D)
        if far:
            q, keys = far_scores(seed + n, (B, H), T, S, D)
            keys = keys[:, :K]
        given = q, keys, drawn(seed + n + 2, B, K, S, V), *(index or _decided(seed + n + 3, T, S, k, mask)), k
        options |= {} if mask is None else {"mask": mask}
        return function_case(label, "sparse_attention", *given, **options)

    return [
        case("mask = None: causal, 3 keys, twice the same", 0, 11, 11, 3, twice=True),
        case("mask (T, S), 2 of 13 keys", 7, 7, 13, 2, mask=random_mask(seed + 90, 7, 13)),
        case("mask (B, 1, T, S), 3 keys", 14, 7, 13, 3, mask=random_mask(seed + 91, B, 1, 7, 13)),
        case("mask (B, 1, T, S), one query of each sequence fully masked: zeros", 21, 11, 13, 2,
             mask=random_mask(seed + 92, B, 1, 11, 13, empty=True)),
        case("mask (T, T), one query fully masked: zeros", 28, 7, 7, 2, mask=random_mask(seed + 93, 7, 7, empty=True)),
        case("the best key alone", 35, 7, 7, 1),
        case("top_k = 17 of 7 keys: all that the mask allows", 42, 7, 7, 17),
        case("equal index scores: of these, the earlier keys", 49, 13, 13, 5, index=_integers(seed + 94, 13, 13)),
        case("one query, 23 keys: a decode step", 56, 1, 23, 5, mask=torch.ones(1, 23, dtype=torch.bool)),
        case("attention scores near 1,000 and −1,000", 63, 11, 11, 3, far=True, tolerance=FAR_TOLERANCE),
    ]  # fmt: skip


def _before_the_mask(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
    return _best(scores, k) & allowed


def _masked_ones_too(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
    return _best(scores.masked_fill(~allowed, -math.inf), k)


def _as_topk_has_them(only_allowed: bool = True, at_most: bool = True) -> Choose:
    """Choose with torch.topk. only_allowed: False if masked keys can be among them. at_most: S keys, or it raises."""

    def choose(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
        best = scores.masked_fill(~allowed, -math.inf).topk(min(k, scores.shape[-1]) if at_most else k).indices
        kept = torch.zeros_like(allowed).scatter(-1, best, True)  # (B, T, S)
        return kept & allowed if only_allowed else kept

    return choose


def _last_first(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
    return _after_the_mask(scores.flip(-1), allowed.flip(-1), k).flip(-1)


def _with_equal(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
    ranked = scores.masked_fill(~allowed, -math.inf)
    last = ranked.sort(-1, descending=True).values[..., min(k, scores.shape[-1]) - 1, None]  # (B, T, 1)
    return (ranked >= last) & allowed


def _lowest(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
    return _best(scores.masked_fill(~allowed, math.inf), k, descending=False) & allowed


def _by_query(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
    return _after_the_mask(scores.mT, allowed.mT, k).mT


def _changed_k(more: int) -> Choose:
    return lambda scores, allowed, k: _after_the_mask(scores, allowed, k + more)


def _of_one(axis: int, which: int, rank: Choose) -> Choose:
    """Choose as one sequence or query does, for all of them."""

    def choose(scores: Tensor, allowed: Tensor, k: int) -> Tensor:
        kept = rank(scores, allowed, k)
        return kept.narrow(axis, which % kept.shape[axis], 1) & allowed

    return choose


def _in_each_case(explanation: str, mistake: str = "", **options: Any) -> tuple[Mistaken, ...]:
    """Return a mistake after which queries can be left without a key, with what their weights can become."""
    return tuple(Mistaken(explanation, options | {"empty": empty}, mistake) for empty in (zeros, unchanged))


WRONG_CHOICES = (
    *_in_each_case("with the top-k taken before the mask: masked keys take places among the k, and are lost then",
                   "top_k_before_the_mask", choose=_before_the_mask),
    *_in_each_case("with one key fewer than top_k", choose=_changed_k(-1)),
    Mistaken("with one key more than top_k", {"choose": _changed_k(1)}),
    Mistaken("with the lowest index scores kept instead of the highest", {"choose": _lowest}),
    *_in_each_case("with the top-k over the queries instead of the keys", choose=_by_query),
    *(mistaken for rank in (_after_the_mask, _masked_ones_too) for mistaken in (
        *_in_each_case("with the keys kept by the first sequence for all of the batch", choose=_of_one(0, 0, rank)),
        *_in_each_case("with the keys kept by the last query for all queries", choose=_of_one(1, -1, rank)),
    )),
    Mistaken("with top_k never used: dense attention", {"choose": lambda scores, allowed, k: allowed}),
    *(Mistaken("with masked keys where a query may attend to fewer than top_k", {"choose": choose})
      for choose in (_masked_ones_too, _as_topk_has_them(only_allowed=False))),
    Mistaken("with torch.topk as it is: an error where top_k is larger than the number of keys, and another order of "
             "equal index scores", {"choose": _as_topk_has_them(at_most=False)}),
    Mistaken("with the order of torch.topk among equal index scores, which is not that of the keys",
             {"choose": _as_topk_has_them()}),
    Mistaken("with the later ones of equal index scores first", {"choose": _last_first}),
    Mistaken("with more than top_k keys where index scores are equal: all that reach the k-th",
             {"choose": _with_equal}),
)  # fmt: skip
WRONG_INDEX_SCORES = (
    Mistaken("without the ReLU in the index scores", {"activation": lambda products: products}),
    Mistaken("with the ReLU after the sum over the index heads, instead of before",
             {"activation": lambda products: products,
              "combine": lambda products, weights: (weights * products).sum(1).relu()}),
    Mistaken("with absolute values instead of the ReLU in the index scores", {"activation": torch.abs}),
    Mistaken("without the index weights: the index heads are added up",
             {"combine": lambda products, weights: products.sum(1)}),
    Mistaken("with a softmax of the index weights over the index heads",
             {"combine": lambda products, weights: (weights.softmax(1) * products).sum(1)}),
    Mistaken("with the index weights of the first query for all queries",
             {"combine": lambda products, weights: (weights[:, :, :1] * products).sum(1)}),
    Mistaken("with the first index head alone", {"combine": lambda products, weights: (weights * products)[:, 0]}),
    Mistaken("with the largest index head of each key instead of their sum",
             {"combine": lambda products, weights: (weights * products).amax(1)}),
    Mistaken("with the top-k of the attention scores of each head instead of the index scores",
             {"by_attention": True}),
)  # fmt: skip
NOT_RENORMALISED = (
    Mistaken("with the softmax over all keys that the mask allows, and weights of 0 for the others then: rows do not "
             "sum to 1", {"dense": lambda allowed, kept: allowed}),
    Mistaken("with the softmax over all keys, masked ones too, and weights of 0 for them then: rows do not sum to 1",
             {"dense": lambda allowed, kept: torch.ones_like(allowed)}, "mask_after_softmax"),
    *(Mistaken("with attention scores of 0 instead of −∞ for the keys that are not kept, so that they keep a weight",
               {"mask_scores": filled(0.0), "empty": empty}) for empty in (unchanged, zeros)),
)  # fmt: skip
SPARSE = Task(
    "sparse",
    f'''"""Sparse attention with an indexer (DeepSeek sparse attention, arXiv 2512.02556): each query keeps top_k keys.

The index score of query t and key s is the sum over the index heads j of w_tj · ReLU(q_tj · k_s), with index_q
(B, I, T, E), one index key per token, index_k (B, S, E), and index_weights w (B, T, I). Each query attends to the top_k
keys with the highest index scores among those that the mask allows, or to all of these if they are fewer; of keys with
equal index scores, the earlier ones. All heads attend to the same keys: softmax(q · kᵀ / √D) · v over these keys alone.

q (B, H, T, D), k (B, K, S, D), v (B, K, S, V) -> (B, H, T, V). Query head h reads KV head h // (H / K).
{INTERFACE.format("(T, S) or (B, 1, T, S)")} If mask is None, T equals S.
B batch, T queries, S keys, H query heads, K KV heads, D head_dim, V width of a value, I index heads, E their width.
"""

import torch


def sparse_attention(q, k, v, index_q, index_k, index_weights, top_k, mask=None):
    raise NotImplementedError
''',
    {"sparse_attention": _right},
    _cases,
    _version,
    (
        *WRONG_CHOICES, *WRONG_INDEX_SCORES, *NOT_RENORMALISED, *WRONG_MASKS, *WRONG_CAUSAL_MASKS,
        TILED, *HALF_TILED, *WRONG_SCALES, KEYS_FOR_VALUES, *OVERFLOW,
    ),
)  # fmt: skip
