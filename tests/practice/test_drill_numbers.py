"""Solve every question with a number from its text alone, without the code that made it.

A solver gets only the text, so a size that the question leaves out cannot be used.
"""

import math
import re
from collections.abc import Callable

import pytest
import torch

from attnviz.cost import load_accelerators
from attnviz.practice.drills import KINDS
from attnviz.practice.drills.answers import NumberAnswer
from tests.practice.asked import make
from tests.practice.solvers import NEWER
from tests.reading import numbers_where

SEEDS = range(100)


def kv_head_read(text: str) -> float:
    H, K, h = numbers_where("# query heads and # KV heads.*query head # read", text)
    return h // (H / K)


def still_right_when_tiled(text: str) -> float:
    H, K = numbers_where("# query heads, # KV heads", text)
    return sum(h % K == h // (H // K) for h in range(int(H)))


def attention_parameters(text: str) -> float:
    C, H, K, D = numbers_where("d_model #, # query heads, # KV heads?, head_dim #", text)
    return C * H * D + C * K * D + C * K * D + H * D * C


def cache_per_token(text: str) -> float:
    L, K, D = numbers_where("# layers.*, # KV heads?, head_dim #", text)
    return L * K * D * 2 * 2


def cache_of_a_context(text: str) -> float:
    L, K, D, B, S = numbers_where("# layers.*, # KV heads?, head_dim #.*cache of # sequences? of # tokens", text)
    width = {"bf16": 2, "fp8": 1, "fp32": 4}[text.rpartition(" in ")[2].strip("?")]
    return 2 * L * K * D * S * B * width / 1024**3


def cache_with_scales(text: str) -> float:
    L, K, D, scale, block, S = numbers_where(
        "# layers.*, # KV heads?, head_dim #.*a #-bit scale per # numbers.*cache of # tokens", text
    )
    return 2 * L * K * D * S / block * (block * 4 + scale) / 8 / 1024**3


def cache_of_mla(text: str) -> float:
    L, R, P = numbers_where("# layers.*kv_lora_rank #, qk_rope_head_dim #", text)
    return 2 * L * (R + P)


def cache_behind_a_window(text: str) -> float:
    L, K, D = numbers_where("# layers.*, # KV heads?, head_dim #", text)
    (full,) = numbers_where("# layers attend to all tokens", text) if "all tokens" in text else (0,)
    window, S = numbers_where("sliding window of # tokens.*cache of one sequence of # tokens", text)
    return 2 * K * D * 2 * sum(S if layer < full else min(window, S) for layer in range(int(L))) / 1024**3


def feed_forward_parameters(text: str) -> float:
    C, F = numbers_where("d_model #, d_ff #", text)
    return C * F + C * F + F * C


def embedding_parameters(text: str) -> float:
    V, C = numbers_where("vocabulary of # tokens, d_model #", text)
    return V * C


def weights_in_memory(text: str) -> float:
    N, bits = numbers_where("has # parameters.*at # bits", text)
    scale, shared = numbers_where("a #-bit scale per # of", text) if "scale" in text else (0, 1)
    return (N * bits + N / shared * scale) / 8 / 1000**3


def numbers_added(text: str) -> float:
    L, K, D = numbers_where("# layers.*, # KV heads, head_dim #", text)
    return L * K * D + L * K * D


def scores_with_a_cache(text: str) -> float:
    (T,) = numbers_where("reads # tokens", text)
    return sum(t + 1 for t in range(int(T)))


def most_probable(text: str) -> float:
    a, b, T = numbers_where(r"logits # and #\..*temperature #\?", text)
    p = torch.tensor([a / T, b / T], dtype=torch.float64).softmax(0)
    return float(p[0] / p[1])


def kept_by_top_p(text: str) -> float:
    shares = [int(n) for n in re.findall(r"(\d+)%", text)]
    (p,) = numbers_where("p = #", text)
    kept, reached = 0, 0.0
    for share in sorted(shares, reverse=True):
        if reached >= 100 * p - 1e-9:
            break
        kept, reached = kept + 1, reached + share
    assert sum(shares) == 100 and len(shares) == 6
    return kept


def probability_after_top_k(text: str) -> float:
    shares = [int(n) for n in re.findall(r"(\d+)%", text)]
    (k,) = numbers_where("k = #", text)
    return shares[0] / sum(sorted(shares, reverse=True)[: int(k)])


def tokens_per_second(text: str) -> float:
    W, M, bandwidth = numbers_where("reads # B of weights and # B of cache, at # TB/s", text)
    return bandwidth * 1e12 / (W + M)


def speculated(text: str) -> float:
    """Sum over the number of accepted tokens: each pass also writes one token of the model."""
    k, a = numbers_where(r"proposes # tokens.*probability (\d\.\d)", text)
    chance = [a**n * (1 - a) for n in range(int(k))] + [a ** int(k)]
    return sum((n + 1) * p for n, p in enumerate(chance))


def cache_as_large_as_the_weights(text: str) -> float:
    N, per_token = numbers_where(": # parameters, bf16, and # B", text)
    return -(-2 * int(N) // int(per_token))


def position_of_the_next(text: str) -> float:
    prompt, new = numbers_where("prompt of # tokens.*new token number #", text)
    return [*range(int(prompt + new))][-1]


def keys_of_a_query(text: str) -> float:
    (t,) = numbers_where("may query # attend", text)
    return t + 1


def keys_in_a_window(text: str) -> float:
    w, t = numbers_where("window of # tokens.*may query # attend", text)
    (sinks,) = numbers_where("and # attention-sink", text) if "sink" in text else (0,)
    return sum(t - j < w or j < sinks for j in range(int(t) + 1))


def keys_with_a_cache(text: str) -> float:
    past, i = numbers_where("^# tokens are cached.*new token #", text)
    return past + i + 1


def masked_cells(text: str) -> float:
    T, _ = numbers_where("# × # cells", text)
    return sum(j > i for i in range(int(T)) for j in range(int(T)))


def score_of_two_vectors(text: str) -> float:
    D, dot = numbers_where("head_dim is #, and q · k = #", text)
    return dot / math.sqrt(D)


def weight_of_two(text: str) -> float:
    a, b = numbers_where(r"scores # and #\.", text)
    return 1 / (1 + math.exp(b - a))


def weight_beside_a_masked_key(text: str) -> float:
    a, b, _ = numbers_where("are #, #, #;", text)
    return 1 / (1 + math.exp(a - b))


def entropy_of_a_flat_row(text: str) -> float:
    (t,) = numbers_where("query # ", text)
    n = int(t) + 1
    return -sum(1 / n * math.log(1 / n) for _ in range(n))


def missing_weight(text: str) -> float:
    return round(1 - sum(float(w) for w in re.findall(r"\d\.\d\d", text)), 2)


def angle_of_a_pair(text: str) -> float:
    D, base, j, p = numbers_where(r"head_dim = #, base = #\..*pair # .*position #", text)
    return p / base ** (2 * j / D)


def wavelength(text: str) -> float:
    """Search for the number of tokens after which the angle is a full circle."""
    D, base, j = numbers_where(r"head_dim = #, base = #\..*pair # ", text)
    low, high = 0.0, 1e12
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if middle * base ** (-2 * j / D) > 2 * math.pi else (middle, high)
    return low


def partner(text: str) -> float:
    D, n = numbers_where("head_dim = #,.*with dimension #", text)
    if "half-split" in text:
        return (n + D / 2) % D
    return n + 1 if n % 2 == 0 else n - 1


def rotated_pair(text: str) -> float:
    """Multiply by e^(ip) in the complex plane."""
    a, b, p = numbers_where(r"holds \(#, #\).*position #", text)
    return (complex(a, b) * complex(math.cos(p), math.sin(p))).real


def place_in_the_other_layout(text: str) -> float:
    D, n = numbers_where("head_dim = #.*does dimension #", text)
    return [*range(0, int(D), 2), *range(1, int(D), 2)].index(int(n))


def how_many_pairs(text: str) -> float:
    (D,) = numbers_where("RoPE rotates #", text) if "RoPE rotates" in text else numbers_where("head_dim = #", text)
    return D / 2


def merge_of_two_tiles(text: str) -> float:
    m1, l1, o1, m2, l2, o2 = numbers_where("m₁ = #, l₁ = #, o₁ = #. Tile 2: m₂ = #, l₂ = #, o₂ = #", text)
    e1, e2 = math.exp(m1), math.exp(m2)
    return (o1 * e1 + o2 * e2) / (l1 * e1 + l2 * e2)


def sequences_that_fit(text: str) -> float:
    L, K, D, N, S, memory = numbers_where(
        r"# layers.*, # KV heads?, head_dim #, # parameters.* of # tokens.*\(# B\)", text
    )
    return (memory - 2 * N) // (4 * L * K * D * S)


def time_to_first_token(text: str) -> float:
    """Count the FLOPs token by token."""
    T, peak, layers, output, rest = numbers_where(
        "prompt of # tokens.* of # TFLOP/s.*multiply # weights.*layer # by the last.*sums take # TFLOP", text
    )
    flops = sum(2 * layers + (2 * output if t + 1 == T else 0) for t in range(int(T))) + rest * 1e12
    return flops / (peak * 1e12) * 1e3


def blocks_of_a_paged_cache(text: str) -> float:
    size, a, b, c = numbers_where("blocks of # slots.*hold #, # and # tokens", text)
    blocks = sum(-(-n // size) for n in (a, b, c))
    return blocks if "How many blocks" in text else blocks * size - a - b - c


def how_many_scores(text: str) -> float:
    B, T, H = numbers_where("# texts of # tokens, # query heads", text)
    return B * H * T * T


def size_of_a_group(text: str) -> float:
    H, K = numbers_where("has # query heads and # KV heads", text)
    return H / K


def width_of_a_head(text: str) -> float:
    C, H = numbers_where("d_model = #, # query heads", text)
    return C / H


def size_of_a_state(text: str) -> float:
    H, D, V, size = numbers_where("# value heads? and .*keys of width # and values of width #. .*has # bytes per", text)
    return sum(size for _ in range(int(D * V))) * H


def when_a_state_is_smaller(text: str) -> float:
    H, D, V, size, K, width = numbers_where("state of # × # × # numbers of # bytes.*values of # KV.*head_dim #", text)
    per_token = 2 * K * width * {"bf16": 2, "fp8": 1}[text.partition("head_dim")[2].split(".")[0].split()[-1]]
    return next(n for n in range(10**6) if H * D * V * size < n * per_token)


def half_of_a_write(text: str) -> float:
    """Halve the interval in which the share that is left passes one half."""
    (given,) = numbers_where("exp.g. with g = #", text) if "exp" in text else numbers_where("α = # at", text)
    decay = math.exp(given) if "exp" in text else given
    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if decay**middle > 0.5 else (low, middle)
    return low


def left_of_a_write(text: str) -> float:
    return math.prod(float(decay) for decay in re.findall(r"0\.\d", text)[1:])


def left_by_channel(text: str) -> float:
    """Update and read the state channel by channel, token by token."""
    k1, k2, n, a, b = numbers_where(r"key \(#, #\), .*each of the # tokens .*decays \(#, #\)", text)
    state = {(k1, a): k1, (k2, b): k2}
    for _ in range(int(n)):
        state = {(k, decay): held * decay for (k, decay), held in state.items()}
    return sum(k * held for (k, _), held in state.items())


SOLVERS: dict[str, Callable[[str], float]] = {
    each.__name__: each
    for each in (
        kv_head_read, still_right_when_tiled, attention_parameters, cache_per_token, cache_of_a_context,
        cache_with_scales, cache_of_mla, cache_behind_a_window, feed_forward_parameters, embedding_parameters,
        weights_in_memory, numbers_added, scores_with_a_cache, most_probable, kept_by_top_p, probability_after_top_k,
        tokens_per_second, speculated, cache_as_large_as_the_weights, position_of_the_next, keys_of_a_query,
        keys_in_a_window, keys_with_a_cache, masked_cells, score_of_two_vectors, weight_of_two,
        weight_beside_a_masked_key, entropy_of_a_flat_row, missing_weight, angle_of_a_pair, wavelength, partner,
        rotated_pair, place_in_the_other_layout, how_many_pairs, merge_of_two_tiles,
        sequences_that_fit, time_to_first_token, blocks_of_a_paged_cache, how_many_scores, size_of_a_group,
        width_of_a_head, size_of_a_state, when_a_state_is_smaller, half_of_a_write, left_of_a_write, left_by_channel,
    )
} | {"times_smaller": size_of_a_group, **NEWER}  # fmt: skip


def test_each_question_with_a_number_has_a_solver():
    with_number = {name for name in KINDS if isinstance(make(name, 1).answer, NumberAnswer)}
    assert with_number - {"wrong_line"} == set(SOLVERS)  # its lines are run below


@pytest.mark.parametrize("name", SOLVERS)
def test_a_number_follows_from_what_the_question_gives(name):
    """The solver knows the text only, so a size that the question leaves out cannot be used."""
    for seed in SEEDS:
        question = make(name, seed)
        solved = SOLVERS[name](question.text)
        assert question.answer.value == pytest.approx(solved, rel=1e-5, abs=1e-9), question.text
        assert question.grade(repr(solved)).right and question.grade(f"{solved:.4g}").right == (
            bool(question.answer.tolerance) or float(f"{solved:.4g}") == solved
        )


@pytest.mark.parametrize("name", ["what_bounds", "tokens_per_second", "sequences_that_fit"])
def test_an_accelerator_without_bf16_is_asked_about_in_fp16(name):
    machines, seen = load_accelerators(), set()
    for seed in range(300):
        question = make(name, seed)
        machine = machines[question.link[1]["machine"]]
        said = set(
            re.findall(
                r"\b(?:bf16|fp16)\b",
                question.text + "".join(map(str, question.answer.wrong if hasattr(question.answer, "wrong") else [])),
            )
        )
        assert said == {"bf16" if machine.bf16 else "fp16"}, question.text
        seen |= said
    assert seen == {"bf16", "fp16"}
