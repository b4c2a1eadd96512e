"""Questions on multi-head latent attention: what it caches, the shapes of its two forms, decoupled RoPE.

Answers come from attnviz.cost and from a layer that ran. B texts, T tokens, S keys, H heads, R kv_lora_rank, N
qk_nope_head_dim, P qk_rope_head_dim, V v_head_dim, C d_model.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import torch
from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.cost.cached import cached_in_layer
from attnviz.equations import Equation
from attnviz.mechanisms import letter
from attnviz.modules import MultiHeadLatentAttention
from attnviz.modules.attention import Attended, attend
from attnviz.practice.drills.answers import NumberAnswer, ShapeAnswer, known
from attnviz.practice.drills.heads import published, published_with
from attnviz.practice.drills.question import Question, kind, tries

LATENT = ("query_groups", {"model": "mla", "tab": "latent"})
DECOUPLED = ("rope", {"model": "mla", "tab": "latent"})
WIDEST_LATENT = 600  # a bound for latent and RoPE key of published models


def _latent(m: ModelConfig) -> str:
    return f"kv_lora_rank {m.kv_lora_rank}, qk_rope_head_dim {m.qk_rope_head_dim}"


# ---- what is cached


@kind("cost", 2, "mla", drawn=True)
def mla_against_gqa(rng: random.Random) -> Question:
    id, m = published(rng, "mla")
    other, g = published_with(
        rng, lambda g: g.attention == "gqa" and 2 * g.n_kv_heads * g.head_dim > WIDEST_LATENT
    )  # fmt: skip
    latent, grouped = cached_in_layer(m.mixer), cached_in_layer(g.mixer)
    ratio = grouped.value / latent.value
    return Question(
        f"{m.name} uses MLA with kv_lora_rank {m.kv_lora_rank} and qk_rope_head_dim {m.qk_rope_head_dim}; {g.name} "
        f"uses GQA with {g.n_heads} query heads, {g.n_kv_heads} KV heads and head_dim {g.head_dim}. How many times as "
        f"many numbers per token and layer does {g.name} cache?",
        NumberAnswer(
            ratio,
            tolerance=0.01,
            wrong=known(
                (ratio / 2, "GQA caches a key and a value, MLA one latent for both: the factor 2 is only in GQA."),
                (grouped.value / m.kv_lora_rank, "You left out the RoPE key."),
                (ratio * g.group_size, "GQA caches only its KV heads."),
                (1 / ratio, "That is how many times as many MLA caches."),
            ),
        ),
        "GQA caches a key and a value for each KV head; MLA caches one latent and one RoPE key for all heads. "
        f"Over all layers, {m.n_layers} and {g.n_layers}, it is {ratio * g.n_layers / m.n_layers:.2g} times.",
        (Equation(grouped / latent),),
        ("cost", {"tab": "published", "preset": id, "compare": f"{id},{other}", "context": "1"}),
    )


@kind("heads", 2, "mla")
def kv_heads_of_an_equal_cache(rng: random.Random) -> Question:
    _, m = published(rng, "mla")
    D = rng.choice((64, 80, 96, 128, 256))
    latent, width = cached_in_layer(m.mixer), letter("D", D, "head_dim of the GQA layer")
    return Question(
        f"{m.name}: MLA with {m.n_heads} heads, {_latent(m)}. A GQA layer with head_dim {D} would cache as many "
        "numbers per token with how many KV heads? The number need not be whole.",
        NumberAnswer(
            latent.value / (2 * D),
            tolerance=0.01,
            wrong=known(
                (latent.value / D, "A KV head caches a key and a value."),
                (m.kv_lora_rank / (2 * D), "You left out the RoPE key."),
                (m.n_heads, "All heads of MLA share what is cached."),
            ),
        ),
        "A KV head takes 2 · head_dim numbers per token, and MLA the latent and the RoPE key.",
        (Equation(latent / (2 * width)),),
        LATENT,
    )


@kind("cost", 3, "mla", drawn=True)
def expanded_against_latent(rng: random.Random) -> Question:
    id, m = published(rng, "mla")
    latent, expanded = cached_in_layer(m.mixer), m.mixer.expanded_numbers()
    assert expanded is not None
    times, per_head = expanded.value / latent.value, expanded.value / m.n_heads
    without_position = m.n_heads * (m.qk_nope_head_dim + m.v_head_dim)
    return Question(
        f"{m.name}: MLA with {m.n_heads} heads, {_latent(m)}, qk_nope_head_dim {m.qk_nope_head_dim}, v_head_dim "
        f"{m.v_head_dim}. How many times as large would its cache be if it held each head's keys and values instead?",
        NumberAnswer(
            times,
            tolerance=0.01,
            wrong=known(
                (without_position / latent.value, "A head's key also has the part with RoPE."),
                (expanded.value / m.kv_lora_rank, "The RoPE key is cached beside the latent."),
                (per_head / latent.value, "That is for one head."),
                (2 * without_position / latent.value, "Keys and values are counted with their own widths, once each."),
            ),
        ),
        "A head's key has qk_nope_head_dim + qk_rope_head_dim numbers, its value v_head_dim; the latent and the RoPE "
        "key stand for those of all heads.",
        (Equation(expanded / latent),),
        ("cost", {"tab": "speed", "preset": id, "context": "1"}),
    )


# ---- shapes


class Sizes(NamedTuple):
    """The sizes of a small MLA layer, all different."""

    C: int
    H: int
    R: int
    N: int
    P: int
    V: int
    B: int
    T: int


def sizes(rng: random.Random) -> Sizes:
    """Draw sizes of which no two, and no two of the widths asked for, are equal."""
    for _ in tries():
        drawn = Sizes(
            rng.choice((48, 60, 72, 96)), rng.choice((3, 4, 6)), rng.choice((20, 28, 40)), rng.choice((8, 12, 16)),
            rng.choice((2, 10, 14)), rng.choice((9, 18, 24)), rng.choice((2, 5)), rng.choice((7, 11, 13)),
        )  # fmt: skip
        C, H, R, N, P, V, B, T = drawn
        asked = (R + P, N + P, H * (N + V), H * V)
        if len({*drawn, *asked}) == len(drawn) + len(asked):
            return drawn
    raise AssertionError("tries() ends with an error")


def layer_of(s: Sizes) -> MultiHeadLatentAttention:
    """Return a layer of these sizes, without initialisation: only its shapes are asked for."""
    with torch.device("meta"):
        return MultiHeadLatentAttention(
            s.C, s.H, kv_lora_rank=s.R, qk_nope_head_dim=s.N, qk_rope_head_dim=s.P, v_head_dim=s.V
        )


@torch.inference_mode()
def absorbed_shapes(s: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Run a layer in its absorbed form, and return the shapes of the queries and of what they read."""
    found: list[Tensor] = []

    def kernel(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor, scale: float) -> Attended:
        attended = attend(q, k, v, *rest, scale=scale)
        found.extend((q, attended.output))
        return attended

    layer_of(s).to_empty(device="cpu")(torch.zeros(s.B, s.T, s.C), absorbed=True, kernel=kernel)
    return tuple(found[0].shape), tuple(found[1].shape)


