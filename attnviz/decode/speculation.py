"""Speculative decoding (Leviathan et al., arXiv 2211.17192): a drafter proposes k tokens, the model checks all at once.

A proposed token x, drawn from the drafter's distribution q, is accepted with probability min(1, p(x) / q(x)), p being
the model's own distribution. The first one rejected is replaced by a draw from max(0, p - q), normalised. Each token
then has the distribution p, whatever the drafter. V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from attnviz.checks import whole
from attnviz.decode.generate import checked_ids, read
from attnviz.decode.sampling import Sampling, distribution, draw, uniform
from attnviz.modules import Transformer


class Proposal(NamedTuple):
    """A token that a drafter proposes, and the distribution (V,) it was drawn from."""

    id: int
    distribution: Tensor


class Drafter(Protocol):
    """Whatever proposes up to k tokens to continue a text."""

    def propose(self, ids: list[int], k: int, sampling: Sampling) -> list[Proposal]:
        """Continue ids by at most k tokens."""


class Round(NamedTuple):
    """One pass of the model."""

    proposed: list[int]
    n_accepted: int
    ids: list[int]  # written by this pass: the accepted tokens and one of the model's own


class ModelDrafter:
    """Another model with the same vocabulary, decoding with a cache of its own."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.cache = model, model.new_cache()
        self.read_ids: list[int] = []  # what the cache holds

    def propose(self, ids: list[int], k: int, sampling: Sampling) -> list[Proposal]:
        """Draw k tokens one after the other."""
        self._go_back(ids)
        ids, proposals = list(ids), []
        for _ in range(k):
            logits = read(self.model, ids[len(self.read_ids) :], self.cache)[-1]
            self.read_ids = list(ids)
            q = distribution(logits, ids, sampling)
            proposals.append(Proposal(draw(q, uniform(sampling.seed, len(ids), "propose")), q))
            ids.append(proposals[-1].id)
        return proposals

    def _go_back(self, ids: list[int]) -> None:
        """Cut what the cache holds beyond the text, and its last token, which has to be read for its logits."""
        same = 0
        while same < min(len(self.read_ids), len(ids) - 1) and self.read_ids[same] == ids[same]:
            same += 1
        self.read_ids = self.read_ids[:same]
        for layer in self.cache:
            layer.cut(min(same, len(layer)))


class NGramDrafter:
    """Propose what followed when the last n tokens last stood in the text (prompt lookup); nothing if they did not."""

    def __init__(self, vocab_size: int, n: int = 2) -> None:
        whole("n", n)
        self.vocab_size, self.n = vocab_size, n

    def propose(self, ids: list[int], k: int, sampling: Sampling) -> list[Proposal]:
        """Look the last n tokens up, latest place first. The distribution has all its weight on the token."""
        last = ids[-self.n :]
        for start in range(len(ids) - self.n - 1, -1, -1):
            if ids[start : start + self.n] == last:
                following = ids[start + self.n : start + self.n + k]
                return [Proposal(i, self._certain(i)) for i in following]
        return []

    def _certain(self, i: int) -> Tensor:
        q = torch.zeros(self.vocab_size, dtype=torch.float64)
        q[i] = 1.0
        return q


def speculate(
    model: Transformer,
    ids: Sequence[int],
    n_tokens: int,
    drafter: Drafter,
    k: int = 4,
    sampling: Sampling = Sampling(),  # noqa: B008, frozen
) -> Iterator[Round]:
    """Continue the text `ids` by n_tokens tokens, one `Round` per pass of the model."""
    ids, cache = checked_ids(model, ids), model.new_cache()
    whole("n_tokens", n_tokens, low=0)
    whole("k", k)
    return _rounds(model, ids, n_tokens, drafter, k, sampling, cache)


def _rounds(
    model: Transformer, ids: list[int], n_tokens: int, drafter: Drafter, k: int, sampling: Sampling, cache: list
) -> Iterator[Round]:
    stop = len(ids) + n_tokens
    while len(ids) < stop:
        proposals = drafter.propose(ids, min(k, stop - len(ids) - 1), sampling)
        proposed = [proposal.id for proposal in proposals]
        logits = read(model, (ids + proposed)[len(cache[0]) :], cache)  # one pass
        logits = logits[len(logits) - len(proposed) - 1 :]  # (proposed + 1, V), the first behind the last of ids
        n_accepted, own = check(proposals, logits, ids, sampling)
        ids = ids + proposed[:n_accepted] + [own]
        for layer in cache:
            layer.cut(len(ids) - 1)  # forget the rejected tokens; the model's own is read in the next pass
        yield Round(proposed, n_accepted, [*proposed[:n_accepted], own])


def check(proposals: list[Proposal], logits: Tensor, ids: list[int], sampling: Sampling) -> tuple[int, int]:
    """Accept or reject the proposals in their order: how many are accepted, and the model's own next token.

    logits: (proposals + 1, V), those of row i behind the first i proposals.
    """
    ids = list(ids)
    for i, (proposed, q) in enumerate(proposals):
        p = distribution(logits[i], ids, sampling)
        if uniform(sampling.seed, len(ids), "accept") * float(q[proposed]) >= float(p[proposed]):  # u ≥ p / q
            return i, draw(remainder(p, q), uniform(sampling.seed, len(ids)))
        ids.append(proposed)
    return len(proposals), draw(distribution(logits[-1], ids, sampling), uniform(sampling.seed, len(ids)))


def remainder(p: Tensor, q: Tensor) -> Tensor:
    """Compute max(0, p - q) normalised: what a rejected proposal is replaced from."""
    more = (p - q).clamp(min=0)
    return more / more.sum()
