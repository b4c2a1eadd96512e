"""The attention tasks: scaled dot-product, single-head, MHA and GQA.

B batch, T query tokens, S key tokens, C d_model, H query heads, K KV heads, D head_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from attnviz.modules import GroupedQueryAttention, MultiHeadAttention, SelfAttention
from attnviz.modules.attention import attend
from attnviz.practice.task import Case, Mistaken, Task, function_case, module_case
from attnviz.practice.tasks.inputs import FAR, FAR_TOLERANCE, causal, drawn, far_scores, padding_mask, random_mask
from attnviz.practice.tasks.kernels import (
    BY_D_MODEL,
    HALF_TILED,
    KEYS_FOR_VALUES,
    MASK_IGNORED,
    MASK_OF_ONE_HEAD,
    OVERFLOW,
    SOFTMAX_OVER_HEADS,
    TILED,
    WRONG_CAUSAL_MASKS,
    WRONG_MASKS,
    WRONG_SCORES,
    attend_with,
)


def _function(before: Callable[[int], Tensor] = causal, **options: Any) -> dict[str, Any]:
    """Build the function. before: the mask of T tokens for mask=None. options: of `attend_with`."""
    kernel = attend_with(**options) if options else attend

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return kernel(q, k, v, before(q.shape[2]) if mask is None else mask).output

    return {"attention": attention}


def _attention_cases(seed: int) -> list[Case]:
    B, H, T, S, D = 2, 3, 7, 11, 5

    def qkv(n: int, T: int, S: int) -> tuple[Tensor, Tensor, Tensor]:
        return drawn(seed + n, B, H, T, D), drawn(seed + n + 1, B, H, S, D), drawn(seed + n + 2, B, H, S, D)

    def case(label: str, n: int, T: int, S: int, **kwargs: Any) -> Case:
        return function_case(label, "attention", *qkv(n, T, S), **kwargs)

    return [
        case("mask = None: causal", 0, T, T),
        case("mask (T, S), more keys than queries, twice the same", 3, T, S, mask=random_mask(seed + 50, T, S),
             twice=True),
        case("mask (B, 1, T, S)", 6, T, S, mask=random_mask(seed + 51, B, 1, T, S)),
        case("mask (1, H, T, S)", 9, T, S, mask=random_mask(seed + 52, 1, H, T, S)),
        case("mask (B, 1, 1, S): padding", 12, T, S, mask=padding_mask(B, S)[:, None, None]),
        case("mask (B, H, T, T), one query of each head fully masked: zeros", 15, T, T,
             mask=random_mask(seed + 53, B, H, T, T, empty=True)),
        case("mask (T, T), one query fully masked: zeros", 18, T, T, mask=random_mask(seed + 54, T, T, empty=True)),
        case("T = 1", 21, 1, 1),
        function_case("scores near 1,000 and −1,000", "attention", *far_scores(seed + 24, (B, H), T, T, D),
                      drawn(seed + 26, B, H, T, D), tolerance=FAR_TOLERANCE),
        case("mask = None, twice the same", 27, T, T, twice=True),
    ]  # fmt: skip


INTERFACE = """\
mask: bool, True = may attend, {}; None = causal.
A given mask replaces the causal one. For a fully masked query, return zeros (not NaN)."""
OF_ALL_HEADS = INTERFACE.format("two- or four-dimensional and broadcastable to (B, H, T, T)")

SCALED_DOT_PRODUCT = Task(
    "attention",
    f'''"""Scaled dot-product attention: softmax(q · kᵀ / √D) · v.