@kind("shapes", 1, "mla")
def weight_of_the_latent(rng: random.Random) -> Question:
    s = sizes(rng)
    return Question(
        f"MLA: d_model = {s.C}, {s.H} heads, kv_lora_rank {s.R}, qk_nope_head_dim {s.N}, qk_rope_head_dim {s.P}. One "
        "nn.Linear computes a token's latent and its RoPE key. What is the shape of its weight?",
        ShapeAnswer(
            tuple(layer_of(s).kv_a_proj.weight.shape),
            (
                ((s.C, s.R + s.P), "nn.Linear stores (out, in)."),
                ((s.R, s.C), "The RoPE key comes from the same matrix as the latent."),
                ((s.R + s.H * s.P, s.C), "All heads share one RoPE key."),
            ),
        ),
        f"The outputs are the latent and the RoPE key, {s.R} + {s.P} = {s.R + s.P} rows; the inputs are d_model = "
        f"{s.C} columns.",
        link=LATENT,
    )


@kind("shapes", 3, "mla")
def weight_that_expands_the_latent(rng: random.Random) -> Question:
    s = sizes(rng)
    return Question(
        f"MLA: {s.H} heads, kv_lora_rank {s.R}, qk_nope_head_dim {s.N}, qk_rope_head_dim {s.P}, v_head_dim {s.V}. One "
        "nn.Linear expands the latent to the keys and values of all heads. What is the shape of its weight?",
        ShapeAnswer(
            tuple(layer_of(s).kv_b_proj.weight.shape),
            (
                ((s.R, s.H * (s.N + s.V)), "nn.Linear stores (out, in)."),
                ((s.H * (s.N + s.P + s.V), s.R), "The RoPE key does not come from the latent."),
                ((s.N + s.V, s.R), "Each head has keys and values of its own."),
                ((s.H * s.N, s.R), "Those are the keys; the values come from the latent too."),
            ),
        ),
        f"Each head gets {s.N} numbers of a key and {s.V} of a value: {s.H} · ({s.N} + {s.V}) = "
        f"{s.H * (s.N + s.V)} rows, and {s.R} columns.",
        link=LATENT,
    )


