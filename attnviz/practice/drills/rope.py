"""Questions on RoPE: angles, wavelengths, pairs and invariances. Answers come from attnviz.modules.rope."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import torch

from attnviz.equations import Equation, Value, function, number_text
from attnviz.mechanisms import letter
from attnviz.modules.rope import apply_rope, half_from_interleaved, rope_frequencies
from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.heads import published_with
from attnviz.practice.drills.question import Options, Question, drawn, kind

THETAS = (10_000.0, 500_000.0, 1_000_000.0)


def _drawn(rng: random.Random) -> tuple[int, int, float, Value, Value, Value]:
    D, theta = rng.choice((8, 16, 24, 64, 128)), rng.choice(THETAS)
    j = rng.randrange(1, min(D // 2, 5))
    return (
        D,
        j,
        theta,
        letter("D", D),
        Value(j, "j", "pair"),
        Value(theta, "base", "rope_theta", latex=r"\text{base}"),
    )


def rotation(head_dim: int, theta: float, pair: int) -> tuple[str, dict[str, str]]:
    """Return the page and settings that rotate this pair of a head of this width."""
    return "rope", {"model": "own", "head_dim": str(head_dim), "theta": f"{theta:.0f}", "pair": str(pair)}


@kind("rope", 1, "rope-pictures")
def angle_of_a_pair(rng: random.Random) -> Question:
    D, j, theta, d, pair, base = _drawn(rng)
    p = rng.randrange(2, 60)
    angle = p * float(rope_frequencies(D, theta)[j])
    position = Value(p, "p", "position")
    return Question(
        f"head_dim = {D}, base = {theta:,.0f}. By what angle, in radians, is pair {j} (from 0) rotated at position "
        f"{p}?",
        NumberAnswer(
            angle,
            "rad",
            0.01,
            known(
                (p * theta ** (-j / D), "The exponent is −2j / D."),
                (p * theta ** (2 * j / D), "The exponent is negative."),
                (angle / p, "That is the angle per position."),
                (math.degrees(angle), "That is the angle in degrees."),
                (p * theta ** (-2 * (j - 1) / D), "Pairs are counted from 0."),
            ),
        ),
        "The angle is position times frequency, and the frequency of pair j is base^(−2j / D).",
        (Equation(position * base ** (-(2 * pair / d)), "angle"),),
        rotation(D, theta, j),
    )


@kind("rope", 2, "rope-pictures", drawn=True)
def wavelength(rng: random.Random) -> Question:
    D, j, theta, d, pair, base = _drawn(rng)
    tokens = 2 * math.pi / float(rope_frequencies(D, theta)[j])
    return Question(
        f"head_dim = {D}, base = {theta:,.0f}. What is the wavelength of pair {j} (from 0): the number of tokens, not "
        "rounded to a whole one, after which it has rotated by a full circle?",
        NumberAnswer(
            tokens,
            "tokens",
            0.02,
            known(
                (tokens / (2 * math.pi), "A full circle is 2π."),
                (tokens / 2, "That is half a circle."),
                (2 * math.pi * theta ** (j / D), "The exponent is 2j / D."),
            ),
        ),
        "The wavelength is a full circle, 2π, divided by the angle per position.",
        (Equation(2 * Value(math.pi, "π", "half a circle", digits=6, latex=r"\pi") * base ** (2 * pair / d)),),
        rotation(D, theta, j),
    )


@kind("rope", 1)
def partner(rng: random.Random) -> Question:
    D = rng.choice((8, 16, 24, 64))
    n = rng.randrange(D // 2)
    layout = rng.choice(("half", "interleaved"))
    x = torch.zeros(1, D)
    x[0, n] = 1.0
    rotated = apply_rope(x, torch.tensor([1]), rope_frequencies(D), layout)[0]
    other = next(j for j in rotated.nonzero().flatten().tolist() if j != n)
    half, beside = n + D // 2, n + 1 if n % 2 == 0 else n - 1
    width, dimension = letter("D", D), Value(n, "n", "dimension")
    named = "half-split (GPT-NeoX, and Llama on Hugging Face)" if layout == "half" else "interleaved (GPT-J)"
    way = dimension + width / 2 if layout == "half" else (dimension + 1 if n % 2 == 0 else dimension - 1)
    across = n - 1 if n % 2 == 0 else n + 1  # the neighbour in another pair; none for n = 0
    wrong = [
        (beside, "That is the interleaved layout.") if layout == "half" else (half, "That is the half-split layout.")
    ]
    if layout == "interleaved" and across > 0:
        wrong.append((across, "In the interleaved layout a pair begins with an even dimension."))
    if layout == "half":
        wrong.append((D - 1 - n, "The two dimensions of a pair are half of head_dim apart, not mirrored."))
    return Question(
        f"head_dim = {D}, {named} layout, dimensions counted from 0. Which dimension forms a pair with dimension {n}?",
        NumberAnswer(
            other,
            wrong=known(*wrong),
        ),
        "The half-split layout pairs n with n + D / 2; the interleaved layout pairs 2j with 2j + 1.",
        (Equation(way),),
        ("rope", {"tab": "layouts"}),
    )


@kind("rope", 2, "rope-pictures")
def same_score(rng: random.Random) -> Question:
    """Ask which positions give the same score. The scores are computed."""
    m, n = rng.randrange(10, 40), rng.randrange(0, 9)
    shift = rng.choice((3, 17, 100))
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    q, k = torch.randn(2, 1, 16, generator=generator, dtype=torch.float64)
    frequencies = rope_frequencies(16)

    def score(a: int, b: int) -> float:
        rotated = (apply_rope(x, torch.tensor([p]), frequencies)[0] for x, p in ((q, a), (k, b)))
        return float(next(rotated) @ next(rotated))

    pairs = [(m + shift, n + shift), (n, m), (m + shift, n), (2 * m, 2 * n), (m - 1, n)]
    equal = [pair for pair in pairs if math.isclose(score(*pair), score(m, n), rel_tol=1e-9)]
    assert equal == pairs[:1]

    def described(pair: tuple[int, int]) -> str:
        return f"q at {pair[0]}, k at {pair[1]}"

    wrong = [
        (described((a, b)), f"The distance is {a} − {b} = {number_text(a - b)}, not {m - n}.") for a, b in pairs[1:]
    ]
    return Question(
        f"RoPE rotates a query at position {m} and a key at position {n}. At which positions do the same two vectors "
        "give the same score?",
        Options(described(equal[0]), wrong).shuffled(rng),
        f"The score depends only on the distance, {m} − {n} = {m - n}.",
        link=("rope", {"tab": "distance"}),
    )


ROTATED = tuple(  # without those that almost cancel out, which would depend on the digits of cos and sin
    (a, b, p)
    for a in (1, 2, 3)
    for b in (-2, -1, 1, 2)
    for p in range(1, 6)
    if abs(a * math.cos(p) - b * math.sin(p)) > 0.3
)


def _first_number(inputs: tuple[int, int, int]) -> NumberAnswer:
    a, b, p = inputs
    return NumberAnswer(
        a * math.cos(p) - b * math.sin(p),
        tolerance=0.02,
        wrong=known(
            (a * math.cos(p) + b * math.sin(p), "You rotated in the opposite direction."),
            (b * math.cos(p) + a * math.sin(p), "That is the second number."),
            (a * math.cos(math.radians(p)) - b * math.sin(math.radians(p)), "The angle is in radians."),
        ),
    )


@kind("rope", 3, "rope-pictures")
def rotated_pair(rng: random.Random) -> Question:
    a, b, p = inputs = drawn(rng, ROTATED, _first_number)
    pair = torch.tensor([[a, b]], dtype=torch.float64)
    found = float(apply_rope(pair, torch.tensor([p]), rope_frequencies(2))[0, 0])
    first, second = Value(a, "x", "first number of the pair"), Value(b, "y", "second number of the pair")
    angle = Value(p, "α", "angle", latex=r"\alpha")
    return Question(
        f"Pair 0 has frequency 1 and holds ({number_text(a)}, {number_text(b)}). What is its first number after RoPE "
        f"at position {p}?",
        replace(_first_number(inputs), value=found),
        f"The angle is {p} · 1 rad; (x, y) becomes (x · cos − y · sin, y · cos + x · sin).",
        (Equation(first * function("cos", angle) - second * function("sin", angle)),),
        ("rope", {}),
    )


@kind("rope", 1, "rope-pictures")
def how_many_pairs(rng: random.Random) -> Question:
    _, m = published_with(rng, lambda m: bool(m.rotary_dim) and m.attention != "mla")
    rotated = Value(m.rotary_dim, "d", "rotated dimensions")
    partial = "" if m.rotary_dim == m.head_dim else f", of which RoPE rotates {m.rotary_dim}"
    wrong = [
        (m.rotary_dim, "There is one frequency per pair of dimensions, not per dimension."),
        (m.d_model / 2, "RoPE rotates each head separately."),
    ]
    if partial:
        wrong.append((m.head_dim, "Only part of each head is rotated, and each frequency rotates two dimensions."))
        if m.head_dim != 2 * m.rotary_dim:
            wrong.append((m.head_dim / 2, "Only part of each head is rotated."))
    return Question(
        f"{m.name}: d_model = {m.d_model:,}, {m.n_heads} heads, head_dim = {m.head_dim}{partial}. How many frequencies "
        "does RoPE have in a layer?",
        NumberAnswer(
            len(rope_frequencies(m.rotary_dim, m.rope_theta or 10_000.0)),
            wrong=known(*wrong),
        ),
        "There is one frequency per pair of rotated dimensions, and all heads of a layer share the same frequencies.",
        (Equation(rotated / 2),),
        rotation(m.rotary_dim, m.rope_theta or 10_000.0, 0) if m.rotary_dim <= 128 else ("rope", {}),
    )


@kind("rope", 3)
def place_in_the_other_layout(rng: random.Random) -> Question:
    D = rng.choice((8, 16, 24, 64))
    order = half_from_interleaved(D)
    n = rng.randrange(1, D - 1)
    place = int((order == n).nonzero())
    dimension, width = Value(n, "n", "dimension, interleaved"), letter("D", D)
    way = dimension / 2 if n % 2 == 0 else (dimension - 1) / 2 + width / 2
    return Question(
        f"head_dim = {D}. Weights for the interleaved layout are reordered for the half-split layout. To which index "
        f"does dimension {n} move (both from 0)?",
        NumberAnswer(
            place,
            wrong=known(
                (int(order[n]), "That is the inverse, from half-split to interleaved."),
                (n, "Only the first and the last dimension keep their index."),
                (n // 2 if n % 2 else n // 2 + D // 2, "Even dimensions come first, then the odd ones."),
            ),
        ),
        "Even dimensions move to the first half, odd ones to the second, in the same order.",
        (Equation(way),),
        ("rope", {"tab": "layouts"}),
    )
