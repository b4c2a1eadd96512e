"""Questions on sliding windows and attention sinks. Answers come from the app's masks, caches and modules."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import lru_cache

import torch

from attnviz.cost import PRECISIONS, kv_cache_bytes
from attnviz.decode.bounded import SlidingCache
from attnviz.equations import Equation, Value, function
from attnviz.mechanisms import letter
from attnviz.modules.extended import attend_with_sink
from attnviz.modules.masks import attention_mask
from attnviz.phrases import count
from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.cost import cache_page, described, layers_behind_a_window, ungrouped
from attnviz.practice.drills.heads import published_with
from attnviz.practice.drills.masks import window_page
from attnviz.practice.drills.question import Options, Question, drawn, kind


@kind("masks", 1)
def masked_key(rng: random.Random) -> Question:
    T, window, n_sinks = rng.choice((17, 19, 23)), rng.choice((3, 4, 5)), rng.choice((1, 2))
    t = rng.randrange(window + n_sinks + 2, T)
    first = t - window + 1  # of the window
    mask = attention_mask(T, T, causal=True, window=window, n_sinks=n_sinks)
    assert mask is not None
    masked = [j for j in range(t + 1) if not mask[t, j]]
    just_outside = rng.random() < 0.6
    j = masked[-1] if just_outside else rng.choice(masked)
    wrong = [
        (f"key {n_sinks - 1}", "It is an attention-sink token, which stays visible."),
        (f"key {first}", f"The window has {window} keys, the query's own included: {first} to {t}."),
        (f"key {t}", "A query may attend to its own token."),
    ]
    return Question(
        f"A causal sliding window of {window} tokens, the query's own included, and {count(n_sinks, 'sink token')} at "
        f"the start of the text. Positions are counted from 0. Which of these keys is masked for query {t}?",
        Options(f"key {j}", wrong).shuffled(rng),
        f"Query {t} may attend to keys {first} to {t} and to {'key 0' if n_sinks == 1 else 'keys 0 and 1'}.",
        link=window_page(window, n_sinks),
    )


@lru_cache(maxsize=64)
def _reach(n_layers: int, window: int) -> int:
    """Return how far back the last token's output can depend on others, by stacking the masks."""
    T = n_layers * window + 1
    mask = attention_mask(T, T, causal=True, window=window)
    assert mask is not None
    reached = torch.linalg.matrix_power(mask.double(), n_layers)[-1] > 0  # (T,)
    return T - 1 - int(reached.nonzero()[0])


@kind("masks", 2, "sinks-and-sharing")
def reach_of_windows(rng: random.Random) -> Question:
    L, W = rng.choice((2, 3, 4, 6)), rng.choice((3, 4, 5, 8, 12))
    return Question(
        f"{L} layers with a causal sliding window of {W} tokens, the query's own included. How many positions before "
        "its own can a token's output depend on, through all layers?",
        NumberAnswer(
            _reach(L, W),
            wrong=known(
                (L * W, "The window includes the query, so a layer reaches back W − 1 positions."),
                (W - 1, "That is one layer: each layer reads outputs that have read tokens before them."),
                ((W - 1) ** L, "The distances of the layers add up."),
                (L * (W - 1) + 1, "That counts the token itself."),
            ),
        ),
        "Each layer reaches W − 1 positions further back, from what the layer below has read there.",
        (Equation(letter("L", L) * (letter("W", W) - 1)),),
        window_page(W),
    )


SINKS = tuple((n, s, z) for n in (2, 3, 4, 5, 8) for s in (0, 1, 2) for z in (-1, 1, 2, 3, 4))


def _beside_a_sink(inputs: tuple[int, int, int]) -> NumberAnswer:
    n, s, z = inputs
    summed = n * math.exp(s) / (n * math.exp(s) + math.exp(z))
    return NumberAnswer(
        summed,
        tolerance=0.01,
        wrong=known(
            (1, "The softmax also has the sink, whose share goes to no key."),
            (1 - summed, "That is the sink's share."),
            (summed / n, "That is the weight of one key."),
            (1 - 1 / (n + 1), "The sink's logit is not that of a key."),
        ),
    )


