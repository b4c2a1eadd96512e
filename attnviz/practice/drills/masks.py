"""Questions on masks and softmax. The answers come from the functions the app itself uses."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from attnviz.equations import Equation, Expression, Value, function, number_text, total
from attnviz.experiments.tiles import tiled_attention
from attnviz.mechanisms import letter
from attnviz.modules.attention import attend
from attnviz.modules.masks import attention_mask
from attnviz.phrases import count
from attnviz.practice.drills.answers import CellAnswer, NumberAnswer, known
from attnviz.practice.drills.question import Options, Question, drawn, kind, tries

MASKS = ("heads", {"tab": "masks"})
OFFSET = ("mistakes", {"mistake": "causal_mask_without_offset"})  # the mask of new tokens behind cached ones
STAGES = ("heads", {"tab": "stages"})


def window_page(window: int, n_sinks: int = 0) -> tuple[str, dict[str, str]]:
    """Return the page and settings that show masks with this window; those with sink tokens have at least one."""
    return "heads", {"tab": "masks", "mask_window": str(window), "mask_sinks": str(max(1, n_sinks))}


def _row(rows: Tensor | None, query: int, n: int) -> int:
    return n if rows is None else int(rows[query].sum())


@kind("masks", 1, "one-head", "score-to-weight")
def keys_of_a_query(rng: random.Random) -> Question:
    T = rng.choice((7, 11, 13, 17))
    t = rng.randrange(1, T - 1)
    position = Value(t, "t", "position of the query, from 0")
    return Question(
        f"A causal mask over {T} tokens, counted from 0. How many keys may query {t} attend to?",
        NumberAnswer(
            _row(attention_mask(T, T, causal=True), t, T),
            wrong=known(
                (t, "A query may also attend to itself."),
                (T - t, "That is how many queries may attend to this token."),
                (T, "That is without a mask."),
            ),
        ),
        "A query may attend to the tokens before it and to itself.",
        (Equation(position + 1),),
        MASKS,
    )


@kind("masks", 2, "sinks-and-sharing")
def keys_in_a_window(rng: random.Random) -> Question:
    T, w = rng.choice((17, 19, 23)), rng.choice((3, 4, 5))
    sinks = rng.choice((0, 1, 2))
    t = rng.randrange(w + sinks + 1, T)
    allowed = _row(attention_mask(T, T, causal=True, window=w, n_sinks=sinks), t, T)
    window, first = letter("W", w), letter("A", sinks)
    with_sinks = f" and {count(sinks, 'attention-sink token')}" if sinks else ""
    return Question(
        f"A causal sliding window of {w} tokens (including the query){with_sinks}; {T} tokens, counted from 0. How "
        f"many keys may query {t} attend to?",
        NumberAnswer(
            allowed,
            wrong=known(
                (t + 1, "That is without the window."),
                (allowed + 1, "The query itself is part of the window."),
                (w, "The query may also attend to the sink tokens.") if sinks else None,
            ),
        ),
        "A query may attend to the last w tokens, including itself"
        + (f", and to {count(sinks, 'sink token')} before the window." if sinks else "."),
        (Equation(window + first if sinks else function("min", window, Value(t + 1, "t + 1", "tokens so far"))),),
        window_page(w, sinks),
    )


@kind("masks", 3)
def keys_with_a_cache(rng: random.Random) -> Question:
    past, T = rng.choice((7, 11, 40, 128)), rng.choice((2, 3, 5))
    i = rng.randrange(T)
    found = _row(attention_mask(T, past + T, causal=True, offset=past), i, past + T)
    cached, new = letter("S", past, "cached tokens"), Value(i, "i", "new token, from 0")
    return Question(
        f"{past} tokens are cached, and {T} new ones are processed at once with a causal mask. How many keys may new "
        f"token {i} (from 0) attend to?",
        NumberAnswer(
            found,
            wrong=known(
                (i + 1, "You left out the cached tokens: the mask needs an offset."),
                (past + i, "A token may also attend to itself."),
                (past + T, "Later new tokens are masked.") if i < T - 1 else None,
            ),
        ),
        "It may attend to all cached tokens, to the new ones before it, and to itself.",
        (Equation(cached + new + 1),),
        OFFSET,
    )


@kind("masks", 2, "score-to-weight")
def masked_cells(rng: random.Random) -> Question:
    T = rng.choice((5, 7, 11, 13, 29))
    mask = attention_mask(T, T, causal=True)
    assert mask is not None
    n = letter("T", T, "tokens")
    return Question(
        f"How many of the {T} × {T} cells are masked by a causal mask?",
        NumberAnswer(
            int((~mask).sum()),
            wrong=known(
                (T * (T + 1) / 2, "That is the number of cells that are not masked."),
                (T * T / 2, "The diagonal is not masked."),
            ),
        ),
        "The cells above the diagonal are masked; the diagonal itself is not.",
        (Equation(n * (n - 1) / 2),),
        MASKS,
    )


@kind("masks", 1, "score-to-weight")
def score_of_two_vectors(rng: random.Random) -> Question:
    D = rng.choice((16, 64, 100, 144, 256))
    dot = rng.choice([x for x in range(-60, 61, 4) if x])
    q, k = torch.zeros(D), torch.zeros(D)
    q[0], k[0] = dot, 1.0
    found = float(q @ k) * D**-0.5
    product, width = Value(dot, "q·k", "dot product"), letter("D", D)
    return Question(
        f"head_dim is {D}, and q · k = {number_text(dot)}. What is the score that goes into the softmax?",
        NumberAnswer(
            found,
            tolerance=0.01,
            wrong=known(
                (dot, "The dot product is divided by √head_dim."),
                (dot / D, "Divide by √head_dim, not by head_dim."),
            ),
        ),
        "Scores are divided by √head_dim, so that their standard deviation does not grow with head_dim.",
        (Equation(product / function("√", width)),),
        STAGES,
    )


def weights_of(scores: list[float], allowed: list[bool]) -> Tensor:
    """Return the weights that `attend` computes for one query with these scores."""
    k = torch.tensor(scores, dtype=torch.float64)[None, None, :, None]
    return attend(torch.ones(1, 1, 1, 1).double(), k, k, torch.tensor([allowed]), scale=1.0).weights[0, 0, 0]


def _share(scores: list[float], own: int, among: list[int]) -> Expression:
    letters = {i: Value(scores[i], f"s{i}", f"score of key {i}") for i in among}
    return function("exp", letters[own]) / total([function("exp", letters[i]) for i in among])


@kind("masks", 1, "score-to-weight")
def weight_of_two(rng: random.Random) -> Question:
    scores = [float(x) for x in rng.sample(range(-3, 4), 2)]
    weight = float(weights_of(scores, [True, True])[0])
    linear = scores[0] / sum(scores) if sum(scores) else 0.0  # not finite, or 0 / 0
    return Question(
        f"A query may attend to 2 keys, with scores {' and '.join(map(number_text, scores))}. What is the weight of "
        "the first key?",
        NumberAnswer(
            weight,
            tolerance=0.01,
            wrong=known(
                (1 - weight, "That is the weight of the second key."),
                (linear, "Take the exponentials before dividing by their sum.") if linear else None,
            ),
        ),
        "Softmax divides each exponential by their sum; only the difference of the two scores matters.",
        (Equation(_share(scores, 0, [0, 1])),),
        STAGES,
    )


def _beside_a_masked(scores: tuple[int, int, int]) -> NumberAnswer:
    first, own, masked = map(math.exp, scores)
    return NumberAnswer(
        own / (first + own),
        tolerance=0.01,
        wrong=known(
            (own / (first + own + masked), "You included the masked key: it is masked before the softmax."),
            (first / (first + own), "That is the weight of key 0."),
            (own / (first + own + 1), "A masked score is −∞, not 0: its exponential is 0."),
        ),
    )


@kind("masks", 2, "score-to-weight")
def weight_beside_a_masked_key(rng: random.Random) -> Question:
    drawn_scores = drawn(rng, tuple(permutations(range(-2, 5), 3)), _beside_a_masked)
    scores = [float(x) for x in drawn_scores]
    weight = float(weights_of(scores, [True, True, False])[1])
    return Question(
        f"The scores of keys 0, 1 and 2 are {', '.join(map(number_text, scores))}; key 2 is masked. What is the weight "
        "of key 1?",
        replace(_beside_a_masked(drawn_scores), value=weight),
        "A masked score is −∞ and its exponential is 0, so the other keys share the weight.",
        (Equation(_share(scores, 1, [0, 1])),),
        STAGES,
    )


@kind("masks", 3, "many-heads")
def entropy_of_a_flat_row(rng: random.Random) -> Question:
    t = rng.randrange(3, 21)
    weights = weights_of([0.0] * (t + 1), [True] * (t + 1))
    found = float(-(weights * weights.log()).sum())
    return Question(
        f"A causal head gives the same weight to every key that query {t} (from 0) may attend to. What is the entropy "
        "of this row, in nats?",
        NumberAnswer(
            found,
            "nats",
            0.005,  # of ln 21, that of one key fewer is 1.6 % less
            known(
                (math.log(t), f"Query {t} may attend to {t + 1} keys."),
                (math.log2(t + 1), "That is the entropy in bits."),
                (1 / (t + 1), "That is one weight."),
            ),
        ),
        f"Each of the {t + 1} weights w adds −w · ln w; for {t + 1} equal weights the sum is ln {t + 1}.",
        link=("heads", {"tab": "does"}),
    )


@kind("masks", 2)
def softmax_of_nothing(rng: random.Random) -> Question:
    """Ask for the softmax of a fully masked row. The answer is computed by torch."""
    n = rng.choice((3, 5, 7))
    way = rng.choice(("−inf", "−1e9"))
    row = torch.full((n,), -math.inf if way == "−inf" else -1e9).softmax(-1)
    result = "NaN for every key" if bool(row.isnan().all()) else f"{float(row[0]):.3g} for every key"
    others = (
        ("0 for every key", "A row of torch's softmax sums to 1, or is NaN."),
        ("1 for the first key, 0 for the others", "All scores are equal, so no key differs from another."),
        ("NaN for every key", "−1e9 is finite, and so are its differences."),
        (f"{1 / n:.3g} for every key", "The largest score is −∞, and −∞ − (−∞) is not 0."),
    )
    return Question(
        f"All {n} keys of a query are masked, and the code sets masked scores to {way} before torch's softmax. What "
        "are the weights?",
        Options(result, [other for other in others if other[0] != result]).shuffled(rng),
        "Softmax first subtracts the largest score: −∞ − (−∞) is NaN, but −1e9 − (−1e9) is 0, which gives equal "
        "weights.",
        link=("mistakes", {"mistake": "fully_masked_row"}),
    )


def _two_tiles(rng: random.Random) -> list[tuple[Value, Value, Value]]:
    """Draw the running values of two tiles of keys: maximum score, sum of exponentials, weighted sum of values."""
    for _ in tries():  # until the tiles' own outputs differ: else it does not matter how they are rescaled
        largest = rng.sample(range(-1, 4), 2)
        sums, outputs = rng.sample((1.25, 1.5, 1.75, 2.0), 2), rng.sample([x / 2 for x in range(1, 10)], 2)
        if abs(largest[0] - largest[1]) < 3 and abs(outputs[0] / sums[0] - outputs[1] / sums[1]) > 0.8:
            break
    return [
        (
            Value(m, f"m{'₁₂'[i]}", f"maximum score of tile {i + 1}", latex=f"m_{i + 1}"),
            Value(sum_, f"l{'₁₂'[i]}", f"sum of exponentials of tile {i + 1}", digits=2, latex=f"l_{i + 1}"),
            Value(out, f"o{'₁₂'[i]}", f"weighted sum of values of tile {i + 1}", digits=1, latex=f"o_{i + 1}"),
        )
        for i, (m, sum_, out) in enumerate(zip(largest, sums, outputs, strict=True))
    ]


def _over_tiles(tiles: list[tuple[Value, Value, Value]]) -> float:
    """Return the output over tiles of two keys with these running values, by the app's own softmax in tiles."""
    scores = [s for m, n, _ in tiles for s in (m.value, m.value + math.log(n.value - 1))]
    values = [v for _, n, o in tiles for v in (o.value / n.value,) * 2]
    q, k, v = (torch.tensor([each], dtype=torch.float64).mT for each in ([1.0], scores, values))
    allowed = torch.ones(1, len(scores), dtype=torch.bool)
    return float(tiled_attention(q, k, v, allowed, block=2, scale=1.0))


