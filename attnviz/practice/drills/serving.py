"""Questions on serving: sequences that fit in memory, the time to the first token, the blocks of a paged cache.

Answers come from attnviz.cost and attnviz.decode.
"""

from __future__ import annotations

import math
import random
from functools import lru_cache

import torch

from attnviz.config import ModelConfig
from attnviz.cost import Accelerator, cache, count_parameters, plan_memory, prefill
from attnviz.cost.prefill import prefill_weights
from attnviz.decode.paged import BlockPool, PagedSequence, unused_slots
from attnviz.equations import Equation, Value, function, total
from attnviz.mechanisms import letter
from attnviz.practice.drills.answers import HALF, NumberAnswer, in_full, known
from attnviz.practice.drills.cost import described
from attnviz.practice.drills.decoding import in_16_bits, on_a_machine
from attnviz.practice.drills.question import Question, kind


@kind("cost", 3, "cache-cost", drawn=True)
def sequences_that_fit(rng: random.Random) -> Question:
    tokens = rng.choice((1024, 2048, 4096, 8192, 32768))
    found = on_a_machine(rng, lambda m, a: _fills(m, a, tokens))
    assert found is not None
    id, m, a = found
    memory, weights = _filled(m, a, tokens)[:2]
    number, size = letter("Nₚ", weights // 2), letter("b", 2)
    free = letter("M", memory) - size * number
    return Question(
        f"{described(m)}, {weights // 2:,} parameters. Weights and caches are in {in_16_bits(a)}. How many sequences "
        f"of {tokens:,} tokens fit beside the weights in the {memory / 2**30:.2f} GiB ({memory:,} B) of one "
        f"{a.name}, if nothing else is stored?",
        _number_that_fits(m, a, tokens),
        "The memory without the weights, divided by the cache of one sequence and rounded down.",
        (Equation(function("floor", free / cache(m, tokens, bits=16)), unit="sequences"),),
        ("cost", {"preset": id, "machine": a.id, "context": str(tokens), "reserve": "0", "tab": "memory"}),
    )


def _number_that_fits(m: ModelConfig, a: Accelerator, tokens: int) -> NumberAnswer:
    memory, weights, one, n = _filled(m, a, tokens)
    left = memory - weights
    ungrouped = left // (one * m.group_size), "Only the KV heads are cached."
    return NumberAnswer(
        n,
        "sequences",
        wrong=known(
            (n + 1, "The last of these does not fit: round down."),
            (left / one, "Only whole sequences fit: round down."),
            (left // (one // 2), "You counted K and V once."),
            (memory // one, "You left out the weights."),
            ((memory - weights // 2) // one, f"{in_16_bits(a)} takes 2 bytes per parameter."),
            ((memory / 2**30 * 1e9 - weights) // one, "1 GiB is 2³⁰ bytes, not 10⁹."),
            ungrouped if m.group_size > 1 else None,
        ),
    )


@lru_cache(maxsize=4096)
def _filled(m: ModelConfig, a: Accelerator, tokens: int) -> tuple[int, int, int, int]:
    """Return the bytes of the memory, of the bf16 weights and of one sequence's cache, and how many sequences fit."""
    plan = plan_memory(m, a.memory, tokens, reserve=0)
    return plan.memory, plan.weights, plan.cache_of_one, plan.n_users


def _fills(m: ModelConfig, a: Accelerator, tokens: int) -> bool:
    """Check that 2 to 100 sequences fit, that rounded bytes lead to the same number, and mistakes to others."""
    if m.max_context is None or tokens > m.max_context:
        return False
    memory, weights, one, n = _filled(m, a, tokens)
    exact = (memory - weights) / one
    if not 2 <= n <= 100 or not n < exact * (1 - 2 * HALF) < exact * (1 + 2 * HALF) < n + 1:
        return False
    return not _number_that_fits(m, a, tokens).clashes()


@kind("decoding", 2, "next-token", drawn=True)
def time_to_first_token(rng: random.Random) -> Question:
    tokens = rng.choice((512, 1536, 2048))  # not 1,024: one of 1,024 tokens takes about as many ms as all take s
    found = on_a_machine(rng, lambda m, a: _is_arithmetic(m, a, tokens))
    assert found is not None
    id, m, a = found
    prompt = prefill(m, tokens)
    attention = letter("Fₐ", prompt.attention_flops, "FLOPs of scores and weighted sums", digits=4, scientific=True)
    work = in_full(prefill_weights(m, tokens)) + attention
    return Question(
        f"{m.name} processes a prompt of {tokens:,} tokens at once on one {a.name}, at its peak of "
        f"{a.flops / 1e12:,g} TFLOP/s. The layers multiply {prompt.layer_weights:,} weights by each token, the output "
        f"layer {prompt.output_weights:,} by the last token alone, with 2 FLOPs per product; scores and weighted sums "
        f"take {prompt.attention_flops / 1e12:.5g} TFLOP. What is the time to the first token, in milliseconds?",
        _time_to_first_token(m, a, tokens),
        "A prompt's tokens share each weight that is read, so arithmetic is the limit. Only the last token needs the "
        "output layer.",
        (Equation(1000 * work / a.peak(), unit="ms"),),
        ("cost", {"preset": id, "machine": a.id, "context": str(tokens), "tab": "speed"}),
    )


def _time_to_first_token(m: ModelConfig, a: Accelerator, tokens: int) -> NumberAnswer:
    prompt, N = prefill(m, tokens), count_parameters(m).total
    milliseconds = 1e3 * prompt.flops / a.flops
    each = 1e3 * (2 * (prompt.layer_weights + prompt.output_weights) * tokens + prompt.attention_flops) / a.flops
    wrong = (
        (1e3 * (prompt.weight_flops / 2 + prompt.attention_flops) / a.flops, "A multiply-add is 2 FLOPs."),
        (each, "Only the last token needs the output layer."),
        (1e3 * prompt.weight_flops / a.flops, "You left out scores and weighted sums."),
        (milliseconds / 1e3, "That is the time in seconds."),
        (milliseconds / tokens, "That is for one token of the prompt."),
        (2e3 * N / a.bandwidth, "That is the time to read the weights, which limits a decode step."),
    )
    apart = [abs(value / milliseconds - 1) > 0.03 for value, _ in wrong]  # otherwise nobody can tell which it was
    return NumberAnswer(milliseconds, "ms", 0.01, known(*(pair for pair, ok in zip(wrong, apart, strict=True) if ok)))


def _is_arithmetic(m: ModelConfig, a: Accelerator, tokens: int) -> bool:
    """Check that 16-bit weights fit, that arithmetic limits a prompt, and that mistakes lead to other numbers."""
    if m.moe or m.max_context is None or tokens > m.max_context or a.memory < 2 * count_parameters(m).total:
        return False
    return prefill(m, tokens).bound_by(a) == "compute" and not _time_to_first_token(m, a, tokens).clashes()


@kind("decoding", 2)
def blocks_of_a_paged_cache(rng: random.Random) -> Question:
    size, asked = rng.choice((8, 16, 32)), rng.choice(("blocks", "slots"))
    lengths = rng.sample([n for n in range(3, 120) if n % size], 3)
    pool = BlockPool(1, sum(lengths), size)
    sequences = [PagedSequence(pool) for _ in lengths]
    for sequence, n in zip(sequences, lengths, strict=True):
        sequence.cache[0].append(torch.zeros(1, n, 1))
    tokens = [Value(n, f"n{i}", f"tokens of sequence {i}") for i, n in enumerate(lengths, 1)]
    slots_each = Value(size, "s", "slots per block")
    blocks = Equation(total([function("ceil", n / slots_each) for n in tokens]), "m", meaning="blocks allocated")
    slots = Equation(slots_each * Value(pool.n_used, "m", "blocks allocated") - total(tokens))
    pooled, filled = math.ceil(sum(lengths) / size), sum(lengths)
    apart = "The sequences share no block: round up for each of them."
    of_blocks = known(
        (pooled, apart),
        (sum(n // size for n in lengths), "A block that is filled in part is allocated as a whole."),
        (filled, "That is the number of tokens; a block has several slots."),
    )
    of_slots = known(
        (pooled * size - filled, apart),
        (pool.n_used * size, "That is the number of all slots, filled ones too."),
        (filled, "That is the number of filled slots."),
    )
    question = "How many blocks do they take?" if asked == "blocks" else "How many slots of their blocks are empty?"
    return Question(
        f"A paged KV cache has blocks of {size} slots, one per token. Three sequences without a common prefix hold "
        f"{lengths[0]}, {lengths[1]} and {lengths[2]} tokens. {question}",
        NumberAnswer(pool.n_used, "blocks", wrong=of_blocks)
        if asked == "blocks"
        else NumberAnswer(unused_slots(sequences), "slots", wrong=of_slots),
        "Each sequence fills blocks of its own, the last one in part.",
        (blocks,) if asked == "blocks" else (blocks, slots),
        ("decode", {"tab": "paged", "block_size": str(size)}),
    )


@kind("decoding", 2)
def tokens_after_a_cached_prefix(rng: random.Random) -> Question:
    size = rng.choice((8, 16, 32))
    prefix = size * rng.randrange(2, 9) + rng.randrange(1, size)
    n = prefix + rng.randrange(size // 2, 4 * size)
    sequence = PagedSequence(BlockPool(1, 16, size))
    sequence.prepare(0, prefix)
    reused = size * sum(size * (i + 1) <= prefix for i in range(len(sequence.table)))
    tokens, shared, block = (
        Value(n, "n", "tokens of the prompt"), Value(prefix, "p", "tokens of the common prefix"),
        Value(size, "z", "tokens per block"),
    )  # fmt: skip
    return Question(
        f"Prefix caching reuses whole blocks of {size} tokens. A prompt of {n} tokens begins with the same {prefix} "
        "tokens as one that is cached, and then differs. How many tokens does its prefill have to compute?",
        NumberAnswer(
            n - reused,
            "tokens",
            wrong=known(
                (n - prefix, "The last of the common tokens do not fill a block, so they are computed again."),
                (n - reused - size, "A block is reused only if all its tokens are the same."),
                (reused, "These are reused."),
                (n, "That is without prefix caching."),
            ),
        ),
        f"The {prefix} tokens fill {reused // size} whole blocks, so {reused} tokens are reused.",
        (Equation(tokens - block * function("floor", shared / block), unit="tokens"),),
        ("decode", {"tab": "paged", "block_size": str(size)}),
    )
