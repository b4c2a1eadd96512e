"""Questions on query grouping: which query head reads which KV head, in general and in published models."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from attnviz.config import AttentionConfig, ModelConfig
from attnviz.cost import load_described
from attnviz.equations import Equation, Value, function
from attnviz.facts import facts_of
from attnviz.mechanisms import letter
from attnviz.phrases import count
from attnviz.practice.drills.answers import CellAnswer, NumberAnswer, known
from attnviz.practice.drills.question import Options, Question, drawn, kind
from attnviz.practice.drills.ranks import draw

GROUPED = ((8, 2), (8, 4), (12, 3), (12, 4), (16, 4), (32, 8), (24, 8), (40, 8), (64, 8), (28, 4))


def published(rng: random.Random, *kinds: str) -> tuple[str, ModelConfig]:
    """Draw a published model with one of these attention types, and its id."""
    return published_with(rng, lambda m: m.attention in kinds)


def published_with(rng: random.Random, wanted: Callable[[ModelConfig], bool]) -> tuple[str, ModelConfig]:
    """Draw a published model that the question can be asked about, and its id."""
    candidates = {id: m for id, m in load_described().items() if wanted(m)}
    id = draw(rng, candidates)
    return id, candidates[id]


def orders(H: int, K: int) -> tuple[str, str]:
    """Return the KV heads that the first query heads read if they are tiled, and if each is repeated in a row."""
    heads = range(min(H, max(K, H // K) + 2))  # up to where both orders differ in sight
    tiled, repeated = (" ".join(map(str, read)) for read in ([h % K for h in heads], [h * K // H for h in heads]))
    more = " …" * (len(heads) < H)
    return tiled + more, repeated + more


def page(id: str) -> tuple[str, dict[str, str]]:
    """Return the page and settings that show the bytes of a published model's weights."""
    return "cost", {"preset": id, "tab": "memory"}


def parts_page(id: str) -> tuple[str, dict[str, str]]:
    """Return the page and settings that show a published model's heads, and its parameters part by part."""
    return "cost", {"tab": "facts", "facts": facts_of(id)}


def sharing(H: int, K: int, **settings: str) -> tuple[str, dict[str, str]]:
    """Return the page and settings that draw H query heads and K KV heads."""
    return "query_groups", {"model": "own", "n_heads": str(H), "n_kv_heads": str(K), **settings}


HEADS = tuple((H, K, h) for H, K in GROUPED for h in range(1, H))


