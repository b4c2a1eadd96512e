"""The attention tasks: scaled dot-product, single-head, MHA, GQA, and tiled attention.

B batch, T query tokens, S key tokens, C d_model, H query heads, K KV heads, D head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnviz.experiments.tiles import tiled_attention
from attnviz.modules import GroupedQueryAttention, MultiHeadAttention, SelfAttention
from attnviz.modules.attention import Attended, attend
from attnviz.practice.task import Case, Mistaken, Task, function_case, module_case


def causal(T: int, S: int | None = None, shift: int = 0) -> Tensor:
    """Return the causal mask, bool (T, S), True = may attend; S = T by default. shift: keys seen further on."""
    return torch.ones(T, S or T, dtype=torch.bool).tril(shift)


def drawn(seed: int, *shape: int) -> Tensor:
    """Draw standard normal numbers from the seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def mask_with_an_empty_row(seed: int, *shape: int) -> Tensor:
    """Draw a mask in which each query may attend to itself and about half of the keys, and query 2 is fully masked."""
    mask = drawn(seed, *shape) > 0
    mask |= torch.eye(shape[-2], shape[-1], dtype=torch.bool)
    mask[..., 2, :] = False
    return mask


Kernel = Callable[..., Attended]


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


def attend_with(
    scale: Callable[[int, int], float] = lambda H, D: D**-0.5,
    change_mask: Callable[[Tensor], Tensor] = lambda mask: mask,
    order: Callable[[int, int], list[int]] = interleaved,
    order_of_values: Callable[[int, int], list[int]] | None = None,
    mask_after: bool = False,
    masked_score: float = -math.inf,
    axis: int = -1,
    empty: Callable[[Tensor, Tensor], Tensor] = zeros,
    swapped: bool = False,
) -> Kernel:
    """Build an attention kernel with mistakes: the factor on the scores, a change of the mask, the KV head that each
    query head reads, also if it differs for the values, masking after the softmax, the score of masked keys, the axis
    of the softmax, the weights of a fully masked query, q and k swapped."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **_: Any) -> Attended:
        H, K, D = q.shape[1], k.shape[1], q.shape[3]
        k, v = k[:, order(H, K)], v[:, (order_of_values or order)(H, K)]
        scores = (k @ q.mT if swapped else q @ k.mT) * scale(H, D)  # (B, H, T, S), (B, H, S, T) if swapped
        allowed = change_mask(torch.ones((), dtype=torch.bool) if mask is None else mask)
        if mask_after:
            weights = scores.softmax(axis) * allowed
        else:
            weights = empty(scores.masked_fill(~allowed, masked_score).softmax(axis), allowed)
        return Attended(weights @ v, weights)

    return kernel


def _also_causal(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **_: Any) -> Attended:
    before = causal(q.shape[2], k.shape[2])
    return attend(q, k, v, before if mask is None else mask & before)


def always(fixed: Callable[[int, int], Tensor]) -> Kernel:
    """Build a kernel that uses the mask of T and S in place of the given one."""

    def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **_: Any) -> Attended:
        return attend_with()(q, k, v, fixed(q.shape[2], k.shape[2]))

    return kernel


def _everything(mask: Tensor) -> Tensor:
    return torch.ones_like(mask)


MASK_IGNORED = "with the causal mask always, ignoring the argument mask"
EMPTY = (zeros, unchanged, zeros_for_nan)
WRONG_KERNELS: tuple[tuple[str, str, Kernel], ...] = (
    ("without the division by √head_dim", "", attend_with(scale=lambda H, D: 1.0)),
    ("with scores divided by head_dim instead of √head_dim", "", attend_with(scale=lambda H, D: 1 / D)),
    ("with the mask never used", "mask_never_used", attend_with(change_mask=_everything)),
    ("with the mask inverted, so that True masks a key", "", attend_with(change_mask=torch.logical_not)),
    ("with the causal mask applied too where a mask is given, which replaces it", "", _also_causal),
    (MASK_IGNORED, "", always(causal)),
    ("with the mask applied after the softmax, so that rows do not sum to 1", "mask_after_softmax",
     attend_with(mask_after=True)),
    ("with NaN for a fully masked query (a row of −∞ before the softmax)", "fully_masked_row",
     attend_with(empty=unchanged)),
    ("with the average of all values for a fully masked query (a large negative number instead of −∞)",
     "fully_masked_row", attend_with(masked_score=-1e9, empty=unchanged)),
    *(("with scores of 0 instead of −∞ for masked keys, so that they keep a weight", "",
       attend_with(masked_score=0.0, empty=empty)) for empty in (unchanged, zeros)),
    *(("with the softmax over the queries instead of the keys", "softmax_over_queries",
       attend_with(axis=-2, empty=empty)) for empty in EMPTY),
    ("with q and k swapped in the scores: k · qᵀ instead of q · kᵀ", "", attend_with(swapped=True)),
)  # fmt: skip
OVER_HEADS = tuple(("with the softmax over the heads instead of the keys", "", attend_with(axis=1, empty=empty))
                   for empty in EMPTY)  # fmt: skip
BY_D_MODEL = ("with scores divided by √d_model instead of √head_dim", "scale_by_d_model",
              attend_with(scale=lambda H, D: (H * D) ** -0.5))  # fmt: skip
TILED = ("with the KV heads tiled (0 1 0 1) instead of interleaved (0 0 1 1)", "tiled_kv_heads",
         attend_with(order=tiled))  # fmt: skip
HALF_TILED = (
    ("with the values tiled (0 1 0 1), but the keys interleaved (0 0 1 1)", "",
     attend_with(order_of_values=tiled)),
    ("with the keys tiled (0 1 0 1), but the values interleaved (0 0 1 1)", "",
     attend_with(order=tiled, order_of_values=interleaved)),
)  # fmt: skip
MASKS_WITH_MORE_KEYS: tuple[Callable[[int, int], Tensor], ...] = (  # in place of a given one with S > T
    lambda T, S: causal(T, S, S - T),
    lambda T, S: causal(T),  # raises
)
WRONG_CAUSAL_MASKS: tuple[tuple[str, str, Callable[[int], Tensor]], ...] = (
    ("without a causal mask if mask is None", "mask_never_used", lambda T: causal(T, shift=T)),
    ("with tril(-1) as causal mask: a token does not attend to itself", "", lambda T: causal(T, shift=-1)),
    ("with tril(1) as causal mask: a token attends to the next one too", "", lambda T: causal(T, shift=1)),
    ("with triu() as causal mask: a token attends to itself and later ones", "", lambda T: causal(T).mT),
)


def _function(kernel: Kernel, before: Callable[[int], Tensor] = causal) -> dict[str, Any]:
    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return kernel(q, k, v, before(q.shape[2]) if mask is None else mask).output

    return {"attention": attention}


def _attention_cases(seed: int) -> list[Case]:
    B, H, T, S, D = 2, 3, 7, 11, 5

    def qkv(n: int, T: int, S: int) -> tuple[Tensor, Tensor, Tensor]:
        return drawn(seed + n, B, H, T, D), drawn(seed + n + 1, B, H, S, D), drawn(seed + n + 2, B, H, S, D)

    return [
        function_case("mask = None: causal", "attention", *qkv(0, T, T)),
        function_case("mask (T, S), more keys than queries", "attention", *qkv(3, T, S), mask=drawn(seed, T, S) > -1),
        function_case("mask (B, 1, T, S)", "attention", *qkv(6, T, S), mask=drawn(seed + 1, B, 1, T, S) > -1),
        function_case(
            "a fully masked query: zeros", "attention", *qkv(9, T, T),
            mask=mask_with_an_empty_row(seed + 2, B, H, T, T),
        ),
        function_case("T = 1", "attention", *qkv(12, 1, 1)),
        function_case("large scores", "attention", *(8 * each for each in qkv(15, T, T))),
    ]  # fmt: skip


INTERFACE = """\
mask: bool, True = may attend, {}; None = causal.
A given mask replaces the causal one. For a fully masked query, return zeros (not NaN)."""
OF_ALL_HEADS = INTERFACE.format("two- or four-dimensional and broadcastable to (B, H, T, T)")

SCALED_DOT_PRODUCT = Task(
    "attention",
    "Scaled dot-product attention",
    f'''"""Scaled dot-product attention: softmax(q · kᵀ / √D) · v.

