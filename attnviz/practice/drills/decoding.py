"""Questions on decoding: the cache, sampling and speed. Answers come from attnviz.decode and attnviz.cost."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial

import torch

from attnviz.config import ModelConfig
from attnviz.cost import (
    Accelerator,
    DecodeStep,
    count_parameters,
    decode_cost,
    decode_step,
    kv_cache_bytes,
    load_accelerators,
    load_described,
)
from attnviz.cost.cached import cached_in_layer, cached_per_token
from attnviz.decode.sampling import keep_top_k, keep_top_p, scale_by_temperature
from attnviz.equations import Equation, Value, function, total
from attnviz.mechanisms import letter
from attnviz.modules import KVCache
from attnviz.phrases import count
from attnviz.practice.drills.answers import NumberAnswer, in_full, known
from attnviz.practice.drills.cost import cache_page, is_plain, plain
from attnviz.practice.drills.question import Options, Question, kind, tries
from attnviz.practice.drills.ranks import ranked


def sampled(temperature: float = 1, top_k: int = 0, top_p: float = 1) -> tuple[str, dict[str, str]]:
    """Return the page and settings that sample with these filters and no other one."""
    return "decode", {"temperature": f"{temperature:g}", "top_k": str(top_k), "top_p": f"{top_p:g}"}


@kind("decoding", 1, "next-token")
def position_of_the_next(rng: random.Random) -> Question:
    prompt, new = rng.randrange(3, 60), rng.randrange(2, 20)
    cache = KVCache()
    for T in (prompt, *(1 for _ in range(new - 1))):
        cache.append(torch.empty(1, 1, T, 1, device="meta"), torch.empty(1, 1, T, 1, device="meta"))
    p, n = letter("S", prompt, "tokens of the prompt"), Value(new, "n", "new token, from 1")
    return Question(
        f"A prompt of {prompt} tokens is cached, with positions from 0. {new} tokens are generated one by one, and "
        f"each is fed back. At which position does RoPE rotate new token number {new}, counted from 1?",
        NumberAnswer(
            len(cache),
            wrong=known(
                (prompt + new, "Positions are counted from 0."),
                (new, "Positions continue after the prompt."),
                (0, "Positions do not restart at each step."),
            ),
        ),
        "The position is the number of tokens cached before it.",
        (Equation(p + n - 1),),
        ("steps", {"tab": "step"}),
    )


@kind("decoding", 1, "cache-cost", drawn=True)
def numbers_added(rng: random.Random) -> Question:
    id, m = plain(rng, "mha", "gqa")
    added = cached_per_token(m)
    ungrouped = cached_per_token(m.with_kv_heads(m.n_heads)).value, "Only the KV heads are cached."
    return Question(
        f"{m.name}: {m.n_layers} layers, {m.n_heads} query heads, {m.n_kv_heads} KV heads, head_dim {m.head_dim}. "
        "How many numbers does one decode step of one sequence add to the cache?",
        NumberAnswer(
            added.value,
            wrong=known(
                (added.value / 2, "You counted K and V once."),
                ungrouped if m.group_size > 1 else None,
                (cached_in_layer(m.mixer).value, "Each layer has its own cache."),
            ),
        ),
        "A decode step adds one key and one value for each KV head of each layer.",
        (Equation(added),),
        cache_page(id, context=1),
    )


@kind("decoding", 2, "next-token")
def scores_with_a_cache(rng: random.Random) -> Question:
    T = rng.choice((10, 20, 50, 100))
    n = letter("T", T, "tokens")
    with_cache = sum(range(1, T + 1))
    return Question(
        f"One head reads {T} tokens one by one, beginning with an empty cache. How many scores q · k does it compute?",
        NumberAnswer(
            with_cache,
            wrong=known(
                (
                    sum(t * t for t in range(1, T + 1)),
                    "That is without a cache, when every step recomputes all scores.",
                ),
                (T * T, "Step t has t keys, not T."),
                (T, "Each step compares the query with all keys so far."),
                (with_cache - T, "A query also attends to its own key."),
            ),
        ),
        "Step t compares one query with t keys.",
        (Equation(n * (n + 1) / 2),),
        ("decode", {"tab": "with"}),
    )


@kind("decoding", 1, "next-token")
def most_probable(rng: random.Random) -> Question:
    a, b = sorted(rng.sample(range(1, 6), 2), reverse=True)
    logits = torch.tensor([float(a), float(b)], dtype=torch.float64)
    T = rng.choice((0.5, 2.0))
    odds = scale_by_temperature(logits, T).softmax(-1)
    x, y, t = Value(a, "x", "first logit"), Value(b, "y", "second logit"), Value(T, "τ", "temperature", latex=r"\tau")
    return Question(
        f"Two tokens have the logits {a} and {b}. How many times as probable as the second is the first at "
        f"temperature {T:g}?",
        NumberAnswer(
            float(odds[0] / odds[1]),
            tolerance=0.01,
            wrong=known(
                (math.exp(a - b), "That is the ratio at temperature 1."),
                (math.exp((a - b) * T), "Logits are divided by the temperature."),
                (a / b, "Take the exponentials of the logits."),
            ),
        ),
        "Logits are divided by the temperature; the ratio is the exponential of their difference.",
        (Equation(function("exp", (x - y) / t)),),
        sampled(temperature=T),
    )


def _distribution(rng: random.Random, n: int) -> list[int]:
    """Draw n distinct percentages that sum to 100, largest first."""
    for _ in tries():
        cuts = sorted(rng.sample(range(1, 100), n - 1))
        shares = sorted((b - a for a, b in zip((0, *cuts), (*cuts, 100), strict=True)), reverse=True)
        if len(set(shares)) == n:
            return shares
    raise AssertionError("tries() ends with an error")


def _cuts(shares: list[int], sums: list[int]) -> list[int]:
    """List the p, in per cent, that are not near a cumulative sum and that too few of the shares reach alone."""
    kept = {x: sum(s < x for s in sums) + 1 for x in range(30, 97) if min(abs(x - s) for s in sums) > 1}
    return [x for x, n in kept.items() if abs(sum(s >= 100 - x for s in shares) - n) > 1] or list(kept)


@kind("decoding", 2, "next-token")
def kept_by_top_p(rng: random.Random) -> Question:
    shares = _distribution(rng, 6)
    sums = [sum(shares[: i + 1]) for i in range(6)]
    p = rng.choice(_cuts(shares, sums))
    logits = torch.tensor(shares, dtype=torch.float64).log()
    kept = int(keep_top_p(logits, p / 100).isfinite().sum())
    return Question(
        f"Six tokens have the probabilities {', '.join(f'{s}%' for s in shares)}. How many does top-p with p = "
        f"{p / 100:g} keep?",
        NumberAnswer(
            kept,
            wrong=known(
                (kept - 1, "The token at which the sum reaches p is also kept."),
                (
                    sum(s >= 100 - p for s in shares),
                    "p is compared with the cumulative sum, not with each probability.",
                ),
                (kept + 1, "The sum reaches p one token earlier.") if kept < len(shares) else None,
            ),
        ),
        f"The cumulative sums are {', '.join(f'{s}%' for s in sums)}; top-p keeps the fewest tokens that reach {p}%.",
        link=sampled(top_p=p / 100),
    )


@kind("decoding", 2, "next-token")
def probability_after_top_k(rng: random.Random) -> Question:
    shares, k = _distribution(rng, 5), rng.choice((2, 3))
    probability = float(keep_top_k(torch.tensor(shares, dtype=torch.float64).log(), k).softmax(-1)[0])
    values = [Value(s, f"p{i + 1}", f"per cent of token {i + 1}") for i, s in enumerate(shares[:k])]
    return Question(
        f"Five tokens have the probabilities {', '.join(f'{s}%' for s in shares)}. What is the probability of the "
        f"first token after top-k with k = {k}, as a number from 0 to 1?",
        NumberAnswer(
            probability,
            tolerance=0.01,
            wrong=known(
                (shares[0] / 100, "The remaining probabilities are renormalised to sum to 1."),
                (1 / k, "The ratios of the remaining probabilities stay the same; they are not equal."),
                (100 * probability, "Give a number from 0 to 1, not a percentage."),
            ),
        ),
        "Top-k sets the other probabilities to 0 and divides the remaining ones by their sum.",
        (Equation(values[0] / total(values)),),
        sampled(top_k=k),
    )


def on_a_machine(
    rng: random.Random, wanted: Callable[[ModelConfig, Accelerator], bool]
) -> tuple[str, ModelConfig, Accelerator] | None:
    """Draw a published model, its id, and an accelerator that are `wanted` together; None if no pair is."""
    machines = load_accelerators()
    models = {id: m for id, m in load_described().items() if m.attention in ("mha", "gqa") and is_plain(m)}
    pairs = {f"{id} on {machine}": (id, machine) for id in models for machine in machines}
    for name in ranked(rng, pairs):
        id, machine = pairs[name]
        if wanted(models[id], machines[machine]):
            return id, models[id], machines[machine]
    return None


def _fitting(
    rng: random.Random, batches: Sequence[int], contexts: Sequence[int], bound: str, least_cache: float = 0.0
) -> tuple[str, ModelConfig, Accelerator, int, int]:
    """Draw a model and its id, an accelerator, a batch and a context of at most the model's context length, such that
    bf16 weights and caches fit in memory.

    bound: the limit of the step, "memory" or "compute". least_cache: bytes of cache per byte of weights.
    """
    for _ in tries():
        batch, tokens = rng.choice(batches), rng.choice(contexts)
        fits = partial(_fits, batch=batch, tokens=tokens, bound=bound, least_cache=least_cache)
        if found := on_a_machine(rng, fits):
            return *found, batch, tokens
    raise AssertionError("tries() ends with an error")


def in_16_bits(a: Accelerator) -> str:
    """Return the 16-bit format in which the accelerator reaches its peak."""
    return "bf16" if a.bf16 else "fp16"


def _fits(m: ModelConfig, a: Accelerator, batch: int, tokens: int, bound: str, least_cache: float) -> bool:
    """Check the context length, the memory, and that the step is clearly limited by `bound`."""
    if m.max_context is None or tokens > m.max_context:
        return False
    n_bytes, step = _step(m, batch, tokens)
    if n_bytes > a.memory or step.cache_bytes < least_cache * step.weight_bytes:
        return False  # most pairs, before what takes longer
    reading, arithmetic = (step.weight_bytes + step.cache_bytes) / a.bandwidth, step.flops / a.flops  # seconds
    by_weights = batch * step.weight_bytes / a.flops  # from what the question gives: 2 FLOPs per weight of 2 B
    if bound == "compute":  # near the ridge it depends on what one counts
        return arithmetic >= 2 * reading and by_weights > reading
    return 2 * arithmetic <= reading and by_weights <= reading


@lru_cache(maxsize=1024)
def _step(m: ModelConfig, batch: int, tokens: int) -> tuple[int, DecodeStep]:
    """Return the bytes of bf16 weights and caches, and the step; every model may be tried on every accelerator."""
    return 2 * count_parameters(m).total + kv_cache_bytes(m, tokens, batch), decode_step(m, tokens, batch)


@kind("decoding", 2, "next-token", drawn=True)
def what_bounds(rng: random.Random) -> Question:
    bound = rng.choice(("memory", "compute"))  # else nine of ten that fit would be limited by memory
    id, m, a, batch, tokens = _fitting(rng, (1, 8, 256, 1024), (128, 2048, 16384), bound)
    step = decode_step(m, tokens, batch)
    names = {"memory": "memory bandwidth", "compute": "arithmetic"}
    found = step.bound_by(a)
    other = names["compute" if found == "memory" else "memory"]
    reading, arithmetic = 1e3 * step.reading_seconds(a), 1e3 * step.flops / a.flops
    wrong = [
        (other, f"At their peaks, reading takes {reading:.3g} ms and the arithmetic {arithmetic:.3g} ms."),
        ("both take equally long", f"They do at the ridge, {a.ridge:.0f} FLOPs per byte read."),
    ]
    return Question(
        f"{m.name} in {in_16_bits(a)}, of which a step reads {step.weight_bytes / 1e9:.3g} GB of weights, decodes "
        f"{count(batch, 'sequence')} "
        f"of {tokens:,} tokens at once, with {step.cache_bytes / 1e9:.3g} GB of cache. One {a.name} reads "
        f"{a.bandwidth / 1e12:.3g} TB/s and computes {a.flops / 1e12:,.0f} TFLOP/s, both at their peak: which limits "
        "the speed of a step?",
        Options(names[found], wrong).shuffled(rng),
        f"The step does {step.intensity:.1f} FLOPs per byte read, and the accelerator's ridge is "
        f"{a.ridge:.0f} FLOPs per byte: below it, memory bandwidth is the limit; above it, arithmetic.",
        (
            Equation(in_full(decode_cost(m, tokens, batch)), "f", meaning="FLOPs per step"),
            Equation(in_full(step.intensity_cost()), unit="FLOPs per byte", digits=1),
            Equation(a.ridge_cost(), "ridge", r"\text{ridge}", unit="FLOPs per byte", digits=1),
        ),
        ("cost", {"preset": id, "machine": a.id, "context": str(tokens), "batch": str(batch), "tab": "speed"}),
    )


@kind("decoding", 3, "cache-cost", drawn=True)
def tokens_per_second(rng: random.Random) -> Question:
    id, m, a, _, tokens = _fitting(rng, (1,), (1024, 8192, 32768), "memory", least_cache=0.05)
    step = decode_step(m, tokens)
    seconds = Fraction(step.weight_bytes + step.cache_bytes) / Fraction(a.bandwidth)
    return Question(
        f"{m.name} in {in_16_bits(a)} on one {a.name}: a step reads {step.weight_bytes:,} B of weights and "
        f"{step.cache_bytes:,} B of cache, at {a.bandwidth / 1e12:g} TB/s. What is the maximum number of tokens per "
        "second for one sequence?",
        NumberAnswer(
            step.tokens_per_second(a),
            "tokens/s",
            0.02,
            known(
                (a.bandwidth / step.weight_bytes, "The cache is read as well."),
                (float(seconds), "That is the time per step in seconds."),
                (1e3 * float(seconds), "That is the time per step in milliseconds."),
            ),
        ),
        "Each step reads these weights and the whole cache once; at batch size 1, memory bandwidth is the limit.",
        (Equation(a.rate() / in_full(step.read()), unit="tokens/s"),),
        ("cost", {"preset": id, "machine": a.id, "context": str(tokens), "tab": "speed"}),
    )


@kind("decoding", 3, "next-token")
def speculated(rng: random.Random) -> Question:
    a, k = rng.choice((0.5, 0.6, 0.7, 0.8, 0.9)), rng.choice((2, 3, 4, 5))
    expected = sum(a**i for i in range(k + 1))
    rate, drafted = (
        Value(a, "α", "chance that a proposed token is accepted", latex=r"\alpha"),
        Value(k, "k", "proposed tokens"),
    )
    return Question(
        f"Speculative decoding proposes {k} tokens per pass; each is accepted independently with probability {a}, up "
        "to the first rejection. How many tokens does one pass of the model write on average?",
        NumberAnswer(
            expected,
            "tokens",
            0.01,
            known(
                (a * k, "A rejection ends the pass, and the model adds a token of its own."),
                (expected - 1, "You left out the model's own token."),
                (a * k + 1, "A rejection ends the pass: the tokens proposed after it are lost."),
                (k + 1, "That is if all proposed tokens are accepted."),
            ),
        ),
        "1 + α + α² + … + α^k: the accepted tokens, plus one token of the model itself (arXiv 2211.17192).",
        (Equation((1 - rate ** (drafted + 1)) / (1 - rate), unit="tokens"),),
        ("decode", {"tab": "speculate", "proposed": str(k)}),
    )


@kind("decoding", 3, "cache-cost", drawn=True)
def cache_as_large_as_the_weights(rng: random.Random) -> Question:
    """Ask for the tokens of all sequences together at which the caches are as large as the weights."""
    id, m = plain(rng, "mha", "gqa")
    weights = 2 * count_parameters(m).total
    per_token = decode_step(m, 1).cache_bytes
    n = math.ceil(weights / per_token)
    number, size = letter("Nₚ", weights // 2), Value(per_token, "c", "bytes of cache per token")
    return Question(
        f"{m.name}: {weights / 2:,.0f} parameters, bf16, and {per_token:,} B of cache per token. From how many "
        "tokens on, summed over all sequences, are the caches at least as large as the weights?",
        NumberAnswer(
            n,
            "tokens",
            0.02,
            known(
                (n / 2, "bf16 takes 2 bytes per parameter."),
                (2 * n, "The bytes of cache per token already include K and V."),
            ),
        ),
        "Bytes of weights, divided by bytes of cache per token, and rounded up to whole tokens.",
        (Equation(function("ceil", 2 * number / size), unit="tokens"),),
        ("cost", {"preset": id, "tab": "memory", "context": str(n)}),  # one sequence as large as the weights
    )
