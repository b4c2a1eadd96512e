"""Questions on linear and sparse attention: the size of a state, what decays leave of a write, the keys of an indexer.

The answers come from attnviz.cost and from the modules. T tokens, S keys, D width of a key.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import reduce
from itertools import permutations
from operator import mul

import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.cost import load_presets
from attnviz.cost.cached import cached_in_layer
from attnviz.cost.crossings import crossings
from attnviz.equations import Equation, Expression, Value, function, number_text, total
from attnviz.mechanisms import GatedDelta, Grouped, letter
from attnviz.modules.delta import gated_delta_rule
from attnviz.modules.sparse import index_scores, top_k_mask
from attnviz.phrases import count, listed
from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.question import Options, Question, drawn, kind, tries
from attnviz.practice.drills.ranks import draw

LONGEST = 10**6  # tokens up to which a state is compared with a cache
DIGITS = 3  # of a decay


def linear_page(model: str, tab: str, **settings: str) -> tuple[str, dict[str, str]]:
    """Return the page and settings that show a checkpoint's state, or its indexer's keys, on the text."""
    return "linear", {"model": model, "tab": tab, **settings}


# ---- the size of a state


def published_hybrid(rng: random.Random) -> tuple[ModelConfig, GatedDelta, Grouped]:
    """Draw a published model with layers of gated DeltaNet and of grouped-query attention, and one of each."""
    found = {}
    for id, m in load_presets().items():
        mixers = [mixer for _, layer in m.layer_counts for mixer in layer.mixers]
        delta = next((each for each in mixers if isinstance(each, GatedDelta) and each.decay is None), None)
        grouped = next((each for each in mixers if isinstance(each, Grouped)), None)
        if delta and grouped:
            found[id] = m, delta, grouped
    return found[draw(rng, found)]


def _numbers(delta: GatedDelta) -> tuple[Value, Value, Value]:
    """Return what the numbers of a layer's state are counted by."""
    return (
        letter("H", delta.n_heads, "value heads"), Value(delta.key_dim, "Dₖ", "width of a key", latex="D_k"),
        Value(delta.head_dim, "Dᵥ", "width of a value", latex="D_v"),
    )  # fmt: skip


def _state_bytes(delta: GatedDelta) -> int:
    state = delta.state()[0]
    return int(state.numbers.value) * state.bits // 8


@kind("cost", 2, "state-not-cache")
def size_of_a_state(rng: random.Random) -> Question:
    m, delta, _ = published_hybrid(rng)
    H, D, V, keys = delta.n_heads, delta.key_dim, delta.head_dim, delta.n_key_heads
    size = _state_bytes(delta)
    heads, key_width, value_width = _numbers(delta)
    n_layers = sum(n for n, layer in m.layer_counts if isinstance(layer.mixer, GatedDelta))
    return Question(
        f"{m.name}: a layer of gated DeltaNet has {count(H, 'value head')} and {count(keys, 'key head')}, keys of "
        f"width {D} and values of width {V}. Its state has 4 bytes per number. How many bytes does the state of one "
        "layer take per sequence, its convolution left out?",
        NumberAnswer(
            size,
            "B",
            0.01,
            known(
                (size * keys / H, "Each value head has a state of its own, also where several share a key head.")
                if keys < H
                else None,
                (4 * H * (D + V), "A head's state is a matrix, not one key and one value.")
                if H * H * (D + V) != H * D * V  # else that of one head
                else None,
                (size / H, "That is the state of one head."),
                (size * n_layers, f"That is for all {n_layers} layers with a state."),
                (size / 4, "That counts numbers, not bytes.") if 4 * keys != H else None,  # else as key heads
            ),
        ),
        "Each value head has a matrix with a row per channel of a key and a column per channel of a value, whatever "
        "the number of tokens.",
        (Equation(heads * key_width * value_width * letter("bₛ", 4), unit="B"),),
        linear_page("hybrid", "state"),
    )