q (B, H, T, D), k and v (B, H, S, D) -> (B, H, T, D). B batch, H heads, T queries, S keys, D head_dim.
{INTERFACE.format("two- or four-dimensional and broadcastable to (B, H, T, S)")} If mask is None, T equals S.
"""

import torch


def attention(q, k, v, mask=None):
    raise NotImplementedError
''',
    _function(attend),
    _attention_cases,
    (
        *(Mistaken(explanation, _function(kernel), mistake)
          for explanation, mistake, kernel in (*WRONG_KERNELS, *OVER_HEADS)),
        *(Mistaken(MASK_IGNORED, _function(always(fixed))) for fixed in MASKS_WITH_MORE_KEYS),
        *(Mistaken(explanation, _function(attend, before), mistake)
          for explanation, mistake, before in WRONG_CAUSAL_MASKS),
    ),
)  # fmt: skip


def _module(
    name: str, base: Any, kernel: Kernel | None = None, *, no_transpose: bool = False,
    before: Callable[[int], Tensor] | None = None,
) -> dict:  # fmt: skip
    """Build the module under the task's name, with the task's forward(x, mask=None).

    no_transpose: heads are merged without transposing first. before: the mask of T tokens for mask=None.
    """

    def forward(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None and before:
            mask = before(x.shape[1])
        if not no_transpose:
            return base.forward(self, x, mask=mask, causal=mask is None, kernel=kernel)
        project, heads = self.o_proj, []

        def record(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **_: Any) -> Attended:
            heads.append(attend(q, k, v, mask))
            return heads[0]

        base.forward(self, x, mask=mask, causal=mask is None, kernel=record)
        return project(heads[0].output.reshape(*x.shape[:2], -1))

    return {name: type(name, (base,), {"forward": forward})}


def _split_wrongly(name: str, base: Any, split: Callable[[Tensor, int], Tensor]) -> dict:
    """Build the module with another split of a projection's output (B, T, H·D) into H heads."""

    def forward(self: Any, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            split(self.q_proj(x), self.n_heads),
            *(split(p(x), self.n_kv_heads) for p in (self.k_proj, self.v_proj)),
        )
        output = attend(q, k, v, causal(x.shape[1]) if mask is None else mask).output
        return self.o_proj(output.transpose(1, 2).reshape(*x.shape[:2], -1))

    return {name: type(name, (base,), {"forward": forward})}


