"""Tiled (flash) attention of one head. T queries, S keys, D head_dim."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnviz.experiments.tiles import tiled_attention
from attnviz.practice.task import Case, Mistaken, Task, function_case
from attnviz.practice.tasks.inputs import FAR_TOLERANCE, causal, drawn, far_scores, random_mask

MANY_QUERIES, MANY_KEYS = 1009, 270_001  # 1.1 GB of scores, more than the limit
LARGE_TILE = 8209  # 33 tiles: a loop over queries and tiles takes seconds, not half a minute


def _flash(q: Tensor, k: Tensor, v: Tensor, block: int, mask: Tensor | None = None) -> Tensor:
    allowed = causal(len(q)) if mask is None else mask
    return tiled_attention(q, k, v, allowed.expand(len(q), len(k)), block, q.shape[-1] ** -0.5)


def _tiled(
    rescale_sum: bool = True, rescale_output: bool = True, offset: bool = True, first_maximum: float = -1e30,
    track_maximum: bool = True, guard: bool = True, empty: str = "zeros", divide: bool = True, leave_out: bool = False,
    scale: float = -0.5, add_tiles: bool = False, use_mask: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Build tiled attention; without options it is right.

    rescale_sum, rescale_output: to the new maximum. offset: of the causal mask of each tile. first_maximum: where the
    running maximum starts. track_maximum: False if no maximum is subtracted. guard: against −∞ − (−∞) as long as all
    keys are masked. empty: "NaN" or "average" for a fully masked query,
    "zeros for NaN" also for others. divide: by the sum. leave_out: the last tile
    if it is not full. scale: the power of D. add_tiles: each tile has a softmax of its own. use_mask: False if it is
    always causal.
    """

    def flash_attention(q: Tensor, k: Tensor, v: Tensor, block: int, mask: Tensor | None = None) -> Tensor:
        T, S = len(q), len(k)
        before, given = causal(T, S), None if mask is None or not use_mask else mask.expand(T, S)
        largest = q.new_full((T, 1), first_maximum if guard else -math.inf)
        total, output = q.new_zeros(T, 1), q.new_zeros(T, v.shape[1])
        for first in range(0, S - S % block if leave_out else S, block):
            part = slice(first, min(first + block, S))
            allowed = before[:, part if offset else slice(part.stop - first)] if given is None else given[:, part]
            masked = -1e9 if empty == "average" else -math.inf
            scores = (q @ k[part].mT * q.shape[-1] ** scale).masked_fill(~allowed, masked)  # (T, block)
            previous, largest = largest, torch.maximum(largest, scores.amax(-1, keepdim=True))  # (T, 1)
            shift = largest if track_maximum else torch.zeros_like(largest)
            factor = (previous - largest).exp() if track_maximum else torch.ones_like(largest)
            weights = (scores - shift).exp()
            if add_tiles:
                own = (scores - scores.amax(-1, keepdim=True).clamp_min(-1e30)).exp()  # (T, block)
                weights, factor = own / own.sum(-1, keepdim=True).clamp_min(1e-30), torch.ones_like(factor)
            total = total * (factor if rescale_sum else 1) + weights.sum(-1, keepdim=True)
            output = output * (factor if rescale_output else 1) + weights @ v[part]
        if add_tiles or not divide:
            return output
        output = output / (total if empty == "NaN" else total.masked_fill(total == 0, 1.0))
        return output.nan_to_num(0.0) if empty == "zeros for NaN" else output

    return {"flash_attention": flash_attention}


