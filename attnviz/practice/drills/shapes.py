"""Questions on tensor shapes in attention. The answers are the shapes of computed tensors."""

from __future__ import annotations

import random
from typing import NamedTuple

import torch
import torch.nn.functional as F

from attnviz import modules
from attnviz.equations import Equation
from attnviz.mechanisms import letter
from attnviz.modules.attention import attend
from attnviz.phrases import count
from attnviz.practice.drills.answers import NumberAnswer, OrderAnswer, ShapeAnswer, known
from attnviz.practice.drills.question import Options, Question, kind, tries

STEPS: tuple[str, dict[str, str]] = ("steps", {})


class Sizes(NamedTuple):
    """The sizes of a question on shapes, all different: with two equal ones, swapped axes would go unnoticed."""

    B: int
    T: int
    H: int
    D: int
    K: int
    G: int
    S: int


def sizes(rng: random.Random) -> Sizes:
    """Draw small sizes, S > T and H = K · G."""
    for _ in tries():
        K, G = rng.choice(((2, 3), (3, 2), (2, 4), (4, 2), (2, 5), (5, 2), (3, 4), (4, 3)))
        T = rng.choice((7, 11, 13))
        drawn = Sizes(rng.choice((2, 3, 5)), T, K * G, rng.choice((16, 24, 32, 64)), K, G, T + rng.choice((1, 4, 6)))
        if len(set(drawn)) == len(drawn):
            return drawn
    raise AssertionError("tries() ends with an error")


def _zeros(*shape: int) -> torch.Tensor:
    """Return a tensor with this shape, with numbers: on the meta device, some operations import torch's compiler,
    which takes a second and 70 MB."""
    return torch.zeros(shape)


@kind("shapes", 1, "many-heads")
def queries_by_head(rng: random.Random) -> Question:
    B, T, H, D, *_ = sizes(rng)
    q = _zeros(B, T, H * D).view(B, T, H, D).transpose(1, 2)
    return Question(
        f"x has shape ({B}, {T}, {H * D}), n_heads = {H}. What is the shape of q after this line?",
        ShapeAnswer(
            tuple(q.shape),
            (
                ((B, T, H, D), "That is the shape before transpose(1, 2)."),
                ((B, T, H * D), "That is the output of q_proj, before view."),
                ((B, H, D, T), "transpose(1, 2) swaps tokens and heads; head_dim stays last."),
            ),
        ),
        f"head_dim = {H * D} / {H} = {D}; view gives (B, T, H, D), and transpose(1, 2) moves the heads before the "
        "tokens.",
        link=STEPS,
        code=f"q = q_proj(x).view({B}, {T}, {H}, {D}).transpose(1, 2)",
    )