SPLITS: tuple[tuple[str, Callable[[Tensor, int], Tensor]], ...] = (
    ("with view(B, H, T, D) of the projections instead of view(B, T, H, D) and transpose(1, 2)",
     lambda x, H: x.reshape(x.shape[0], H, x.shape[1], -1)),
    ("with head h in columns h, h + H, …, instead of columns that lie together",
     lambda x, H: x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2)),
)  # fmt: skip


def _module_mistakes(name: str, base: Any, kernels: tuple[tuple[str, str, Kernel], ...]) -> tuple[Mistaken, ...]:
    found = [Mistaken(explanation, _module(name, base, kernel), mistake) for explanation, mistake, kernel in kernels]
    found += [
        Mistaken(explanation, _module(name, base, before=before), mistake)
        for explanation, mistake, before in WRONG_CAUSAL_MASKS
    ]
    if not issubclass(base, SelfAttention):
        explanation = "with reshape(B, T, C) of the heads' output without transpose(1, 2) first"
        found.append(Mistaken(explanation, _module(name, base, no_transpose=True), "reshape_without_transpose"))
        found += [Mistaken(explanation, _split_wrongly(name, base, split)) for explanation, split in SPLITS]
    return tuple(found)


class _OneHead(SelfAttention):
    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__(d_in, d_out)


