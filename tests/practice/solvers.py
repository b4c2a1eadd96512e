"""Solvers of the questions on MLA, context extension, windows, tensor parallelism, smaller caches, and tiles.

As those in `test_drill_numbers.py`, they get the text of a question alone, and count or search where they can.
"""

import math
import re
from collections.abc import Callable

import torch

from tests.reading import numbers_where

# ---- MLA


def mla_against_gqa(text: str) -> float:
    R, P, K, D = numbers_where(
        "kv_lora_rank # and qk_rope_head_dim #;.*query heads, # KV heads and head_dim #", text
    )  # fmt: skip
    return sum(2 * D for _ in range(int(K))) / (R + P)


def kv_heads_of_an_equal_cache(text: str) -> float:
    R, P, D = numbers_where("kv_lora_rank #, qk_rope_head_dim #.*head_dim # would", text)
    return (R + P) / D / 2


def expanded_against_latent(text: str) -> float:
    H, R, P, N, V = numbers_where(
        "with # heads, kv_lora_rank #, qk_rope_head_dim #, qk_nope_head_dim #, v_head_dim #", text
    )
    return sum((N + P) + V for _ in range(int(H))) / (R + P)


def numbers_rotated_in_mla(text: str) -> float:
    H, P = numbers_where("with # heads.*qk_rope_head_dim #", text)
    return sum(P for _ in range(int(H))) + P


# ---- context extension


def position_after_interpolation(text: str) -> float:
    s, p = numbers_where("a factor of #.*position # before", text)
    return next(i for i in range(10**6) if i * s == p)


def interpolated_angle(text: str) -> float:
    s, D, base, j, p = numbers_where("factor of #.*rotates # dimensions.*base is #.*pair # .*position #", text)
    return p / s / base ** (2 * j / D)