@kind("masks", 3, "score-to-weight")
def merge_of_two_tiles(rng: random.Random) -> Question:
    tiles = _two_tiles(rng)
    (m1, l1, o1), (m2, l2, o2) = tiles
    larger = function("max", m1, m2)
    m = Value(larger.value, "m", "maximum of both")
    f1, f2 = function("exp", m1 - m), function("exp", m2 - m)
    given = [
        ", ".join(f"{each.symbol} = {number_text(each.value, digits=each.digits)}" for each in tile) for tile in tiles
    ]
    return Question(
        "Softmax in tiles, as in FlashAttention, for one query. Of a tile's keys, m is the maximum score, l the sum of "
        "exp(score − m), and o that of exp(score − m) · value, in one dimension. "
        f"Tile 1: {given[0]}. Tile 2: {given[1]}. What is the output over both tiles?",
        NumberAnswer(
            _over_tiles(tiles),
            tolerance=0.01,
            wrong=known(
                ((o1 + o2) / (l1 + l2), "Rescale both tiles to the larger maximum before adding them."),
                ((o1 * f1 + o2 * f2) / (l1 + l2), "The sums of exponentials are rescaled by the same factors."),
                (o1 * f1 + o2 * f2, "Divide by the rescaled sum of exponentials."),
                ((o1 * f2 + o2 * f1) / (l1 * f2 + l2 * f1), "You rescaled the tile with the larger maximum."),
                ((o1 / l1 + o2 / l2) / 2, "Each tile counts in proportion to its rescaled sum of exponentials."),
            ),
        ),
        "Each tile's exponentials are relative to its own maximum: exp(m₁ − m) and exp(m₂ − m) make them relative to "
        "the larger one, m.",
        (
            Equation(larger, "m", meaning="maximum of both"),
            Equation((o1 * f1 + o2 * f2) / (l1 * f1 + l2 * f2)),
        ),
        ("steps", {"tab": "tiles"}),
    )