def _self_cases(seed: int) -> list[Case]:
    right = SELF_ATTENTION.right

    def case(label: str, n: int, T: int, d_in: int, d_out: int, **kwargs: Any) -> Case:
        x, sizes = drawn(seed + n, 2, T, d_in), {"d_in": d_in, "d_out": d_out}
        return module_case(label, right, "SelfAttention", sizes, seed + n, x, **kwargs)

    return [
        case("mask = None: causal", 0, 7, 13, 5),
        case("mask (T, T)", 1, 7, 13, 5, mask=drawn(seed, 7, 7).fill_diagonal_(1) > 0),
        case(
            "mask (B, 1, 1, T): padding", 2, 7, 13, 17, mask=(torch.arange(7) < torch.tensor([[7], [4]]))[:, None, None]
        ),
        case("a fully masked query: zeros", 3, 7, 13, 5, mask=mask_with_an_empty_row(seed, 7, 7)),
        case("T = 1", 4, 1, 13, 5),
    ]


SELF_ATTENTION = Task(
    "self-attention",
    "Single-head self-attention",
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
    _module("SelfAttention", _OneHead),
    _self_cases,
    _module_mistakes("SelfAttention", _OneHead, WRONG_KERNELS),
)


def _many_cases(task: Callable[[], Task], name: str, shapes: list[tuple[str, dict[str, int]]], seed: int) -> list[Case]:
    """Build cases: the first shape with every type of mask, each other shape once."""
    (first, sizes), *others = shapes
    B, T, H = 3, 7, sizes["n_heads"]

    def case(label: str, n: int, T: int, sizes: dict[str, int], **kwargs: Any) -> Case:
        x = drawn(seed + n, B, T, sizes["d_model"])
        return module_case(label, task().right, name, sizes, seed + n, x, **kwargs)

    padding = (torch.arange(T) < torch.tensor([[7], [4], [5]]))[:, None, None] & causal(T)
    return [
        case(f"{first}, mask = None: causal", 0, T, sizes),
        case("mask (T, T)", 1, T, sizes, mask=drawn(seed, T, T).fill_diagonal_(1) > 0),
        case("mask (B, 1, T, T): causal and padding", 2, T, sizes, mask=padding),
        case("mask (B, H, T, T), one query fully masked", 3, T, sizes,
             mask=mask_with_an_empty_row(seed, B, H, T, T)),
        case("T = 1", 4, 1, sizes),
        *(case(label, 5 + n, 11, other) for n, (label, other) in enumerate(others)),
    ]  # fmt: skip


def _mha_cases(seed: int) -> list[Case]:
    shapes = [("d_model = 65, 5 heads", {"d_model": 65, "n_heads": 5}), ("one head", {"d_model": 13, "n_heads": 1})]
    return _many_cases(lambda: MULTI_HEAD, "MultiHeadAttention", shapes, seed)


MULTI_HEAD = Task(
    "mha",
    "Causal multi-head attention",
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
    _module("MultiHeadAttention", MultiHeadAttention),
    _mha_cases,
    _module_mistakes("MultiHeadAttention", MultiHeadAttention, (BY_D_MODEL, *WRONG_KERNELS, *OVER_HEADS)),
)


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
    "Grouped-query attention",
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
    _module("GroupedQueryAttention", GroupedQueryAttention),
    _gqa_cases,
    _module_mistakes(
        "GroupedQueryAttention", GroupedQueryAttention, (TILED, *HALF_TILED, BY_D_MODEL, *WRONG_KERNELS, *OVER_HEADS)
    ),
)


def _flash(q: Tensor, k: Tensor, v: Tensor, block: int, mask: Tensor | None = None) -> Tensor:
    allowed = causal(len(q)) if mask is None else mask
    return tiled_attention(q, k, v, allowed.expand(len(q), len(k)), block, q.shape[-1] ** -0.5)