def _head_read(inputs: tuple[int, int, int]) -> NumberAnswer:
    H, K, h = inputs
    tiled, repeated = orders(H, K)
    return NumberAnswer(
        AttentionConfig(H * 8, H, K).kv_head_of[h],
        wrong=known(
            (h % K, f"That is h mod K, which tiles the KV heads ({tiled}) instead of repeating each ({repeated})."),
            (h // K, "You divided by the number of KV heads; divide by the group size, H / K."),
        ),
    )


@kind("heads", 1, "shared-kv-heads", drawn=True)
def kv_head_read(rng: random.Random) -> Question:
    H, K, h = inputs = drawn(rng, HEADS, _head_read)
    head, group = Value(h, "h", "query head"), letter("G", H // K)
    return Question(
        f"GQA with {H} query heads and {K} KV heads, all counted from 0. Which KV head does query head {h} read?",
        _head_read(inputs),
        "Consecutive query heads share a KV head.",
        (
            Equation(letter("H", H) / letter("K", K), group.symbol, meaning=group.meaning),
            Equation(function("floor", head / group)),
        ),
        sharing(H, K),
    )


@kind("heads", 1, "shared-kv-heads")
def size_of_a_group(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: m.attention == "gqa" and m.n_kv_heads != m.group_size)
    subtracted = m.n_heads - m.n_kv_heads, "Divide; do not subtract."
    return Question(
        f"{m.name} has {m.n_heads} query heads and {m.n_kv_heads} KV heads. How many query heads share one KV head?",
        NumberAnswer(
            m.group_size,
            wrong=known(
                (m.n_kv_heads, "That is the number of KV heads, which is also the number of groups."),
                subtracted if m.group_size != 2 else None,  # that is the number of KV heads
            ),
        ),
        "The query heads are divided evenly among the KV heads.",
        (Equation(letter("H", m.n_heads) / letter("K", m.n_kv_heads)),),
        parts_page(id),
    )


@kind("heads", 1, "shared-kv-heads", drawn=True)
def name_of_the_attention(rng: random.Random) -> Question:
    id, m = published(rng, rng.choice(("mha", "gqa", "mqa")))
    explanations = {
        "mha": "MHA has as many KV heads as query heads.",
        "gqa": "GQA has fewer KV heads than query heads, but more than one.",
        "mqa": "MQA has one KV head.",
        "mla": "MLA caches a latent instead of keys and values.",
    }
    assert m.attention is not None
    wrong = [(other.upper(), explanation) for other, explanation in explanations.items() if other != m.attention]
    return Question(
        f"A layer of {m.name} has {m.n_heads} query heads, and its cache holds the keys and values of "
        f"{count(m.n_kv_heads, 'head')}. What is this type of attention called?",
        Options(m.attention.upper(), wrong).shuffled(rng),
        explanations[m.attention],
        link=parts_page(id),
    )


@kind("heads", 2, "shared-kv-heads", drawn=True)
def readers_of_a_kv_head(rng: random.Random) -> Question:
    H, K = rng.choice([(h, k) for h, k in GROUPED if h <= 16])
    j, G = rng.randrange(K), H // K

    def listed(heads: list[int]) -> str:
        return ", ".join(map(str, heads))

    right = [h for h, read in enumerate(AttentionConfig(H * 8, H, K).kv_head_of) if read == j]
    wrong = [
        (listed([h for h in range(H) if h % K == j]), f"These read it if the KV heads are tiled ({orders(H, K)[0]})."),
        (listed(list(range(H))[min(j * K, H - K) :][:K]), "A group has H / K heads, not K."),
        (listed([(h + G) % H for h in right]), f"These read KV head {(j + 1) % K}."),
        (listed(list(range(H))), "Only in MQA do all query heads read the same KV head."),
    ]
    return Question(
        f"{H} query heads, {K} KV heads. Which query heads read KV head {j}?",
        Options(listed(right), wrong).shuffled(rng),
        f"A group has {H} / {K} = {G} query heads; group {j} begins at head {j} · {G} = {j * G}.",
        link=sharing(H, K),
    )


@kind("heads", 2, "shared-kv-heads", drawn=True)
def line_that_repeats(rng: random.Random) -> Question:
    """Ask which line repeats the KV heads correctly. Each line is run and compared with the expected order."""
    H, K = rng.choice([(h, k) for h, k in GROUPED if h <= 32 and h // k != k])
    G = H // K
    tiled, repeated = orders(H, K)
    k = torch.arange(K)[None, :, None, None].expand(1, K, 3, 2)
    lines = {
        f"k.repeat_interleave({G}, dim=1)": (k.repeat_interleave(G, dim=1), ""),
        f"k.repeat(1, {G}, 1, 1)": (
            k.repeat(1, G, 1, 1),
            f"repeat tiles the heads ({tiled}) instead of repeating each ({repeated}).",
        ),
        f"k.repeat_interleave({K}, dim=1)": (k.repeat_interleave(K, dim=1), f"That gives {K * K} heads."),
        f"k.repeat_interleave({G}, dim=2)": (k.repeat_interleave(G, dim=2), "Axis 2 holds the tokens."),
    }
    expected = torch.tensor(AttentionConfig(H * 8, H, K).kv_head_of)
    right = [line for line, (t, _) in lines.items() if t.shape[1] == H and torch.equal(t[0, :, 0, 0], expected)]
    assert len(right) == 1
    return Question(
        f"k has shape (B, {K}, S, D). Which line expands it correctly for {H} query heads?",
        Options(
            right[0], [(line, explanation) for line, (_, explanation) in lines.items() if line not in right], True
        ).shuffled(rng),
        f"Each KV head is repeated {H} / {K} = {G} times in a row.",
        link=sharing(H, K, tiled="1"),
    )


def _still_right(inputs: tuple[int, int]) -> NumberAnswer:
    H, K = inputs
    n = sum(h % K == read for h, read in enumerate(AttentionConfig(H * 8, H, K).kv_head_of))
    return NumberAnswer(
        n,
        wrong=known(
            (0, "Query head 0 always reads KV head 0."),
            (H / K, "Count the heads h with h mod K = ⌊h / G⌋."),
            (H, "All shapes are right, but not all query heads read the right KV head."),
        ),
    )


@kind("heads", 3, "shared-kv-heads", drawn=True)
def still_right_when_tiled(rng: random.Random) -> Question:
    H, K = inputs = drawn(rng, GROUPED, _still_right)
    G = H // K
    same = [h for h in range(H) if h % K == h // G]
    return Question(
        f"{H} query heads, {K} KV heads. By mistake, the KV heads are tiled ({orders(H, K)[0]}). How many query heads "
        "still read the right KV head?",
        _still_right(inputs),
        f"Only the heads h with h mod {K} = ⌊h / {G}⌋ read the right one: {', '.join(map(str, same))}.",
        link=sharing(H, K, tiled="1"),
    )


@kind("heads", 2, "model-card")
def width_of_a_head(rng: random.Random) -> Question:
    id, m = published_with(rng, lambda m: m.attention != "mla" and m.d_model == m.n_heads * m.head_dim)
    by_kv_heads = m.d_model / m.n_kv_heads, "Divide by the number of query heads: their outputs are concatenated."
    return Question(
        f"{m.name}: d_model = {m.d_model:,}, {m.n_heads} query heads, {count(m.n_kv_heads, 'KV head')}, and the heads' "
        "concatenated outputs are as wide as d_model. What is head_dim?",
        NumberAnswer(
            m.head_dim,
            wrong=known(
                by_kv_heads if m.attention == "gqa" else None,  # in MQA that is d_model
                (m.d_model, "That is the width of all heads together."),
            ),
        ),
        "d_model is divided evenly among the query heads.",
        (Equation(letter("C", m.d_model) / letter("H", m.n_heads)),),
        parts_page(id),
    )


CELLS = tuple((H, K, h) for H, K in ((6, 2), (6, 3), (8, 2), (8, 4), (12, 4)) for h in range(1, H))


def _cell(inputs: tuple[int, int, int]) -> CellAnswer:
    H, K, h = inputs
    return CellAnswer(
        tuple((0.0,) * K for _ in range(H)),
        (h, AttentionConfig(H * 8, H, K).kv_head_of[h]),
        (((h, h % K), "That is h mod K, which tiles the KV heads instead of repeating each one."),),
        ("query head", "KV head"),
    )


@kind("heads", 3, "shared-kv-heads", drawn=True)
def cell_of_the_group(rng: random.Random) -> Question:
    """Ask for the cell of a query head × KV head grid that GQA connects."""
    H, K, h = inputs = drawn(rng, CELLS, _cell)
    answer = _cell(inputs)
    return Question(
        f"Rows are {H} query heads, columns are {K} KV heads, both counted from 0. Click the cell of query head {h} "
        "and the KV head that it reads.",
        answer,
        f"The group size is {H} / {K} = {H // K}, and ⌊{h} / {H // K}⌋ is {answer.cell[1]}.",
        link=sharing(H, K),
    )