def _map(rng: random.Random, T: int) -> Tensor:
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    q, k = torch.randn(1, 1, T, 5, generator=generator), torch.randn(1, 1, T, 5, generator=generator)
    return attend(2 * q, k, k, attention_mask(T, T, causal=True)).weights[0, 0]


def causal_rows(weights: Tensor | np.ndarray) -> tuple[tuple[float | None, ...], ...]:
    """Convert a causal map (T, T) to rows for drawing, with None where masked."""
    return tuple(tuple(w if j <= i else None for j, w in enumerate(row)) for i, row in enumerate(weights.tolist()))


@kind("masks", 1, "one-head")
def strongest_key(rng: random.Random) -> Question:
    T, gap = rng.choice((6, 7, 8)), 0.0
    while gap < 0.1:  # until the strongest key can be seen
        weights, i = _map(rng, T), rng.randrange(2, T)
        first, second = weights[i].topk(2).values.tolist()
        gap = first - second
    best = int(weights[i].argmax())
    column = int(weights[:, i].argmax())
    return Question(
        f"A map of attention weights: rows are queries, columns are keys. Click the strongest key of query {i}.",
        CellAnswer(causal_rows(weights), (i, best), (((column, i), f"That is the strongest query of key {i}."),)),
        f"In row {i} the largest weight is {float(weights[i, best]):.2f}, at key {best}; the row sums to 1.",
        link=("heads", {}),
    )


