"""Questions on parameters and cache of published models. Answers come from attnviz.cost, solutions from the formula."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from attnviz.config import ModelConfig
from attnviz.cost import PRECISIONS, bits_with_scales, cache, count_parameters, kv_cache_bytes, weights
from attnviz.cost.cached import cache_parts, cached_per_token
from attnviz.cost.precisions import SCALE_BITS
from attnviz.cost.sums import width
from attnviz.equations import Equation, Value, total
from attnviz.mechanisms import LETTERS, letter
from attnviz.phrases import count
from attnviz.practice.drills.answers import ExpressionAnswer, NumberAnswer, known
from attnviz.practice.drills.heads import page, parts_page, published, published_with
from attnviz.practice.drills.question import Question, kind


def cache_page(id: str, **amounts: object) -> tuple[str, dict[str, str]]:
    """Return the page and settings that show the formula of a published model's cache with its numbers. amounts: the
    context, the batch, the precision."""
    path, link = parts_page(id)
    return path, link | {name: str(amount) for name, amount in amounts.items()}


def context_of(rng: random.Random, m: ModelConfig, *sizes: int) -> int:
    """Draw a number of tokens up to the model's context length, which is drawn if all sizes are above it."""
    assert m.max_context is not None
    return rng.choice([size for size in sizes if size <= m.max_context] or [m.max_context])


def described(m: ModelConfig) -> str:
    """Describe the sizes that a question about cache or parameters needs."""
    heads = f"{m.n_heads} query heads, {count(m.n_kv_heads, 'KV head')}, head_dim {m.head_dim}"
    return f"{m.name}: {m.n_layers} layers, d_model {m.d_model:,}, {heads}"


def plain(rng: random.Random, *kinds: str) -> tuple[str, ModelConfig]:
    """Draw a published model of these attention types, and its id, that `is_plain`."""
    return published_with(rng, lambda m: m.attention in kinds and is_plain(m))


def is_plain(m: ModelConfig) -> bool:
    """Check that the attention has no sliding window, biases, norms or attention sinks."""
    return m.sliding_window is None and not (m.qkv_bias or m.o_bias or m.qk_norm or m.attention_sinks)


def ungrouped(m: ModelConfig, size: float, *others: float) -> tuple[float, str] | None:
    """Return the mistake of counting all query heads; None in MHA, and where one of the others leads to its number."""
    value = size * m.group_size
    if m.group_size == 1 or any(math.isclose(value, other, rel_tol=0.03) for other in others):
        return None
    return value, "That is the size with all query heads; only the KV heads are cached."


@kind("cost", 1, "model-card", drawn=True)
def attention_parameters(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: m.attention in ("mha", "gqa", "mqa") and is_plain(m) and _tells_k_and_v(m))
    q, kv = (int(weights.matrix(m, name).value) for name in ("q", "k"))
    grouped = (
        (4 * q, "You counted k and v with all query heads; they have only the KV heads."),
        (2 * q + kv, "You counted k and v once."),
        (q + 2 * kv, "You left out o or q."),
        (3 * q, "You left out o, and k and v have only the KV heads."),
    )
    return Question(
        f"{described(m)}; no biases. How many parameters do the q, k, v and o projections of one layer have together?",
        NumberAnswer(
            count_parameters(m).attention_per_layer,
            tolerance=0.01,
            wrong=known(
                *(grouped if kv < q else [(3 * q, "You counted three of the four projections.")]),
                ((2 * q + 2 * kv) * m.n_layers, "That is for all layers."),
            ),
        ),
        "q and o have H heads each, k and v have K.",
        (Equation(weights.attention_parameters(m)),),
        parts_page(id),
    )


def _tells_k_and_v(m: ModelConfig) -> bool:
    """Check that k and v counted once are clearly less: of 71 query heads and 1 KV head, that is 0.7 %."""
    return 0.5 * m.n_kv_heads / (m.n_heads + m.n_kv_heads) > 0.025


@kind("cost", 1, "shared-kv-heads", "cache-cost", drawn=True)
def cache_per_token(rng: random.Random) -> Question:
    id, m = plain(rng, "mha", "gqa", "mqa")
    size = kv_cache_bytes(m, 1)
    return Question(
        f"{described(m)}. How many bytes does the cache take per token, in bf16?",
        NumberAnswer(
            size,
            "B",
            0.01,
            known(
                (size / 2, "You counted K and V once, or 1 byte per number."),
                (size / m.n_layers, "That is for one layer."),
                ungrouped(m, size),
                (size * 2, "bf16 takes 2 bytes per number.") if m.group_size != 2 else None,
            ),
        ),
        "For K and V, each layer and each KV head: head_dim numbers of 2 bytes.",
        (Equation(cached_per_token(m, 16), unit="B"),),
        cache_page(id, context=1),
    )


