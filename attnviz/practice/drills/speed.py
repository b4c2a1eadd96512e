"""Questions on what makes attention faster: accepted proposals in speculative decoding, and softmax in tiles.

Answers come from attnviz.decode and attnviz.experiments.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from operator import gt, ne

import torch

from attnviz.decode.sampling import Sampling
from attnviz.decode.speculation import Proposal, check, remainder
from attnviz.equations import Equation, Expression, Value, function, total
from attnviz.experiments.traffic import moved
from attnviz.phrases import listed
from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.question import Question, kind

SPECULATION = ("decode", {"tab": "speculate"})


@lru_cache(maxsize=4)
def _distributions(n: int) -> list[tuple[int, ...]]:
    """List the percentages of n tokens, each a multiple of 5."""
    cuts = combinations(range(5, 100, 5), n - 1)
    return [tuple(b - a for a, b in zip((0, *each), (*each, 100), strict=True)) for each in cuts]


def _two_distributions(rng: random.Random, n: int, n_more: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw the percentages of n tokens in the drafter and in the model: different ones, with at least `n_more` tokens
    to which the model gives more."""
    possible = _distributions(n)
    q = rng.choice([each for each in possible if sum(share < 100 - 5 * (n - 1) for share in each) >= n_more])
    apart = [p for p in possible if all(map(ne, p, q)) and sum(map(gt, p, q)) >= n_more]
    return q, rng.choice(apart)


def _told(q: Sequence[int], p: Sequence[int]) -> str:
    shares = (listed(f"{share}%" for share in each) for each in (q, p))
    return f"The drafter gives {len(p)} tokens the probabilities {next(shares)}; the model gives them {next(shares)}"


def _values(symbol: str, shares: Sequence[int], whose: str) -> list[Value]:
    return [
        Value(share, f"{symbol}{'₁₂₃₄'[i]}", f"per cent of token {i + 1} in the {whose}", latex=f"{symbol}_{i + 1}")
        for i, share in enumerate(shares)
    ]


@kind("decoding", 2, "next-token")
def chance_of_acceptance(rng: random.Random) -> Question:
    q, p = _two_distributions(rng, 3)
    model, drafter = (torch.tensor(each, dtype=torch.float64) / 100 for each in (p, q))
    (checked, *_), _ = check([Proposal(0, drafter)], model.log().expand(2, -1), [0], Sampling())
    chance, distance = checked.overlap, sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 100
    lower: list[Expression] = [
        function("min", *pair) for pair in zip(_values("p", p, "model"), _values("q", q, "drafter"), strict=True)
    ]
    return Question(
        f"{_told(q, p)}. The drafter draws a token and proposes it. With what probability does speculative sampling "
        "accept it, as a number from 0 to 1?",
        NumberAnswer(
            chance,
            tolerance=0.01,
            wrong=known(
                (sum(a * b for a, b in zip(p, q, strict=True)) / 1e4, "That is if both had to draw the same token."),
                (
                    1 - distance,
                    "Halve the sum of the differences: what one token has too much, others have too little.",
                ),
                (distance / 2, "That is the probability of a rejection."),
                (100 * chance, "Give a number from 0 to 1, not a percentage."),
            ),
        ),
        "A token x is proposed with q(x) and accepted with min(1, p(x) / q(x)), so both happen with min(p(x), q(x)).",
        (Equation(total(lower) / 100),),
        SPECULATION,
    )


@kind("decoding", 3, "next-token")
def drawn_after_a_rejection(rng: random.Random) -> Question:
    q, p = _two_distributions(rng, 4, n_more=2)
    more = [i for i in range(4) if p[i] > q[i]]
    i = rng.choice(more)
    model, drafter = (torch.tensor(each, dtype=torch.float64) / 100 for each in (p, q))
    chance = float(remainder(model, drafter)[i])
    left, right = _values("p", p, "model"), _values("q", q, "drafter")
    return Question(
        f"{_told(q, p)}. A proposed token is rejected. With what probability is token {i + 1} drawn in its place, as a "
        "number from 0 to 1?",
        NumberAnswer(
            chance,
            tolerance=0.01,
            wrong=known(
                (p[i] / 100, "It is not drawn from p itself: accepted proposals have already given part of p."),
                ((p[i] - q[i]) / 100, "The differences are divided by their sum."),
                (p[i] / sum(p[j] for j in more), "Of each token only what p has more than q is left."),
                (100 * chance, "Give a number from 0 to 1, not a percentage."),
            ),
        ),
        "It is drawn from max(0, p − q), divided by its sum: what accepted proposals leave of p.",
        (Equation((left[i] - right[i]) / total([left[j] - right[j] for j in more])),),
        SPECULATION,
    )


@kind("decoding", 3)
def traffic_of_tiles(rng: random.Random) -> Question:
    T, D = rng.choice(
        ((1024, 64), (1024, 96), (1024, 128), (2048, 64), (2048, 96), (2048, 128), (4096, 96), (4096, 128))
    )
    block = rng.choice((64, 128, 256))
    whole, tiled = moved(T, D, D, block)
    times = whole.value / tiled.value
    return Question(
        f"One head of width {D} on {T:,} tokens, without a mask. Written out, attention reads q, k and v once, writes "
        f"the output once, and writes and reads scores and weights once each. In tiles of {block} queries and {block} "
        "keys, it reads q and writes the output once, and reads k and v once per block of queries. How many times as "
        "many bytes does the written-out form move?",
        NumberAnswer(
            times,
            tolerance=0.01,
            wrong=known(
                ((4 * T * D + 4 * T * T) / (4 * T * D), "Tiles read k and v again for each block of queries."),
                (
                    (4 * T * D + 2 * T * T) / (2 * T * D + 2 * T * D * T / block),
                    "Scores and weights are written and read: four times T² numbers.",
                ),
                (4 * T * T / (2 * T * D + 2 * T * D * T / block), "You left out q, k, v and the output."),
                (1 / times, "That is the other way round."),
            ),
        ),
        "Both do the same multiplications. The tiles' scores stay in fast memory, so the T² terms are gone; k and v "
        "are read again instead.",
        (Equation(whole / tiled),),
        ("steps", {"tab": "tiles", "block": str(block)}),
    )