def _flash_cases(seed: int) -> list[Case]:
    def qkv(n: int, T: int, S: int, D: int) -> tuple[Tensor, Tensor, Tensor]:
        return drawn(seed + n, T, D), drawn(seed + n + 1, S, D), drawn(seed + n + 2, S, D)

    def case(label: str, n: int, T: int, S: int, D: int, block: int, **kwargs: Any) -> Case:
        return function_case(label, "flash_attention", *qkv(n, T, S, D), block, **kwargs)

    sign = 1 - 2.0 * (torch.arange(7) % 2)  # of the scores of each query: they rise from tile to tile, or fall
    growing = drawn(seed + 9, 7, 5), drawn(seed + 10, 23, 5), drawn(seed + 11, 23, 5)
    growing[0][:, 0], growing[1][:, 0] = 5**0.5 * sign, torch.arange(23.0)
    by_tile = random_mask(seed + 50, 7, 17)  # tiles of 3 keys: 0, 1, … 5
    by_tile[[0, 3], :3], by_tile[2, :9], by_tile[[3, 4], 6:12], by_tile[5, 9:] = False, False, False, False
    by_tile[0, 5] = by_tile[2, 9] = by_tile[3, 4] = by_tile[4, 1] = by_tile[5, 2] = True
    far = *far_scores(seed + 15, (), 7, 17, 5), drawn(seed + 17, 17, 5)
    return [
        case("mask = None: causal, tiles of 5", 0, 23, 23, 7, 5),
        function_case("scores that rise or fall from tile to tile", "flash_attention", *growing, 3,
                      mask=random_mask(seed + 51, 7, 23)),
        case("tiles that are fully masked for a query: the first, a later one", 3, 7, 17, 5, 3, mask=by_tile),
        case("a fully masked query: zeros", 6, 7, 11, 5, 3, mask=random_mask(seed + 52, 7, 11, empty=True)),
        function_case("scores near 1,000 and −1,000", "flash_attention", *far, 3, mask=by_tile,
                      tolerance=FAR_TOLERANCE),
        case("a tile larger than the text", 18, 7, 7, 5, 13),
        case("tiles of 1 key, mask (1, S)", 21, 5, 11, 3, 1, mask=random_mask(seed + 53, 5, 11)[1:2]),
        case("twice the same: the same output", 24, 7, 7, 5, 3, twice=True),
        case(f"{MANY_KEYS:,} keys: all scores at once would not fit into memory", 27, MANY_QUERIES, MANY_KEYS, 3,
             LARGE_TILE, mask=torch.ones(1, MANY_KEYS, dtype=torch.bool), large=True),
    ]  # fmt: skip


FLASH = Task(
    "flash",
    '''"""Attention of one head in tiles of keys, with an online softmax: no full row of scores is ever stored.

q (T, D), k and v (S, D) -> (T, D). block: keys per tile. mask: bool, True = may attend, (T, S) or (1, S);
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
    _tiled,
    (
        Mistaken("without rescaling the sum and the output when a later tile has a larger maximum",
                 {"rescale_sum": False, "rescale_output": False}),
        Mistaken("without rescaling the output when a later tile has a larger maximum: only the sum is rescaled",
                 {"rescale_output": False}),
        Mistaken("without rescaling the sum when a later tile has a larger maximum: only the output is rescaled",
                 {"rescale_sum": False}),
        Mistaken("with a causal mask that starts at key 0 in every tile, without the tile's offset", {"offset": False}),
        Mistaken("with a separate softmax per tile and the outputs added", {"add_tiles": True}),
        Mistaken("with NaN where the first tile of a query is fully masked: −∞ − (−∞) in the running maximum",
                 {"guard": False}, "fully_masked_row"),
        Mistaken("with zeros where the first tile of a query is fully masked: the query is given up, or NaN "
                 "replaced by 0",
                 {"guard": False, "empty": "zeros for NaN"}, "fully_masked_row"),
        Mistaken("with a maximum above a query's own scores (it starts at 0 instead of −∞, or all queries share one), "
                 "so that the weights of very negative scores become 0", {"first_maximum": 0.0}),
        Mistaken("without subtracting the maximum, so that large scores overflow", {"track_maximum": False}),
        Mistaken("with NaN for a fully masked query: 0 / 0", {"empty": "NaN"}, "fully_masked_row"),
        Mistaken("with the average of all values for a fully masked query (a large negative number instead of −∞)",
                 {"empty": "average"}, "fully_masked_row"),
        Mistaken("without the division by the sum at the end", {"divide": False}),
        Mistaken("without the last tile where it is smaller than block", {"leave_out": True}),
        Mistaken("without the division by √D", {"scale": 0.0}),
        Mistaken("with scores divided by D instead of √D", {"scale": -1.0}),
        Mistaken("with the causal mask always, ignoring the argument mask", {"use_mask": False}),
    ),
)  # fmt: skip