@kind("cost", 2, "cache-cost", drawn=True)
def cache_of_a_context(rng: random.Random) -> Question:
    id, m = plain(rng, "mha", "gqa", "mqa")
    tokens, batch = context_of(rng, m, 2048, 4096, 8192, 32768, 131072), rng.choice((1, 1, 4, 16))
    precision = rng.choice(("bf16", "fp8", "fp32"))
    bits, _ = PRECISIONS[precision]
    size = kv_cache_bytes(m, tokens, batch, bits)
    gib = size / 2**30
    halved = "You counted K and V once." if bits <= 16 else "You counted K and V once, or 2 bytes per number."
    wrong = [(gib / 2, halved), (size / 1e9, "That is the size in GB; give it in GiB.")]
    if m.group_size > 1:
        wrong.append((gib * m.group_size, f"That is the size with {m.n_heads} KV heads."))
    if batch > 1:
        wrong.append((gib / batch, "That is for one sequence."))
    if bits < 16 and m.group_size != 2:
        wrong.append((gib * 16 / bits, f"{precision} takes {count(bits // 8, 'byte')} per number."))
    return Question(
        f"{described(m)}. How many GiB does the cache of {count(batch, 'sequence')} of {tokens:,} tokens "
        f"take in {precision}?",
        NumberAnswer(
            gib,
            "GiB",
            0.01,
            known(*wrong),
        ),
        f"The factor 2 is for K and V; {precision} takes {count(bits // 8, 'byte')} per number; 1 GiB = 2³⁰ B.",
        (Equation(cache(m, tokens, batch, bits) / 2**30, unit="GiB"),),
        cache_page(id, context=tokens, batch=batch, precision=precision),
    )


@kind("cost", 3, "cache-cost", drawn=True)
def cache_with_scales(rng: random.Random) -> Question:
    id, m = plain(rng, "mha", "gqa", "mqa")
    tokens = context_of(rng, m, 2048, 4096, 8192, 32768, 65536)
    bits = bits_with_scales("int4")
    gib = kv_cache_bytes(m, tokens, 1, bits) / 2**30
    return Question(
        f"{described(m)}. The cache is stored in int4 with a 16-bit scale per 32 numbers. How many GiB does the cache "
        f"of {tokens:,} tokens take?",
        NumberAnswer(
            gib,
            "GiB",
            0.01,
            known(
                (gib * 4 / bits, "You left out the scales, which add 0.5 bits per number."),
                (gib / 2, "You counted K and V once."),
                (gib * 2**30 / 1e9, "That is the size in GB; give it in GiB."),
                (gib * 20 / bits, "Each scale is shared by 32 numbers."),
                ungrouped(m, gib, gib * 20 / bits),
            ),
        ),
        "Each number takes 4 bits, half a byte, and each block of 32 numbers a scale of 2 bytes.",
        (Equation(cache(m, tokens, bits=4, block_size=32) / 2**30, unit="GiB"),),
        cache_page(id, context=tokens, precision="int4"),
    )


@kind("cost", 3, "mla", drawn=True)
def cache_of_mla(rng: random.Random) -> Question:
    id, m = published(rng, "mla")
    size = kv_cache_bytes(m, 1)
    return Question(
        f"{m.name}: MLA, {m.n_layers} layers, {m.n_heads} heads, kv_lora_rank {m.kv_lora_rank}, qk_rope_head_dim "
        f"{m.qk_rope_head_dim}. How many bytes does the cache take per token, in bf16?",
        NumberAnswer(
            size,
            "B",
            0.01,
            known(
                (2 * size, "Keys and values share one latent, so there is no factor 2 for K and V."),
                (float(cache_parts(m, 1)["latent"]), "You left out the RoPE key."),
                (size * m.n_heads, "The latent and the RoPE key are shared by all heads."),
                (size / m.n_layers, "That is for one layer."),
            ),
        ),
        "One latent and one RoPE key per layer, shared by all heads; 2 bytes per number.",
        (Equation(cached_per_token(m, 16), unit="B"),),
        cache_page(id, context=1),
    )


