"""Questions on tensor parallelism: the heads and the cache that each GPU holds. Answers come from attnviz.cost.placed
and from the mechanisms."""

from __future__ import annotations

import random
from functools import lru_cache

from attnviz.config import ModelConfig
from attnviz.cost import kv_cache_bytes
from attnviz.cost.cached import cached_per_token
from attnviz.cost.placed import divides_evenly, on_one
from attnviz.equations import Equation, Expression, function
from attnviz.mechanisms import letter
from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.cost import described, is_plain
from attnviz.practice.drills.heads import published_with
from attnviz.practice.drills.question import Options, Question, kind

GPUS = (2, 4, 8, 16, 32, 64)
ANY_NUMBER = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 32, 40)


def holders(id: str, n: int) -> tuple[str, dict[str, str]]:
    """Return the page and settings that show what each of n accelerators caches per token of a published model."""
    return "cost", {"preset": id, "n_machines": str(n), "context": "1", "tab": "holders"}


@lru_cache(maxsize=512)
def _dividing(m: ModelConfig, least: int = 2) -> list[int]:
    """Return the usual numbers of GPUs, from `least` on, that divide the model evenly."""
    return [n for n in GPUS if n >= least and divides_evenly(m, n)]


def _heads(m: ModelConfig) -> str:
    return f"{m.name} has {m.n_heads} query heads and {m.n_kv_heads} KV heads"


def _held(m: ModelConfig, n: int) -> Expression:
    """Return the KV heads on one of n GPUs."""
    heads, gpus = letter("K", m.n_kv_heads), letter("Nₐ", n, "GPUs")
    return function("ceil", heads / gpus) if n > m.n_kv_heads else heads / gpus


@kind("heads", 2, drawn=True)
def kv_heads_on_a_gpu(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: m.attention == "gqa" and bool(_dividing(m)))
    n = rng.choice(_dividing(m))
    K, H = m.n_kv_heads, m.n_heads
    held = len(m.mixer.held_by(n)[0])
    return Question(
        f"{_heads(m)}. Tensor parallelism divides the query heads evenly among {n} GPUs. How many KV heads does each "
        "GPU hold?",
        NumberAnswer(
            held,
            wrong=known(
                (K / n, "A KV head is not split: GPUs whose query heads share one hold a copy each.")
                if n > K
                else None,
                (K, "A GPU holds only the KV heads that its query heads read.") if held != K else None,
                (H / n, "These are its query heads.") if H / n not in (K, held) else None,
                (0, "Its query heads read at least one KV head.") if n > K else None,
            ),
        ),
        f"Each GPU has {H} / {n} = {H // n} query heads in a row, and holds the KV heads that they read.",
        (Equation(_held(m, n)),),
        holders(id, n),
    )


@kind("heads", 3, drawn=True)
def copies_of_a_cache(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: m.attention == "gqa" and bool(_dividing(m, m.n_kv_heads + 1)))
    n = rng.choice(_dividing(m, m.n_kv_heads + 1))
    K, copies = m.n_kv_heads, float(m.mixer.copies(n))
    return Question(
        f"{_heads(m)}, and runs on {n} GPUs with tensor parallelism. How many times do all GPUs together hold the "
        "cache of a sequence?",
        NumberAnswer(
            copies,
            wrong=known(
                (1, f"There are more GPUs than KV heads, so GPUs hold copies of the {K}."),
                (n, "Each GPU holds one KV head, not all."),
                (K / n, "That is a part of a KV head per GPU; KV heads are copied, not split."),
                (m.group_size, "That is how many query heads share a KV head.")
                if m.group_size not in (copies, n)
                else None,
            ),
        ),
        f"Each GPU holds one KV head, {n} in all, of {K} different ones.",
        (Equation(letter("Nₐ", n, "GPUs") / letter("K", K)),),
        holders(id, n),
    )


@kind("heads", 2)
def gpus_that_divide_the_heads(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: m.attention == "gqa" and len(_even(m)) < len(ANY_NUMBER) - 3)
    right = rng.choice(_even(m))
    wrong = sorted(rng.sample([n for n in ANY_NUMBER if n not in _even(m)], 3))
    return Question(
        f"{_heads(m)}. Among how many GPUs can tensor parallelism divide them, so that each GPU gets as many query "
        "heads and as many whole KV heads as the others?",
        Options(str(right), [(str(n), f"{m.mixer.uneven(n)} on {n} GPUs is not even.") for n in wrong]).shuffled(rng),
        f"{right} divides {m.n_heads}, and {m.n_kv_heads} KV heads give "
        + (f"{m.n_kv_heads // right} each." if right <= m.n_kv_heads else f"{right // m.n_kv_heads} copies of each."),
        link=holders(id, right),
    )


@lru_cache(maxsize=512)
def _even(m: ModelConfig) -> list[int]:
    return [n for n in ANY_NUMBER if n <= m.n_heads and divides_evenly(m, n)]


@kind("cost", 3, drawn=True)
def cache_on_a_gpu(rng: random.Random) -> Question:
    latent = rng.random() < 0.3
    id, m = published_with(
        rng, lambda m: m.attention == ("mla" if latent else "gqa") and (latent or is_plain(m)) and bool(_dividing(m))
    )
    n = rng.choice(_dividing(m))
    held = on_one(m, n)
    size, whole = kv_cache_bytes(held, 1), kv_cache_bytes(m, 1)
    wrong: list[tuple[float, str]] = [(size / 2, "bf16 takes 2 bytes per number.")]
    if latent:
        sizes = f"{m.name}: MLA, {m.n_layers} layers, {m.n_heads} heads, kv_lora_rank {m.kv_lora_rank}, "
        sizes += f"qk_rope_head_dim {m.qk_rope_head_dim}"
        because = "The latent and the RoPE key are read by all heads, so each GPU holds both whole."
        wrong += [
            (whole / n, "MLA caches nothing per head that could be divided."),
            (2 * size, "Keys and values share one latent."),
        ]
    else:
        sizes = described(m)
        because = (
            f"A GPU caches the KV heads that its query heads read: {len(m.mixer.held_by(n)[0])} of {m.n_kv_heads}."
        )
        wrong[0] = size / 2, "You counted K and V once."
        wrong += [(whole, "That is the cache of all KV heads.")]
        wrong += [(whole / n, "KV heads are copied, not split.")] * (n > m.n_kv_heads)
    if whole / n == size / 2:  # the same number by two mistakes
        del wrong[0]
    if n * size > whole:
        wrong.append((n * size, "That is for all GPUs together."))
    return Question(
        f"{sizes}. With tensor parallelism over {n} GPUs, how many bytes does each GPU cache per token, in bf16?",
        NumberAnswer(size, "B", 0.01, known(*wrong)),
        because,
        (Equation(cached_per_token(held, 16), unit="B"),),
        holders(id, n),
    )