@kind("shapes", 1, "shared-kv-heads")
def keys_in_gqa(rng: random.Random) -> Question:
    B, T, H, D, K, *_ = sizes(rng)
    with torch.device("meta"):  # no initialisation: only the shape of k is asked for
        projection = modules.GroupedQueryAttention(H * D, H, K).k_proj
    k = F.linear(_zeros(B, T, H * D), _zeros(*projection.weight.shape)).unflatten(-1, (K, -1)).transpose(1, 2)
    return Question(
        f"d_model = {H * D}, {H} query heads, {count(K, 'KV head')}, head_dim {D}, {B} texts of {T} tokens. What is "
        "the shape of k, split into heads and with the heads before the tokens?",
        ShapeAnswer(
            tuple(k.shape),
            (
                ((B, H, T, D), f"That is the shape of q; k has only {count(K, 'head')}."),
                ((B, K, T, H * D // K), f"head_dim is {D} for the keys too, not d_model / n_kv_heads."),
                ((B, T, K, D), "The heads come before the tokens, so that each head is a matrix."),
            ),
        ),
        f"head_dim is {D} for both queries and keys; k has {count(K, 'head')}: (B, K, T, D).",
        link=STEPS,
    )


@kind("shapes", 1, "many-heads")
def scores(rng: random.Random) -> Question:
    B, T, H, D, *_, S = sizes(rng)
    found = _zeros(B, H, T, D) @ _zeros(B, H, S, D).transpose(-2, -1)
    return Question(
        f"q has shape ({B}, {H}, {T}, {D}), k has shape ({B}, {H}, {S}, {D}). What is the shape of the scores?",
        ShapeAnswer(
            tuple(found.shape),
            (
                ((B, H, S, T), "Rows are queries, columns are keys."),
                ((B, H, T, T), f"There are {S} keys, more than queries, as in decoding with a cache."),
                ((B, H, D, D), "The product sums over head_dim."),
                ((B, T, S), "Each head has its own map."),
            ),
        ),
        f"The product sums over head_dim, so each head has {T} queries by {S} keys: (B, H, T, S).",
        link=STEPS,
        code="scores = q @ k.transpose(-2, -1)",
    )


@kind("shapes", 2, "many-heads")
def heads_joined(rng: random.Random) -> Question:
    B, T, H, D, *_ = sizes(rng)
    out = _zeros(B, H, T, D).transpose(1, 2).flatten(2)
    return Question(
        f"out has shape ({B}, {H}, {T}, {D}). What is its shape after this line?",
        ShapeAnswer(
            tuple(out.shape),
            (
                ((B, H, T * D), "transpose(1, 2) comes first, and makes the tokens axis 1."),
                ((B, T, H, D), "flatten(2) then merges the last two axes."),
                ((B, H * D, T), "After transpose(1, 2) the tokens are axis 1, and flatten(2) leaves them there."),
            ),
        ),
        f"transpose gives ({B}, {T}, {H}, {D}); flatten(2) merges heads and head_dim into {H} · {D} = {H * D}.",
        link=STEPS,
        code="out = out.transpose(1, 2).flatten(2)",
    )


@kind("shapes", 2, "shared-kv-heads")
def einsum_of_groups(rng: random.Random) -> Question:
    B, T, H, D, K, G, S = sizes(rng)
    found = torch.einsum("bkgtd,bksd->bkgts", _zeros(B, K, G, T, D), _zeros(B, K, S, D))
    return Question(
        f"q has shape ({B}, {K}, {G}, {T}, {D}), k has shape ({B}, {K}, {S}, {D}). What is the shape of this product?",
        ShapeAnswer(
            tuple(found.shape),
            (
                ((B, H, T, S), "That is the shape after flatten(1, 2); KV heads and groups are separate axes here."),
                ((B, K, G, T, D), "d is not to the right of the arrow, so it is summed over."),
                ((B, K, G, S, T), "t comes before s to the right of the arrow."),
            ),
        ),
        "The letters to the right of the arrow are the axes of the result; d is not among them, so it is summed over.",
        link=STEPS,
        code='torch.einsum("bkgtd,bksd->bkgts", q, k)',
    )


@kind("shapes", 2, "shared-kv-heads")
def weight_of_k_proj(rng: random.Random) -> Question:
    _, _, H, D, K, *_ = sizes(rng)
    with torch.device("meta"):
        weight = modules.GroupedQueryAttention(H * D, H, K).k_proj.weight
    return Question(
        f"d_model = {H * D}, {H} query heads, {count(K, 'KV head')}, head_dim {D}. What is the shape of k_proj.weight "
        "(an nn.Linear)?",
        ShapeAnswer(
            tuple(weight.shape),
            (
                ((H * D, K * D), "nn.Linear stores (out, in)."),
                ((H * D, H * D), "That is q_proj; k_proj projects to the KV heads only."),
            ),
        ),
        f"nn.Linear stores (out, in): K · head_dim = {K} · {D} = {K * D} rows, d_model = {H * D} columns.",
        link=("query_groups", {}),
    )


@kind("shapes", 3)
def broadcast_mask(rng: random.Random) -> Question:
    B, T, H, *_, S = sizes(rng)
    mask_type = rng.choice(("padding", "causal", "both"))
    padding, causal = _zeros(B, 1, 1, S), _zeros(T, S)
    mask = {"padding": padding, "causal": causal, "both": padding * causal}[mask_type]
    shape = tuple((_zeros(B, H, T, S) + mask).shape)
    wrong = [
        (tuple(mask.shape), "That is the shape of the mask; it is broadcast to the shape of the scores."),
        ((B, H, S, S), "The queries keep their own axis, of another size than that of the keys."),
        ((B, H, S, T), "Rows are queries, columns are keys."),
    ]
    if mask_type != "both":  # there it is the shape of the mask
        wrong.append(((B, 1, T, S), "The mask is broadcast over the heads; the scores keep their head axis."))
    described = {
        "padding": f"a padding mask of shape ({B}, 1, 1, {S})",
        "causal": f"a causal mask of shape ({T}, {S})",
        "both": f"the product of a padding mask ({B}, 1, 1, {S}) and a causal mask ({T}, {S})",
    }[mask_type]
    return Question(
        f"Scores of shape ({B}, {H}, {T}, {S}) are masked with {described}. What is the shape of the result?",
        ShapeAnswer(
            shape,
            tuple(wrong),
        ),
        "The mask's axes of size 1 and its missing leading axes are broadcast; the scores keep their shape "
        "(B, H, T, S).",
        link=STEPS,
    )


@kind("shapes", 1, "many-heads")
def how_many_scores(rng: random.Random) -> Question:
    B, T, H, D, K, *_ = sizes(rng)
    n = attend(_zeros(B, H, T, D), _zeros(B, K, T, D), _zeros(B, K, T, D)).weights.numel()
    b, h, t = letter("B", B, "texts"), letter("H", H), letter("T", T, "tokens")
    return Question(
        f"{B} texts of {T} tokens, {H} query heads, {count(K, 'KV head')}, head_dim {D}: how many attention weights "
        "does one layer compute without a cache, masked ones included?",
        NumberAnswer(
            n,
            wrong=known(
                (B * K * T * T, "Each query head has its own map, even if query heads share a KV head."),
                (B * H * T * D, "That is the number of entries of q."),
                (H * T * T, "That is for one text."),
            ),
        ),
        "Each query head has a T × T map for each text.",
        (Equation(b * h * t * t),),
        ("heads", {}),
    )


LINES = (
    "q, k, v = q_proj(x), k_proj(x), v_proj(x)",
    "q, k = rotate(q, positions), rotate(k, positions)",
    "scores = q @ k.transpose(-2, -1) / sqrt(head_dim)",
    "scores = scores.masked_fill(~mask, -inf)",
    "weights = scores.softmax(-1)",
    "out = o_proj((weights @ v).transpose(1, 2).flatten(2))",
)


@kind("shapes", 2, "rope-pictures")
def lines_of_attention(rng: random.Random) -> Question:
    shown = list(range(len(LINES)))
    while shown == sorted(shown):
        rng.shuffle(shown)
    order = tuple(shown.index(i) for i in range(len(LINES)))
    return Question(
        "Put the six lines of causal attention with RoPE in order.",
        OrderAnswer(tuple(LINES[i] for i in shown), order),
        "Project, rotate q and k, compute scores, mask, apply the softmax, then average the values and project back.",
        link=STEPS,
    )


@kind("shapes", 3)
def line_that_raises(rng: random.Random) -> Question:
    """Ask which line raises. Each line is run to find out."""
    B, T, H, D, *_ = sizes(rng)
    out = torch.zeros(B, H, T, D)
    lines = {
        f"out.transpose(1, 2).view({B}, {T}, {H * D})": "",
        f"out.transpose(1, 2).reshape({B}, {T}, {H * D})": "reshape copies the tensor where view would fail.",
        f"out.transpose(1, 2).contiguous().view({B}, {T}, {H * D})": "contiguous() makes a copy on which view works.",
        f"out.view({B}, {H}, {T * D})": "This merges adjacent axes of a contiguous tensor, which view can do.",
    }
    raising = [line for line in lines if _raises(line, out)]
    assert len(raising) == 1
    wrong = [(line, explanation) for line, explanation in lines.items() if line != raising[0]]
    return Question(
        f"out is contiguous with shape ({B}, {H}, {T}, {D}). Which line raises an error?",
        Options(raising[0], wrong, code=True).shuffled(rng),
        "After transpose the tensor is no longer contiguous, and view cannot merge its axes: use reshape, or call "
        "contiguous() first.",
        link=("mistakes", {"mistake": "view_after_transpose"}),
    )


def _raises(line: str, out: torch.Tensor) -> bool:
    steps = line.split(".")[1:]
    for step in steps:
        name, _, given = step.partition("(")
        try:
            out = getattr(out, name)(*(int(n) for n in given.rstrip(")").split(",") if n.strip()))
        except RuntimeError:
            return True
    return False