def layers_behind_a_window(m: ModelConfig) -> str:
    window, n_full = f"a sliding window of {m.sliding_window:,} tokens", len(set(m.full_layers))
    if not n_full:
        return f"Every layer has {window}"
    return f"{n_full} layers attend to all tokens, {m.n_layers - n_full} to {window}"


@kind("cost", 3, "sinks-and-sharing", drawn=True)
def cache_behind_a_window(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: bool(m.sliding_window) and m.attention != "mla")
    assert m.sliding_window is not None
    tokens = context_of(rng, m, 8192, 16384, 32768, 65536, 131072)
    n_full = len(set(m.full_layers))
    gib = kv_cache_bytes(m, tokens) / 2**30
    all_windowed = kv_cache_bytes(replace(m, full_layers=()), tokens) / 2**30
    unbounded = kv_cache_bytes(m, 1) * tokens / 2**30
    return Question(
        f"{described(m)}. {layers_behind_a_window(m)}. How many GiB does the cache of one sequence of {tokens:,} "
        "tokens take in bf16?",
        NumberAnswer(
            gib,
            "GiB",
            0.01,
            known(
                (unbounded, "That is the size without sliding windows."),
                (gib * 2**30 / 1e9, "That is the size in GB; give it in GiB."),
                (gib / 2, "You counted K and V once."),
                (all_windowed, f"Only {m.n_layers - n_full} layers have the window.") if n_full else None,
                ungrouped(m, gib, unbounded, all_windowed),
            ),
        ),
        "A layer with a window caches at most the tokens of its window.",
        (Equation(cache(m, tokens, bits=16) / 2**30, unit="GiB"),),
        cache_page(id, context=tokens),
    )


@kind("cost", 1, "shared-kv-heads", drawn=True)
def times_smaller(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: m.attention == "gqa" and m.n_kv_heads != m.group_size)
    mha = m.with_kv_heads(m.n_heads)
    ratio = kv_cache_bytes(mha, 1000) / kv_cache_bytes(m, 1000)
    wrong = [(m.n_kv_heads, "That is the number of KV heads.")]
    if m.n_kv_heads != 2 * ratio:
        wrong.append((2 * ratio, "K and V shrink by the same factor, so there is no extra factor 2."))
    if m.n_kv_heads != ratio * ratio != 2 * ratio:
        wrong.append((ratio * ratio, "Only the number of KV heads changes."))
    return Question(
        f"{m.name} has {m.n_heads} query heads and {m.n_kv_heads} KV heads. How many times as large would its cache be "
        "with MHA?",
        NumberAnswer(
            ratio,
            wrong=known(*wrong),
        ),
        "The cache is proportional to the number of KV heads; everything else stays the same.",
        (Equation(letter("H", m.n_heads) / letter("K", m.n_kv_heads)),),
        parts_page(id),
    )


@kind("cost", 2, "model-card", drawn=True)
def feed_forward_parameters(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: m.ffn == "swiglu" and m.moe is None and not m.ffn_bias)
    n = count_parameters(m).parts["feed-forward"] / m.n_layers
    (feed_forward,) = m.layers[0].feed_forwards
    return Question(
        f"{m.name}: d_model {m.d_model:,}, d_ff {m.d_ff:,}, SwiGLU without biases. How many parameters does the "
        "feed-forward network of one layer have?",
        NumberAnswer(
            n,
            tolerance=0.01,
            wrong=known(
                (n * 2 / 3, "SwiGLU has three matrices: gate, up and down."),
                (n / 3, "That is one of the three matrices."),
                (n * m.n_layers, "That is for all layers."),
            ),
        ),
        "SwiGLU has three matrices of d_model · d_ff weights: gate, up and down. "
        f"{count(m.n_layers, 'layer')} have {n * m.n_layers:,.0f} parameters in them.",
        (Equation(total(list(feed_forward.matrices(width(m)).values()))),),
        parts_page(id),
    )


