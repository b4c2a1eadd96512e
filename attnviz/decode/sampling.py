"""Sample the next token from logits: one function per filter, in the order of transformers' `generate`.

    repetition penalty -> temperature -> top-k -> top-p -> min-p -> draw

A filter maps logits (V,) to logits (V,) and sets removed tokens to -inf. V vocab_size.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from attnviz.checks import ConfigError, number, whole


@dataclass(frozen=True)
class Sampling:
    """Sampling settings. temperature = 0 is greedy; None and 1.0 switch a filter off."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        number("temperature", self.temperature, 0, 100)
        if self.top_k is not None:
            whole("top_k", self.top_k)
        for name in ("top_p", "min_p"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), 0, 1)
        number("repetition_penalty", self.repetition_penalty, 0, 100)
        if self.repetition_penalty == 0:
            raise ConfigError("repetition_penalty must be above 0 (1 changes nothing), not 0")
        whole("seed", self.seed, low=0, high=2**63 - 1)


class Stage(NamedTuple):
    """The distribution of the next token after one filter."""

    name: str
    probabilities: Tensor  # (V,) float64, sums to 1


def penalise_repetition(logits: Tensor, ids: Sequence[int], penalty: float) -> Tensor:
    """Divide positive logits of tokens already in the text by the penalty and multiply negative ones.

    CTRL (arXiv 1909.05858) divides all of them, which makes a token with a negative logit likelier; transformers
    multiplies those.
    """
    seen = torch.tensor(sorted(set(ids)))
    score = logits[seen]
    return logits.index_copy(0, seen, torch.where(score < 0, score * penalty, score / penalty))  # (V,)


def scale_by_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Divide the logits: below 1 the distribution gets sharper, above 1 flatter."""
    return logits / temperature  # (V,)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k largest logits, and those equal to the k-th."""
    kth = logits.topk(min(k, len(logits))).values[-1]
    return logits.masked_fill(logits < kth, -math.inf)  # (V,)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest tokens whose probabilities sum to at least p, most probable first (nucleus sampling,
    arXiv 1904.09751), at least one."""
    ascending, order = logits.sort()  # (rank,) each
    cumulative = ascending.softmax(-1).cumsum(-1)  # (rank,)
    remove = cumulative <= 1 - p  # (rank,), the least probable tokens, as long as they sum to at most 1 - p
    remove[-1] = False  # (rank,)
    return logits.masked_fill(remove[order.argsort()], -math.inf)  # (V,)


def keep_min_p(logits: Tensor, p: float) -> Tensor:
    """Keep the tokens at least p times as probable as the most probable one (arXiv 2407.01082)."""
    probabilities = logits.softmax(-1)  # (V,)
    remove = probabilities < p * probabilities.max()  # (V,)
    remove[probabilities.argmax()] = False  # (V,); keeps the most probable token at p = 1 despite rounding
    return logits.masked_fill(remove, -math.inf)  # (V,)


def keep_largest(logits: Tensor) -> Tensor:
    """Keep one token, the first with the largest logit: greedy decoding."""
    only = torch.full_like(logits, -math.inf)  # (V,)
    only[logits.argmax()] = 0.0  # (V,)
    return only


def stages(logits: Tensor, ids: Sequence[int], sampling: Sampling) -> list[Stage]:
    """Return the distribution before any filter and after each active filter. ids: the text so far."""
    passed = [Stage("model", _probabilities(logits))]

    def then(name: str, filtered: Tensor) -> Tensor:
        passed.append(Stage(name, _probabilities(filtered)))
        return filtered

    if sampling.repetition_penalty != 1:
        logits = then("repetition penalty", penalise_repetition(logits, ids, sampling.repetition_penalty))
    if sampling.temperature == 0:
        then("greedy", keep_largest(logits))
        return passed
    if sampling.temperature != 1:
        logits = then("temperature", scale_by_temperature(logits, sampling.temperature))
    if sampling.top_k is not None:
        logits = then("top-k", keep_top_k(logits, sampling.top_k))
    if sampling.top_p is not None and sampling.top_p < 1:
        logits = then("top-p", keep_top_p(logits, sampling.top_p))
    if sampling.min_p is not None:
        logits = then("min-p", keep_min_p(logits, sampling.min_p))
    return passed


def distribution(logits: Tensor, ids: Sequence[int], sampling: Sampling) -> Tensor:
    """Compute the distribution from which the next token is drawn: float64 (V,)."""
    return stages(logits, ids, sampling)[-1].probabilities


def draw(probabilities: Tensor, u: float) -> int:
    """Draw a token by inverse transform sampling: the first id whose cumulative probability exceeds u in [0, 1)."""
    ends = probabilities.cumsum(-1)  # (V,)
    chosen = int(torch.searchsorted(ends, u * float(ends[-1]), right=True))
    return min(chosen, int(probabilities.nonzero()[-1]))  # u just below 1 can be rounded past the last share


def uniform(seed: int, position: int, purpose: str = "draw") -> float:
    """Return the random number in [0, 1) for one position of the text, reproducible after an interruption."""
    return random.Random(f"{seed}/{position}/{purpose}").random()


def _probabilities(logits: Tensor) -> Tensor:
    return logits.double().softmax(-1)  # (V,)