@kind("masks", 2, "sinks-and-sharing")
def earliest_key_of_a_window(rng: random.Random) -> Question:
    T, w = rng.choice((7, 8, 9)), rng.choice((2, 3, 4))
    mask = attention_mask(T, T, causal=True, window=w)
    assert mask is not None
    i = rng.randrange(w + 1, T)
    first = int(mask[i].nonzero()[0])
    return Question(
        f"A causal sliding window of {w} tokens, including the query. Click the earliest key that query {i} may "
        "attend to.",
        CellAnswer(
            causal_rows(torch.zeros(T, T)),
            (i, first),
            (((i, i - w), "The query itself is part of the window."), ((i, 0), "Key 0 is outside the window.")),
        ),
        f"The window of query {i} holds the keys {first} to {i}: {w} keys.",
        link=window_page(w),
    )


@kind("masks", 3, "one-head", "many-heads")
def pattern_of_a_map(rng: random.Random) -> Question:
    """Ask for the key that an induction head attends to, in a text that repeats itself."""
    n = rng.choice((3, 4, 5))
    words = rng.sample(["red", "ball", "cat", "sun", "tree", "hat", "dog"], n)
    text, T = words * 2, 2 * n
    i = rng.randrange(n + 1, T)
    target = i - n + 1
    numbered = " ".join(f"{j}:{word}" for j, word in enumerate(text))
    return Question(
        f"The text is “{numbered}”. Click the key that an induction head attends to from query {i} ({text[i]}).",
        CellAnswer(
            causal_rows(torch.zeros(T, T)),
            (i, target),
            (
                ((i, 0), "That would be an attention sink."),
                ((i, i - n), "That is the earlier occurrence itself; an induction head attends to the token after it."),
                ((i, i - 1), "A previous-token head attends there."),
            ),
        ),
        f"“{text[i]}” occurs earlier at position {i - n}; an induction head attends to the token after it, at position "
        f"{target}.",
        link=("heads", {"tab": "does"}),
    )