@kind("cost", 3, "state-not-cache")
def when_a_state_is_smaller(rng: random.Random) -> Question:
    m, delta, grouped = published_hybrid(rng)
    precision, width = rng.choice((("bf16", 2), ("fp8", 1)))
    size, per_token = _state_bytes(delta), int(cached_in_layer(grouped).value) * width
    (first,) = crossings(lambda n: size, lambda n: per_token * n, (), LONGEST)
    n, G = first.n_tokens, grouped.group_size
    H, key_width, value_width = _numbers(delta)
    cached = 2 * letter("K", grouped.n_kv_heads) * letter("D", grouped.head_dim) * letter("b", width)
    return Question(
        f"{m.name}: a layer of gated DeltaNet keeps a state of {delta.n_heads} × {delta.key_dim} × {delta.head_dim} "
        "numbers of 4 bytes, its convolution left out. A layer of attention caches keys and values of "
        f"{count(grouped.n_kv_heads, 'KV head')}, for {count(grouped.n_heads, 'query head')}, with head_dim "
        f"{grouped.head_dim} in {precision}. From how many tokens on does the state take fewer bytes than that cache?",
        NumberAnswer(
            n,
            "tokens",
            wrong=known(
                (n - 1, "At this number both are equal.") if (n - 1) * per_token == size else None,
                (2 * size // per_token + 1, "You counted K and V once."),
                (size // 2 // per_token + 1, "The state has 4 bytes per number."),
                (size // (G * per_token) + 1, "Only the KV heads are cached.") if G > 1 else None,
            ),
        ),
        f"The state always takes {size:,} B, and the cache {per_token:,} B per token.",
        (Equation(function("floor", H * key_width * value_width * letter("bₛ", 4) / cached) + 1, unit="tokens"),),
        linear_page("hybrid", "context"),
    )


# ---- what decays leave of a write


@kind("decoding", 1, "state-not-cache")
def half_of_a_write(rng: random.Random) -> Question:
    given = rng.choice(("α", "g"))
    rate = rng.choice((0.9, 0.95, 0.97, 0.98, 0.99, 0.995) if given == "α" else (-0.1, -0.05, -0.04, -0.02, -0.01))
    decay = rate if given == "α" else math.exp(rate)
    half = math.log(0.5) / math.log(decay)
    told = f"The decay of a head is α = {rate} at each token"
    logarithm: Expression = function("ln", Value(rate, "α", "decay per token", latex=r"\alpha", digits=DIGITS))
    if given == "g":
        told = f"The decay of a head is α = exp(g) with g = {number_text(rate, digits=2)} at each token"
        logarithm = letter("g", rate, "logarithm of the decay per token", digits=2)
    ln_half = function("ln", Value(0.5, digits=1))
    return Question(
        f"{told}, and no later key is similar to a written one. After how many tokens is half of the write left in the "
        "state? The number need not be whole.",
        NumberAnswer(
            half,
            "tokens",
            0.01,
            known(
                (1 / (1 - decay), "That is 1 / (1 − α), after which about 1/e is left."),
                (0.5 / (1 - decay), "A decay removes a share of what is left, not of what was written."),
                (2 * half, "After so many tokens a quarter is left."),
            ),
        ),
        "After n tokens αⁿ of the write is left, and αⁿ = 0.5 for n = ln 0.5 / ln α.",
        (Equation(ln_half / logarithm, unit="tokens"),),
        linear_page("hybrid", "state"),
    )


def _left(decay: Tensor, key: Tensor) -> float:
    """Return what a query that equals the key reads of a value of 1 after all tokens, of which the first wrote it.

    decay: (T,) or per channel (T, D). The later tokens write nothing, so that only decays change the state.
    """
    T = len(decay)
    k = key.expand(1, 1, T, -1)
    v, beta = torch.ones(1, 1, T, 1).double(), torch.tensor([1.0] + [0.0] * (T - 1)).double()
    return float(gated_delta_rule(k, k, v, decay[None, None], beta[None, None], scale=1.0)[0][0, 0, -1, 0])


@kind("decoding", 2, "state-not-cache")
def left_of_a_write(rng: random.Random) -> Question:
    n = rng.choice((3, 4))  # tokens after the one that writes
    decays = rng.sample((0.4, 0.5, 0.6, 0.7, 0.8, 0.9), n + 1)
    left, lost = (
        _left(torch.tensor(decays, dtype=torch.float64), torch.ones(1).double()),
        sum(1 - each for each in decays[1:]),
    )
    later = [
        Value(each, f"α{'₀₁₂₃₄'[i]}", f"decay at token {i}", digits=1, latex=rf"\alpha_{i}")
        for i, each in enumerate(decays)
    ][1:]
    return Question(
        f"Token 0 writes into an empty state of the gated delta rule. The decays at tokens 0 to {n} are "
        f"{listed(f'{each:.1f}' for each in decays)}, and the tokens after token 0 write under keys that are "
        f"orthogonal to its own. Which share of token 0's write does the state hold after token {n}?",
        NumberAnswer(
            left,
            tolerance=0.01,
            wrong=known(
                (left * decays[0], "A token's own write is not decayed: the decay at a token comes before its write."),
                (left / decays[-1], f"The decay at token {n} applies too: it comes before token {n} is written."),
                (1 - lost, "Each decay keeps a share of what is left: multiply, do not subtract.")
                if lost < 1
                else None,
                (sum(decays[1:]) / n, "Each decay keeps a share of what is left: multiply, do not average."),
            ),
        ),
        "Each later token multiplies the whole state by its decay before it writes; under an orthogonal key it changes "
        "nothing else of this write.",
        (Equation(reduce(mul, later)),),
        linear_page("hybrid", "remembers"),
    )


KEYS = (0.6, 0.8), (0.8, 0.6), (0.28, 0.96), (0.96, 0.28)  # of length 1
BY_CHANNEL = tuple(
    (key, decays, n) for key in KEYS for decays in permutations((0.99, 0.9, 0.8, 0.5), 2) for n in range(2, 6)
)


def _by_channel(inputs: tuple[tuple[float, float], tuple[float, float], int]) -> NumberAnswer:
    (first, second), (a, b), n = inputs
    return NumberAnswer(
        first**2 * a**n + second**2 * b**n,
        tolerance=0.01,
        wrong=known(
            ((a**n + b**n) / 2, "A channel counts by the square of its entry, not equally."),
            ((first**2 * a + second**2 * b) ** n, "Each channel decays on its own: powers before the sum."),
            (first * a**n + second * b**n, "An entry counts twice: in the key and in the query."),
            (first**2 * a ** (n + 1) + second**2 * b ** (n + 1), "The write itself is not decayed."),
        ),
    )


@kind("decoding", 3)
def left_by_channel(rng: random.Random) -> Question:
    (first, second), (a, b), n = inputs = drawn(rng, BY_CHANNEL, _by_channel)
    decay = torch.tensor([[1.0, 1.0]] + [[a, b]] * n, dtype=torch.float64)
    left = _left(decay, torch.tensor([first, second], dtype=torch.float64))
    values = [
        Value(number, f"{symbol}{'₁₂'[i]}", f"{meaning} of channel {i + 1}", digits=2, latex=f"{tex}_{i + 1}")
        for symbol, tex, meaning, numbers in (("k", "k", "key", (first, second)), ("α", r"\alpha", "decay", (a, b)))
        for i, number in enumerate(numbers)
    ]
    k1, k2, decay1, decay2 = values
    tokens = Value(n, "n", "tokens after the write")
    return Question(
        f"Kimi delta attention has a decay per channel of the key. The key ({first}, {second}), of length 1, is "
        f"written with strength 1 into an empty state; each of the {n} tokens after it has the decays ({a}, {b}) "
        "and writes nothing. A query equal to the key then reads the state, without a scale: which share of the value "
        "is that?",
        replace(_by_channel(inputs), value=left),
        "Row i of the state is kᵢ times the value, decays by αᵢ per token, and is read with qᵢ = kᵢ.",
        (Equation(total([k1**2 * decay1**tokens, k2**2 * decay2**tokens])),),
        linear_page("hybrid", "remembers"),
    )


# ---- the keys of an indexer


@kind("masks", 3, "keep-what-matters")
def keys_of_an_indexer(rng: random.Random) -> Question:
    few = rng.random() < 0.3  # the query may attend to fewer than k keys
    T = rng.choice((7, 8, 9))
    for _ in tries():
        i = rng.randrange(1, 4) if few else rng.randrange(3, T - 2)
        k = rng.randrange(i + 2, i + 4) if few else rng.randrange(2, i + 1)
        scores = _index_row(rng, T, i)
        options = _choices(scores, i, k)
        if len({keys for keys, _ in options}) == len(options):
            break
    right, *wrong = options
    kept = f"the {k} best are {right[0]}" if not few else f"fewer than k = {k}, so all of them are kept"
    return Question(
        f"The table has the index scores of query {i} (from 0) in a causal text of {T} tokens. The indexer keeps "
        f"k = {k} keys; of equal scores, that of the earlier key ranks first. To which keys does the query attend?",
        Options(right[0], wrong).shuffled(rng),
        f"The query may attend to {count(i + 1, 'key')}, 0 to {i}: {kept}.",
        link=linear_page("sparse", "indexer", keep=str(k)),
        code="\n".join(["key  index score", *(f"{j:>3}  {each:>11.1f}" for j, each in enumerate(scores.tolist()))]),
    )


def _index_row(rng: random.Random, T: int, i: int) -> Tensor:
    """Return the index scores of query i with all T keys, computed by an indexer with two heads and rounded: (T,)."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    q, k = torch.randn(1, 2, T, 3, generator=generator), torch.randn(1, T, 3, generator=generator)
    return index_scores(q, k, torch.rand(1, T, 2, generator=generator))[0, i].mul(2).round().div(2)


def _choices(scores: Tensor, i: int, k: int) -> list[tuple[str, str]]:
    """Return the keys that query i keeps by their scores (T,), then those that mistakes keep, with the mistakes."""
    T = len(scores)
    allowed = torch.arange(T) <= i

    def kept(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return top_k_mask(scores[None, None], k, mask)[0, 0, 0]  # (T,)

    every = kept(scores)
    found = [
        (kept(scores, allowed), ""),
        (every & allowed, "That is the top-k of all keys, masked afterwards: later keys took places among the k."),
        (every, f"Keys after {i} are masked for this query, however high their scores."),
    ]
    if k <= i:  # then a key is left out, and of equal scores it matters which
        later_first = kept(scores.flip(0), allowed.flip(0)).flip(0)
        found.append((later_first, "Of equal scores, that of the earlier key ranks first."))
    return [(", ".join(map(str, keys.nonzero().flatten().tolist())) or "none", why) for keys, why in found]