def pairs_without_a_full_rotation(text: str) -> float:
    D, base, S = numbers_where("rotates # dimensions.*base is #, the context # tokens", text)
    return sum(S / base ** (2 * j / D) < 2 * math.pi for j in range(int(D) // 2))


def base_of_ntk_scaling(text: str) -> float:
    """Search for the base with which the slowest pair is slowed by the factor."""
    factor, D, base = numbers_where("with a factor of #,.*rotates # dimensions.*base is #:", text)
    low, high = base, 1000 * base
    for _ in range(200):
        middle = math.sqrt(low * high)
        slower = (middle / base) ** ((D - 2) / D) > factor
        low, high = (low, middle) if slower else (middle, high)
    return low


def scores_under_yarn(text: str) -> float:
    (s,) = numbers_where("YaRN, with a factor of #", text)
    q, k = (torch.tensor(2.0, dtype=torch.float64) * (0.1 * math.log(s) + 1) for _ in range(2))
    return float(q * k) / 4


def pairs_that_yarn_leaves(text: str) -> float:
    S, D, base = numbers_where("context of # tokens by .*rotates # dimensions.*base is #", text)
    least = 1.0 if "at least once" in text else numbers_where("at least # times", text)[0]
    return sum(S / base ** (2 * j / D) / (2 * math.pi) >= least for j in range(int(D) // 2))


def frequency_inside_the_ramp(text: str) -> float:
    """Interpolate between both frequencies."""
    if "YaRN" in text:
        s, first, last, j = numbers_where("factor of #. .*j₁ = # keep.*j₂ = # on.*frequency of pair #,", text)
        old = (last - j) / (last - first)
    else:
        s, many, turns = numbers_where("factor of #. .*rotate # times or more.*rotates # times", text)
        assert "once or less" in text
        old = (turns - 1) / (many - 1)
    return float(torch.lerp(torch.tensor(1 / s).double(), torch.tensor(1.0).double(), old))


# ---- windows and sinks


def reach_of_windows(text: str) -> float:
    """Follow the oldest position that each layer reads."""
    L, W = numbers_where("^# layers.*window of # tokens", text)
    position = 0
    for _ in range(int(L)):
        position = min(position - j for j in range(int(W)))
    return -position


def row_with_a_learned_sink(text: str) -> float:
    z, n, s = numbers_where("logit of #,.*attend to # keys, all with the score #", text)
    row = torch.tensor([*[s] * int(n), z], dtype=torch.float64).softmax(0)
    return float(row[:-1].sum())


def oldest_token_behind_sinks(text: str) -> float:
    """Drop the oldest token that is not a sink, one after the other."""
    limit, n = numbers_where("at most # tokens.*latest ones. # tokens have", text)
    n_sinks = 1 if "the first one" in text else numbers_where("the first # as", text)[0]
    held: list[int] = []
    for position in range(int(n)):
        if len(held) == limit:
            held.pop(int(n_sinks))
        held.append(position)
    return held[int(n_sinks)]


def growth_behind_windows(text: str) -> float:
    K, D, n_full = numbers_where(r"# KV heads?, head_dim #\. # layers attend to all tokens", text)
    return n_full * (K * D + K * D) * (2 if "bf16" in text else 1)


# ---- tensor parallelism


def _read_on_each(text: str) -> list[set[int]]:
    """Return the KV heads that the query heads of each GPU read, head by head."""
    H, K = map(int, numbers_where("# query heads(?: and|,) # KV heads?", text))
    (n,) = map(int, numbers_where("(?:among|on|over) # GPUs", text))
    return [{h // (H // K) for h in range(rank * H // n, (rank + 1) * H // n)} for rank in range(n)]


def kv_heads_on_a_gpu(text: str) -> float:
    (held,) = {len(read) for read in _read_on_each(text)}
    return held


def copies_of_a_cache(text: str) -> float:
    read = _read_on_each(text)
    return sum(map(len, read)) / len(set().union(*read))


def cache_on_a_gpu(text: str) -> float:
    if "kv_lora_rank" in text:
        L, R, P = numbers_where("# layers.*kv_lora_rank #, qk_rope_head_dim #", text)
        return 2 * L * (R + P)
    L, D = numbers_where("# layers.*head_dim #", text)
    return 2 * L * D * 2 * max(map(len, _read_on_each(text)))


# ---- smaller caches


def times_smaller_when_quantised(text: str) -> float:
    """Count the bits of as many numbers as share a scale."""
    scale, block = numbers_where("a #-bit scale per # numbers", text)
    bits = int(re.search(r"int(\d)", text)[1])
    return 16 * block / (bits * block + scale)


def cache_shared_by_layers(text: str) -> float:
    L, K, D, run = numbers_where("# layers.*, # KV heads?, head_dim #.*each run of # layers", text)
    return sum(2 * K * D * 2 for layer in range(int(L)) if layer % run == 0)


def integer_of_a_quantised_number(text: str) -> float:
    m, largest, x = numbers_where("to #, with one scale.*them is #. As which integer is # stored", text)
    return min(range(-int(m), int(m) + 1), key=lambda stored: abs(stored * largest / m - x))


def read_back_after_quantising(text: str) -> float:
    m, largest, x = numbers_where("to #, with one scale.*them is #. What is read back for #", text)
    return min((stored * largest / m for stored in range(-int(m), int(m) + 1)), key=lambda read: abs(read - x))


def quantised_beside_an_outlier(text: str) -> float:
    *keys, m, token = numbers_where(
        r"\(#, #\), \(#, #\) and \(#, #\).*to #, with one scale.*second channel of token #", text
    )
    channel = keys[1::2]
    step = max(map(abs, channel)) / m
    return min((n * step for n in range(-int(m), int(m) + 1)), key=lambda read: abs(read - channel[int(token)]))


# ---- prefixes, speculation, tiles


def tokens_after_a_cached_prefix(text: str) -> float:
    size, n, prefix = numbers_where("blocks of # tokens. A prompt of # tokens begins with the same # tokens", text)
    reused = 0
    while reused + size <= prefix:
        reused += size
    return n - reused


def _distributions(text: str) -> tuple[list[float], list[float]]:
    shares = [int(share) / 100 for share in re.findall(r"(\d+)%", text)]
    half = len(shares) // 2
    assert math.isclose(sum(shares[:half]), 1) and math.isclose(sum(shares[half:]), 1)
    return shares[:half], shares[half:]


def chance_of_acceptance(text: str) -> float:
    q, p = _distributions(text)
    return sum(a * min(1, b / a) for a, b in zip(q, p, strict=True))


def drawn_after_a_rejection(text: str) -> float:
    """By Bayes' rule: the model's probability, less what accepted proposals give, of all that is rejected."""
    q, p = _distributions(text)
    (i,) = numbers_where("is token # drawn", text)
    rejected = 1 - sum(a * min(1, b / a) for a, b in zip(q, p, strict=True))
    a, b = q[int(i) - 1], p[int(i) - 1]
    return (b - a * min(1, b / a)) / rejected


def traffic_of_tiles(text: str) -> float:
    """Count the numbers that are moved, row by row and block by block."""
    D, T, block = numbers_where("width # on # tokens.*tiles of # queries", text)
    written_out = sum(D * 4 for _ in range(int(T))) + 4 * T * T
    tiled = sum(2 * min(block, T - first) * D + 2 * T * D for first in range(0, int(T), int(block)))
    return written_out / tiled


NEWER: dict[str, Callable[[str], float]] = {
    each.__name__: each
    for each in (
        mla_against_gqa, kv_heads_of_an_equal_cache, expanded_against_latent, numbers_rotated_in_mla,
        position_after_interpolation, interpolated_angle, pairs_without_a_full_rotation, base_of_ntk_scaling,
        scores_under_yarn, pairs_that_yarn_leaves, frequency_inside_the_ramp, reach_of_windows, row_with_a_learned_sink,
        oldest_token_behind_sinks, growth_behind_windows, kv_heads_on_a_gpu, copies_of_a_cache, cache_on_a_gpu,
        times_smaller_when_quantised, cache_shared_by_layers, integer_of_a_quantised_number, read_back_after_quantising,
        quantised_beside_an_outlier, tokens_after_a_cached_prefix, chance_of_acceptance, drawn_after_a_rejection,
        traffic_of_tiles,
    )
}  # fmt: skip