@kind("masks", 2, "sinks-and-sharing")
def row_with_a_learned_sink(rng: random.Random) -> Question:
    n, s, z = inputs = drawn(rng, SINKS, _beside_a_sink)
    q, k = torch.full((1, 1, 1, 1), float(s)).double(), torch.ones(1, 1, n, 1).double()
    weights = attend_with_sink(q, k, k, torch.tensor([float(z)]).double(), scale=1.0).weights[0, 0, 0]  # (n + 1,)
    keys, score = Value(n, "n", "keys"), Value(s, "s", "score of each key")
    one = function("exp", score)
    return Question(
        f"A head has a learned sink logit of {z if z > 0 else '−1'}, which is already on the scale of the scores. A "
        f"query may attend to {n} keys, all with the score {s}. What is the sum of its weights on the keys?",
        replace(_beside_a_sink(inputs), value=float(weights[:-1].sum())),
        "The sink is one more logit in the softmax, with a value of 0: what it takes is missing from the row.",
        (Equation(keys * one / (keys * one + function("exp", Value(z, "z", "sink logit")))),),
        ("linear", {"model": "sinks", "tab": "sinks"}),
    )


@kind("decoding", 2)
def oldest_token_behind_sinks(rng: random.Random) -> Question:
    limit, n_sinks = rng.choice((16, 24, 32, 48)), rng.choice((1, 2, 4))
    n = limit + rng.randrange(n_sinks + 2, 40)
    cache = SlidingCache(limit, n_sinks)
    for T in (limit, *[1] * (n - limit)):
        cache.append(torch.empty(1, 1, T, 0))
    oldest = min(position for position in cache.positions if position >= n_sinks)
    tokens, size = Value(n, "n", "tokens so far"), Value(limit, "m", "tokens that the cache holds")
    kept = "first one as an attention sink" if n_sinks == 1 else f"first {n_sinks} as attention sinks"
    return Question(
        f"A cache holds at most {limit} tokens: the {kept}, and the latest ones. {n} tokens have been read, at "
        f"positions 0 to {n - 1}. What is the position of the oldest token in the cache that is not a sink?",
        NumberAnswer(
            oldest,
            wrong=known(
                (n - limit, "The sinks take places of the cache, so fewer of the latest tokens fit."),
                (oldest - 1, "That is the last token that was overwritten.") if n_sinks > 1 else None,
                (n_sinks, "That token has been overwritten."),
                (limit - n_sinks, "That is how many tokens there are beside the sinks."),
            ),
        ),
        f"Beside the sinks there is room for {limit} − {n_sinks} = {limit - n_sinks} tokens, the latest ones.",
        (Equation(tokens - (size - letter("A", n_sinks))),),
        ("decode", {"tab": "bounded", "bound": str(limit), "kept_first": str(n_sinks)}),
    )


@kind("cost", 2, "sinks-and-sharing", drawn=True)
def growth_behind_windows(rng: random.Random) -> Question:
    id, m = published_with(
        rng, lambda m: bool(m.sliding_window) and bool(m.full_layers) and m.attention != "mla"
    )  # fmt: skip
    precision = rng.choice(("bf16", "fp8"))
    bits, _ = PRECISIONS[precision]
    W, n_full = m.sliding_window, len(set(m.full_layers))
    assert W is not None
    grown = kv_cache_bytes(m, W + 1, bits=bits) - kv_cache_bytes(m, W, bits=bits)
    of_layer, width = grown // n_full, letter("b", bits // 8)
    n_layers = letter("L", n_full, "layers that attend to all tokens")
    return Question(
        f"{described(m)}. {layers_behind_a_window(m)}. By how many bytes does its cache in {precision} grow per token, "
        "once the text is longer than the window?",
        NumberAnswer(
            grown,
            "B",
            0.01,
            known(
                (of_layer * m.n_layers, "A layer whose window is full overwrites its oldest token."),
                (of_layer * (m.n_layers - n_full), "These are the layers that no longer grow.")
                if m.n_layers != 2 * n_full
                else None,
                (grown / 2, "You counted K and V once."),
                (of_layer, "That is for one layer."),
                ungrouped(m, grown, of_layer * m.n_layers, of_layer * (m.n_layers - n_full)),
            ),
        ),
        "Only the layers that attend to all tokens still grow, by a key and a value for each KV head.",
        (Equation(2 * n_layers * letter("K", m.n_kv_heads) * letter("D", m.head_dim) * width, unit="B"),),
        cache_page(id, precision=precision),
    )
