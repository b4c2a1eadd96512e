"""The task of top-p sampling. V vocab_size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnviz.decode.sampling import keep_top_p
from attnviz.practice.task import Case, Mistaken, Task, function_case
from attnviz.practice.tasks.inputs import drawn

TOLERANCE = 1e-6
NEAR = 2e-5  # more than float32 is off in a sum of probabilities, and less than half precision can be


def _kept(order: Tensor, keep: Tensor) -> Tensor:
    return torch.zeros_like(keep).scatter(-1, order, keep)


Choose = Callable[[Tensor, Tensor, float], Tensor]  # probabilities in order and their cumulative sum, p -> bool (V,)


def _fewest(ordered: Tensor, sums: Tensor, p: float) -> Tensor:
    """Choose, of probabilities in order, the fewest whose sum reaches p."""
    return sums - ordered < p


def _top_p(
    choose: Choose = _fewest,
    descending: bool = True,
    with_equal: bool = False,
    finish: Callable[[Tensor, Tensor], Tensor] = lambda logits, kept: logits.masked_fill(~kept, -torch.inf).softmax(-1),
    sorted_output: bool = False,
    used_p: Callable[[float], float] = lambda p: p,
) -> dict[str, Any]:
    """Build top-p; without options it is right.

    choose: which of the sorted tokens are kept. descending: their order. with_equal: all tokens as probable as the last
    kept one are kept too. finish: the probabilities, of logits and kept tokens. used_p: of the given p.
    """

    def top_p(logits: Tensor, p: float) -> Tensor:
        logits = logits.sort(descending=True).values if sorted_output else logits
        ordered, order = logits.softmax(-1).double().sort(descending=descending)
        kept = _kept(order, choose(ordered, ordered.cumsum(-1), used_p(p)))
        if with_equal:
            kept = logits >= logits[kept].min()
        return finish(logits, kept)

    return {"top_p": top_p}


def _before(reaches: Callable[[Tensor, float], Tensor], at_least: int = 0) -> Choose:
    """Choose the tokens before the sum reaches p, and at least so many: without one, all become NaN."""

    def choose(ordered: Tensor, sums: Tensor, p: float) -> Tensor:
        keep = ~reaches(sums, p)
        keep[:at_least] = True
        return keep

    return choose


def _one_more(ordered: Tensor, sums: Tensor, p: float) -> Tensor:
    keep = _fewest(ordered, sums, p)
    keep[1:] |= keep[:-1].clone()
    return keep


def _above_p(ordered: Tensor, sums: Tensor, p: float) -> Tensor:
    keep = ordered >= 1 - p
    keep[0] = True
    return keep


def _right_top_p(logits: Tensor, p: float) -> Tensor:
    return keep_top_p(logits, p).softmax(-1)


def _clear(logits: Tensor, p: float) -> Tensor:
    """Scale the logits until no cumulative sum is so close to p that rounding would decide."""
    while float((logits.softmax(-1).sort(descending=True).values.cumsum(-1) - p).abs().min()) < 1e-3:
        logits = logits * 1.01
    return logits


def _near(seed: int, side: int) -> tuple[Tensor, float]:
    """Draw logits and p near one of their cumulative sums, on the other side of which it is in float16 and bfloat16.

    side: 1 if the sum is above p, −1 if it is below.
    """
    for n in count():
        logits = 0.3 * drawn(seed + 1000 * n, 53)
        order = logits.argsort(descending=True)
        sums = logits.double().softmax(-1)[order].cumsum(-1)
        halves = [
            probabilities.double()[order].cumsum(-1)
            for dtype in (torch.float16, torch.bfloat16)
            for probabilities in (logits.to(dtype).softmax(-1), logits.softmax(-1).to(dtype))
        ]
        least = torch.stack([side * (sums - each) for each in halves]).amin(0)[:-1]  # (V - 1,), of all by how much
        if float(least.max()) > NEAR:
            at = int(least.argmax())
            return logits, float(sums[at]) - side * NEAR / 2
    raise AssertionError


def _top_p_cases(seed: int) -> list[Case]:
    def case(label: str, logits: Tensor, p: float) -> Case:
        return function_case(label, "top_p", logits, p, tolerance=TOLERANCE)

    def clear(label: str, n: int, V: int, p: float, spread: float = 1.0, shift: float = 0.0) -> Case:
        return case(label, _clear(spread * drawn(seed + n, V), p) + shift, p)

    return [
        clear("13 tokens, p = 0.5", 0, 13, 0.5),
        clear("97 tokens, p = 0.9", 1, 97, 0.9),
        clear("the most probable token alone exceeds p", 2, 7, 0.02, 3.0),
        case("one token with probability near 1", 40.0 * F.one_hot(torch.tensor(5), 11).float(), 0.9),
        case("p = 1 keeps every token", drawn(seed + 4, 17), 1.0),
        clear("1,009 tokens, p = 0.3", 5, 1009, 0.3, 2.0),
        clear("logits near 1,000", 6, 19, 0.7, shift=1000.0),
        clear("logits near −1,000", 7, 19, 0.7, shift=-1000.0),
        case("a sum just above p, which half precision takes for less", *_near(seed + 8, 1)),
        case("a sum just below p, which half precision takes for more", *_near(seed + 9, -1)),
        replace(case("4 equal logits, p = 0.5: any 2 tokens, shown in descending order",
                     drawn(seed + 10, 1).repeat(4), 0.5), any_order=True),
    ]  # fmt: skip


TOP_P = Task(
    "top-p",
    '''"""Top-p: the probabilities of the next token after the filter.

logits (V,), 0 < p <= 1 -> (V,). Keep the fewest tokens, most probable first, whose probabilities sum to at least p
(at least one token; of equal ones, any). Set the others to 0 and renormalise the remaining ones to sum to 1.
"""

import torch


def top_p(logits, p):
    raise NotImplementedError
''',
    {"top_p": _right_top_p},
    _top_p_cases,
    _top_p,
    (
        *(Mistaken("without the token at which the sum reaches p", {"choose": _before(torch.ge, n)}) for n in (0, 1)),
        *(Mistaken("without the token at which the sum exceeds p", {"choose": _before(torch.gt, n)}) for n in (0, 1)),
        Mistaken("with one token too many", {"choose": _one_more}),
        Mistaken("with one more token if the sum equals p: <= p instead of < p",
                 {"choose": lambda ordered, sums, p: sums - ordered <= p}),
        Mistaken("with every token as probable as the last one kept", {"with_equal": True}),
        Mistaken("with the least probable tokens kept first", {"descending": False}),
        Mistaken("with logits of 0 instead of −∞ for removed tokens before the softmax",
                 {"finish": lambda logits, kept: (logits * kept).softmax(-1)}),
        Mistaken("without renormalising the remaining probabilities",
                 {"finish": lambda logits, kept: logits.softmax(-1) * kept}),
        Mistaken("with a softmax of the remaining probabilities instead of their renormalisation",
                 {"finish": lambda logits, kept: (logits.softmax(-1) * kept).softmax(-1)}),
        Mistaken("in sorted order instead of the vocabulary's order", {"sorted_output": True}),
        Mistaken("with a threshold of 1 − p on each probability instead of p on their sum", {"choose": _above_p}),
        Mistaken("with 1 − p instead of p", {"used_p": lambda p: 1 - p}),
    ),
)  # fmt: skip