q (B, H, T, D), k and v (B, H, S, D) -> (B, H, T, D). B batch, H heads, T queries, S keys, D head_dim.
{INTERFACE.format("two- or four-dimensional and broadcastable to (B, H, T, S)")} If mask is None, T equals S.
"""

import torch


def attention(q, k, v, mask=None):
    raise NotImplementedError
''',
    _function(),
    _attention_cases,
    _function,
    (
        *WRONG_SCORES, *WRONG_MASKS, *SOFTMAX_OVER_HEADS, MASK_OF_ONE_HEAD, *WRONG_CAUSAL_MASKS,
        *OVERFLOW, KEYS_FOR_VALUES,
        *(Mistaken(MASK_IGNORED.explanation, {"change_mask": lambda mask, T, S, before=before: before(T, S)})
          for before in (lambda T, S: causal(T, S, S - T), lambda T, S: causal(T))),  # with S > T; the second raises
    ),
)  # fmt: skip


def _module(
    name: str, base: Any, before: Callable[[int], Tensor] | None = None,
    split: Callable[[Tensor, int], Tensor] | None = None, merge: Callable[[Tensor], Tensor] | None = None,
    projected: bool = True, **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """Build the module under the task's name, with the task's forward(x, mask=None).

    before: the mask of T tokens for mask=None. split: how a projection's output (B, T, H·D) becomes (B, H, T, D).
    merge: how the heads' outputs (B, H, T, D) become (B, T, H·D). projected: with o_proj. options: of `attend_with`.
    """
    wrong_kernel = attend_with(**options) if options else None

    def forward(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
        kernel = partial(wrong_kernel, width=x.shape[-1]) if wrong_kernel else None
        if not projected:
            self.o_proj = nn.Identity()
        if mask is None and before:
            mask = before(x.shape[1])
        if not (split or merge):
            return base.forward(self, x, mask=mask, causal=mask is None, kernel=kernel)
        q, k, v = (
            (split or _split)(p(x), n) for p, n in (
                (self.q_proj, self.n_heads), (self.k_proj, self.n_kv_heads), (self.v_proj, self.n_kv_heads),
            )
        )  # fmt: skip
        output = (kernel or attend)(q, k, v, causal(x.shape[1]) if mask is None else mask).output  # (B, H, T, D)
        return self.o_proj((merge or _merge)(output))

    return {name: type(name, (base,), {"forward": forward})}


def _split(projected: Tensor, H: int) -> Tensor:
    return projected.unflatten(-1, (H, -1)).transpose(1, 2)


def _merge(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)


def _like(heads: Tensor) -> tuple[int, int, int]:
    """(B, H, T, D) -> the shape (B, T, H·D)."""
    B, H, T, D = heads.shape
    return B, T, H * D


SPLITS: tuple[tuple[str, Callable[[Tensor, int], Tensor]], ...] = (
    ("with view(B, H, T, D) of the projections instead of view(B, T, H, D) and transpose(1, 2)",
     lambda x, H: x.reshape(x.shape[0], H, x.shape[1], -1)),
    ("with head h in columns h, h + H, …, instead of columns that lie together",
     lambda x, H: x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2)),
)  # fmt: skip
WRONG_MERGES = (
    Mistaken("with reshape(B, T, C) of the heads' output without transpose(1, 2) first",
             {"merge": lambda heads: heads.reshape(_like(heads))}, "reshape_without_transpose"),
    Mistaken("with transpose(-1, -2) instead of transpose(1, 2) before the heads' output is reshaped to (B, T, C)",
             {"merge": lambda heads: heads.transpose(-1, -2).reshape(_like(heads))}),
    Mistaken("with the heads' outputs interleaved instead of one after another when they are merged",
             {"merge": lambda heads: heads.permute(0, 2, 3, 1).flatten(2)}),
)  # fmt: skip
NO_OUTPUT_PROJECTION = Mistaken("without o_proj: the concatenated heads are returned", {"projected": False})
WRONG_SHAPES = (*(Mistaken(explanation, {"split": split}) for explanation, split in SPLITS), *WRONG_MERGES)


class _OneHead(SelfAttention):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_out)


def _self(**options: Any) -> dict[str, Any]:
    return _module("SelfAttention", _OneHead, **options)


def _self_cases(seed: int) -> list[Case]:
    def case(label: str, n: int, T: int, d_in: int, d_out: int, *more: Tensor, **kwargs: Any) -> Case:
        x, sizes = drawn(seed + n, 3, T, d_in), {"d_in": d_in, "d_out": d_out}
        return module_case(label, SELF_ATTENTION.right, "SelfAttention", sizes, seed + n, *more, x, **kwargs)

    return [
        case("mask = None: causal", 0, 7, 13, 5),
        case("mask (T, T)", 1, 7, 13, 5, mask=random_mask(seed + 50, 7, 7)),
        case("mask (B, 1, 1, T): padding", 2, 7, 13, 17, mask=padding_mask(3, 7)[:, None, None]),
        case("mask (B, 1, T, T), one query of each sequence fully masked: zeros", 3, 7, 13, 5,
             mask=random_mask(seed + 51, 3, 1, 7, 7, empty=True)),
        case("mask (T, T), one query fully masked: zeros", 4, 7, 13, 5, mask=random_mask(seed + 52, 7, 7, empty=True)),
        case("T = 1", 5, 1, 13, 5),
        case("large scores", 6, 7, 13, 5, factors={"q_proj.weight": FAR}, tolerance=FAR_TOLERANCE),
        case("5 tokens, then 11 with the same module, and with another one", 7, 11, 13, 5, drawn(seed + 53, 3, 5, 13)),
    ]  # fmt: skip


SELF_ATTENTION = Task(
    "self-attention",
    f'''"""Single-head self-attention with projections q_proj, k_proj, v_proj (no bias), and no output projection.