def _tiled(rescale_sum: bool = True, rescale_output: bool = True, offset: bool = True) -> dict[str, Any]:
    """Build tiled attention with mistakes: sum or output not rescaled to the new maximum, a causal mask of each tile
    that starts at key 0."""

    def flash_attention(q: Tensor, k: Tensor, v: Tensor, block: int, mask: Tensor | None = None) -> Tensor:
        T, S = len(q), len(k)
        largest, total, output = q.new_full((T, 1), -1e30), q.new_zeros(T, 1), q.new_zeros(T, v.shape[1])
        for first in range(0, S, block):
            part = slice(first, first + block)
            before = causal(T, S)[:, part if offset else slice(len(k[part]))]
            allowed = before if mask is None else mask.expand(T, S)[:, part]
            scores = (q @ k[part].mT * q.shape[-1] ** -0.5).masked_fill(~allowed, -math.inf)  # (T, block)
            previous, largest = largest, torch.maximum(largest, scores.amax(-1, keepdim=True))  # (T, 1)
            factor, weights = (previous - largest).exp(), (scores - largest).exp()
            total = total * (factor if rescale_sum else 1) + weights.sum(-1, keepdim=True)
            output = output * (factor if rescale_output else 1) + weights @ v[part]
        return output / total.masked_fill(total == 0, 1.0)

    return {"flash_attention": flash_attention}


def _softmax_per_tile(q: Tensor, k: Tensor, v: Tensor, block: int, mask: Tensor | None = None) -> Tensor:
    allowed = (causal(len(q)) if mask is None else mask).expand(len(q), len(k))
    output = q.new_zeros(len(q), v.shape[1])
    for first in range(0, len(k), block):
        part = slice(first, first + block)
        output += attend(q[None, None], k[None, None, part], v[None, None, part], allowed[:, part]).output[0, 0]
    return output


MANY_QUERIES, MANY_KEYS = 1009, 270_001  # 1.1 GB of scores, more than the limit
LARGE_TILE = 8209  # 33 tiles: a loop over queries and tiles takes seconds, not half a minute


def _flash_cases(seed: int) -> list[Case]:
    def qkv(n: int, T: int, S: int, D: int) -> tuple[Tensor, Tensor, Tensor]:
        return drawn(seed + n, T, D), drawn(seed + n + 1, S, D), drawn(seed + n + 2, S, D)

    growing = drawn(seed + 9, 7, 5), torch.arange(1.0, 24)[:, None] * drawn(seed + 10, 1, 5), drawn(seed + 11, 23, 5)
    return [
        function_case("mask = None: causal, tiles of 5", "flash_attention", *qkv(0, 23, 23, 7), 5),
        function_case("scores that grow from tile to tile", "flash_attention", *growing, 3,
                      mask=drawn(seed, 7, 23) > -2),
        function_case("a fully masked query: zeros", "flash_attention", *qkv(3, 7, 11, 5), 3,
                      mask=mask_with_an_empty_row(seed, 7, 11)),
        function_case("a tile larger than the text", "flash_attention", *qkv(6, 7, 7, 5), 13),
        function_case(f"{MANY_KEYS:,} keys: all scores at once would not fit into memory", "flash_attention",
                      *qkv(12, MANY_QUERIES, MANY_KEYS, 3), LARGE_TILE, mask=torch.ones(1, MANY_KEYS, dtype=torch.bool),
                      large=True),
    ]  # fmt: skip


FLASH = Task(
    "flash",
    "Tiled (flash) attention",
    '''"""Attention of one head in tiles of keys, with an online softmax: no full row of scores is ever stored.

q (T, D), k and v (S, D) -> (T, D). block: keys per tile. mask: bool, True = may attend, broadcastable to (T, S);
None = causal. For a fully masked query, return zeros. The last check has so many keys that T · S scores do not fit into
the 1 GiB that a file may use. (Whole rows of a few queries at a time fit: the check cannot see that these are no tiles
of keys.)
"""

import torch


def flash_attention(q, k, v, block, mask=None):
    raise NotImplementedError
''',
    {"flash_attention": _flash},
    _flash_cases,
    (
        Mistaken("without rescaling the sum and the output when a later tile has a larger maximum",
                 _tiled(rescale_sum=False, rescale_output=False)),
        Mistaken("without rescaling the output when a later tile has a larger maximum: only the sum is rescaled",
                 _tiled(rescale_output=False)),
        Mistaken("without rescaling the sum when a later tile has a larger maximum: only the output is rescaled",
                 _tiled(rescale_sum=False)),
        Mistaken("with a causal mask that starts at key 0 in every tile, without the tile's offset",
                 _tiled(offset=False)),
        Mistaken("with a separate softmax per tile and the outputs added",
                 {"flash_attention": _softmax_per_tile}),
    ),
)  # fmt: skip