@kind("cost", 2, "cache-cost", drawn=True)
def weights_in_memory(rng: random.Random) -> Question:
    id, m = published(rng, "mha", "gqa", "mqa")
    N = count_parameters(m).total
    precision = rng.choice(("bf16", "fp8", "int4"))
    bits, block = PRECISIONS[precision]
    gb = N * bits_with_scales(precision) / 8 / 1e9
    without_scales = N * bits / 8 / 1e9
    number, each = letter("Nₚ", N), Value(bits, "q", "bits per parameter")
    scale, shared = Value(SCALE_BITS, "s", "bits per scale"), Value(block or 1, "Bₛ", "numbers per scale", latex="B_s")
    path, link = page(id)
    with_scales = f", with a {SCALE_BITS}-bit scale per {block} of them" if block else ""
    return Question(
        f"{m.name} has {N:,} parameters. How many GB (10⁹ bytes) do they take at {bits} bits each{with_scales}?",
        NumberAnswer(
            gb,
            "GB",
            0.01,
            known(
                (gb * 1e9 / 2**30, "That is the size in GiB; give it in GB."),
                (gb * 8, "8 bits are one byte."),
                (N * 4 / 1e9, "That is the size in fp32."),
                (without_scales, "You left out the scales.") if block else None,
                (N * (bits + SCALE_BITS) / 8 / 1e9, f"A scale is shared by {block} numbers.") if block else None,
            ),
        ),
        "Parameters times bits per parameter, its share of a scale included, divided by 8 bits per byte."
        if block
        else "Parameters times bits per parameter, divided by 8 bits per byte.",
        (Equation(number * (each + scale / shared if block else each) / 8 / 10**9, unit="GB"),),
        (path, link | {"weights": precision}),
    )


def _meanings(symbols: str) -> dict[str, str]:
    return {symbol: LETTERS[symbol][0] for symbol in symbols}


def _named(letters: dict[str, str]) -> str:
    return ", ".join(f"{symbol} ({meaning})" for symbol, meaning in letters.items())


@kind("cost", 2, "cache-cost")
def formula_of_the_cache(rng: random.Random) -> Question:
    asked = rng.choice(("one token", "S tokens"))
    tokens = "" if asked == "one token" else "*S"
    letters = _meanings("LKHDSb" if tokens else "LKHDb")
    return Question(
        f"Write the cache size of {asked}, in bytes, as a formula in {_named(letters)}.",
        ExpressionAnswer(
            f"2*L*K*D*b{tokens}",
            letters,
            {
                f"L*K*D*b{tokens}": "You counted K and V once.",
                f"2*L*H*D*b{tokens}": "The cache holds the KV heads, not the query heads.",
                f"2*K*D*b{tokens}": "Each layer has its own cache.",
                f"2*L*K*D{tokens}": "That counts numbers, not bytes.",
            },
        ),
        "For K and V (2), "
        + ("each of the S tokens, " if tokens else "")
        + "each layer (L) and each KV head (K): head_dim numbers (D) of b bytes each. The query heads (H) are not in "
        "it: queries are not cached.",
        link=("cost", {}),
    )


@kind("cost", 3, "model-card")
def formula_of_the_parameters(rng: random.Random) -> Question:
    n = rng.choice(("one layer", "L layers"))
    times = "" if n == "one layer" else "L*"
    letters = _meanings("CHKDL" if times else "CHKD")
    return Question(
        f"Write the number of parameters of the q, k, v and o projections of {n}, without biases, as a formula in "
        f"{_named(letters)}.",
        ExpressionAnswer(
            f"{times}2*C*D*(H + K)",
            letters,
            {
                f"{times}4*C*C": "That holds only if H · D = C and K = H.",
                f"{times}4*C*H*D": "k and v have K heads, not H.",
                f"{times}C*D*(2*H + K)": "You counted k and v once.",
                f"{times}C*D*(H + 2*K)": "You left out o.",
            },
        ),
        "In a layer, q and o have C · H · D parameters each: from d_model (C) to H heads of head_dim (D), and back. k "
        f"and v have C · K · D each, since they have only the K KV heads.{' There are L layers.' if times else ''}",
        link=parts_page("llama-3-8b"),
    )


@kind("cost", 1, "model-card", drawn=True)
def embedding_parameters(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: True)
    n = count_parameters(m).parts["token embeddings"]
    return Question(
        f"{m.name}: a vocabulary of {m.vocab_size:,} tokens, d_model {m.d_model:,}. How many parameters does the token "
        "embedding have?",
        NumberAnswer(
            n,
            tolerance=0.01,
            wrong=known(
                (2 * n, "Do not count the output layer (with tied embeddings it is the same matrix)."),
                (m.vocab_size, "Each token has d_model numbers."),
            ),
        ),
        "One row of d_model numbers for each token of the vocabulary.",
        (Equation(weights.embeddings(m)["token embeddings"]),),
        parts_page(id),
    )