x (B, T, d_in) -> (B, T, d_out). B batch, T tokens. The check sets the weights by these names.
{INTERFACE.format("(T, T), or with an axis of heads (B, 1, T, T) or (B, 1, 1, T)")}
"""

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x, mask=None):
        raise NotImplementedError
''',
    _self(),
    _self_cases,
    _self,
    (
        Mistaken("with scores divided by √d_in instead of √d_out", {"scale": lambda D, C: C**-0.5}, "scale_by_d_model"),
        *WRONG_SCORES, *WRONG_MASKS, *WRONG_CAUSAL_MASKS, *OVERFLOW, KEYS_FOR_VALUES,
    ),
)  # fmt: skip


def _many_cases(task: Callable[[], Task], name: str, shapes: list[tuple[str, dict[str, int]]], seed: int) -> list[Case]:
    """Build cases: the first shape with every type of mask, each other shape once."""
    (first, sizes), *others = shapes
    B, T, H = 3, 7, sizes["n_heads"]

    def case(label: str, n: int, T: int, sizes: dict[str, int], *more: Tensor, **kwargs: Any) -> Case:
        x = drawn(seed + n, B, T, sizes["d_model"])
        return module_case(label, task().right, name, sizes, seed + n, *more, x, **kwargs)

    return [
        case(f"{first}, mask = None: causal", 0, T, sizes),
        case("mask (T, T)", 1, T, sizes, mask=random_mask(seed + 50, T, T)),
        case("mask (B, 1, T, T): causal and padding", 2, T, sizes,
             mask=padding_mask(B, T)[:, None, None].flip(-1) & causal(T)),
        case("mask (B, 1, 1, T): padding", 3, T, sizes, mask=padding_mask(B, T)[:, None, None]),
        case("mask (B, H, T, T), one query of each head fully masked", 4, T, sizes,
             mask=random_mask(seed + 51, B, H, T, T, empty=True)),
        case("mask (T, T), one query fully masked", 5, T, sizes, mask=random_mask(seed + 52, T, T, empty=True)),
        case("T = 1", 6, 1, sizes),
        case("large scores", 7, T, sizes, factors={"q_proj.weight": FAR}, tolerance=FAR_TOLERANCE),
        case("5 tokens, then 11 with the same module, and with another one", 8, 11, sizes,
             drawn(seed + 53, B, 5, sizes["d_model"])),
        *(case(label, 9 + n, 11, other) for n, (label, other) in enumerate(others)),
    ]  # fmt: skip


def _mha(**options: Any) -> dict[str, Any]:
    return _module("MultiHeadAttention", MultiHeadAttention, **options)


def _mha_cases(seed: int) -> list[Case]:
    shapes = [("d_model = 65, 5 heads", {"d_model": 65, "n_heads": 5}), ("one head", {"d_model": 17, "n_heads": 1})]
    return _many_cases(lambda: MULTI_HEAD, "MultiHeadAttention", shapes, seed)


MULTI_HEAD = Task(
    "mha",
    f'''"""Causal multi-head attention with projections q_proj, k_proj, v_proj, o_proj (no bias).

x (B, T, d_model) -> (B, T, d_model). B batch, T tokens, H = n_heads. head_dim = d_model / n_heads;
head h is columns h·head_dim to (h + 1)·head_dim - 1 of a projection's output.
The check sets the weights by these names.
{OF_ALL_HEADS}
"""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.o_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None):
        raise NotImplementedError
''',
    _mha(),
    _mha_cases,
    _mha,
    (
        BY_D_MODEL,
        *WRONG_SCORES,
        *WRONG_MASKS,
        *SOFTMAX_OVER_HEADS,
        MASK_OF_ONE_HEAD,
        *WRONG_CAUSAL_MASKS,
        *WRONG_SHAPES,
        *OVERFLOW,
        KEYS_FOR_VALUES,
        NO_OUTPUT_PROJECTION,
    ),
)


def gqa(**options: Any) -> dict[str, Any]:
    return _module("GroupedQueryAttention", GroupedQueryAttention, **options)


def _gqa_cases(seed: int) -> list[Case]:
    shapes = [
        ("d_model = 66, 6 query heads, 3 KV heads", {"d_model": 66, "n_heads": 6, "n_kv_heads": 3}),
        ("10 query heads, 2 KV heads", {"d_model": 70, "n_heads": 10, "n_kv_heads": 2}),
        ("K = H: MHA", {"d_model": 65, "n_heads": 5, "n_kv_heads": 5}),
        ("K = 1: MQA", {"d_model": 65, "n_heads": 5, "n_kv_heads": 1}),
    ]
    return _many_cases(lambda: GROUPED_QUERY, "GroupedQueryAttention", shapes, seed)


GROUPED_QUERY = Task(
    "gqa",
    f'''"""Grouped-query attention with projections q_proj, k_proj, v_proj, o_proj (no bias).

x (B, T, d_model) -> (B, T, d_model). B batch, T tokens, H = n_heads. head_dim = d_model / n_heads;
query head h reads KV head h // (n_heads / n_kv_heads).
The check sets the weights by these names.
{OF_ALL_HEADS}
"""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__()
        head_dim = d_model // n_heads
        self.q_proj = nn.Linear(d_model, n_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(d_model, n_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(d_model, n_kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(n_heads * head_dim, d_model, bias=False)

    def forward(self, x, mask=None):
        raise NotImplementedError
''',
    gqa(),
    _gqa_cases,
    gqa,
    (
        TILED,
        *HALF_TILED,
        BY_D_MODEL,
        *WRONG_SCORES,
        *WRONG_MASKS,
        *SOFTMAX_OVER_HEADS,
        MASK_OF_ONE_HEAD,
        *WRONG_CAUSAL_MASKS,
        *WRONG_SHAPES,
        *OVERFLOW,
        KEYS_FOR_VALUES,
        NO_OUTPUT_PROJECTION,
    ),
)