@kind("shapes", 2, "mla")
def absorbed_query(rng: random.Random) -> Question:
    s = sizes(rng)
    shape, _ = absorbed_shapes(s)
    return Question(
        f"MLA in its absorbed form: q_nope has shape ({s.B}, {s.H}, {s.T}, {s.N}), q_rope ({s.B}, {s.H}, {s.T}, "
        f"{s.P}), and kv_lora_rank is {s.R}. What is the shape of the queries that are multiplied by the cached keys?",
        ShapeAnswer(
            shape,
            (
                ((s.B, s.H, s.T, s.N + s.P), "That is the expanded form; W_UK takes q_nope to the latent's width."),
                ((s.B, s.H, s.T, s.R), "The rotated part stays beside the absorbed one, for the RoPE key."),
                ((s.B, 1, s.T, s.R + s.P), "What all heads share is the cache; each head has its own queries."),
            ),
        ),
        f"q_nope · W_UK has the latent's width, {s.R}, and q_rope is joined to it: {s.R} + {s.P} = {s.R + s.P}.",
        link=LATENT,
    )


@kind("shapes", 3, "mla")
def read_from_the_latent(rng: random.Random) -> Question:
    s = sizes(rng)
    _, shape = absorbed_shapes(s)
    return Question(
        f"MLA in its absorbed form, {s.B} texts of {s.T} tokens, {s.H} heads: kv_lora_rank is {s.R}, qk_rope_head_dim "
        f"{s.P}, v_head_dim {s.V}. What is the shape of the weights times the cached values, before W_UV?",
        ShapeAnswer(
            shape,
            (
                ((s.B, s.H, s.T, s.V), "That is after W_UV."),
                ((s.B, s.H, s.T, s.R + s.P), "The RoPE key serves the scores only; the latent alone is the value."),
                ((s.B, s.T, s.H * s.V), "That is after W_UV, with the heads joined."),
                ((s.B, 1, s.T, s.R), "Each head has its own weights, so it reads its own mean of the latents."),
            ),
        ),
        f"The latent is key and value at once: each head sums latents of {s.R} numbers, and W_UV comes after that.",
        link=LATENT,
    )


# ---- decoupled RoPE


@kind("rope", 2, "mla")
def numbers_rotated_in_mla(rng: random.Random) -> Question:
    _, m = published(rng, "mla")
    H, P = m.n_heads, m.mixer.rotary_dim
    return Question(
        f"{m.name}: MLA with {H} heads, {_latent(m)}, qk_nope_head_dim {m.qk_nope_head_dim}. How many numbers of one "
        "token's queries and keys does RoPE rotate in a layer?",
        NumberAnswer(
            (H + 1) * P,
            wrong=known(
                (2 * H * P, "All heads share one RoPE key."),
                (H * P, "You left out the RoPE key."),
                (P, "That is the RoPE key; each head's query is rotated too."),
                (H * m.mixer.head_dim + P, "Only the qk_rope_head_dim part of a query is rotated."),
            ),
        ),
        "Each head's query has a part that RoPE rotates, and the key has one such part for all heads. The latent has "
        "no position, so that W_UK can be absorbed.",
        (Equation(letter("H", H) * letter("P", P) + letter("P", P)),),
        DECOUPLED,
    )
