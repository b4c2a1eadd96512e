"""Questions on contexts longer than the trained one: linear and NTK-aware scaling, and YaRN.

Answers come from attnviz.modules.rope_scaling.
"""

from __future__ import annotations

import math
import random
from functools import lru_cache

from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.equations import Equation, Expression, Value, function
from attnviz.mechanisms import letter
from attnviz.modules.rope import rope_frequencies
from attnviz.modules.rope_scaling import RopeScaling, scaled_rope_frequencies
from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.heads import published_with
from attnviz.practice.drills.question import Options, Question, kind
from attnviz.practice.drills.rope import rotation

METHODS = {"linear": "position interpolation (linear scaling)", "ntk": "NTK-aware scaling", "yarn": "YaRN"}
WIDTHS, BASES, TRAINED = (64, 80, 96, 128), (10_000, 50_000, 500_000), (2048, 4096, 8192)
FAST = 32  # rotations within the trained context from which on YaRN leaves a pair as it is
TURN = Value(2 * math.pi, "2π", "a full rotation", digits=4, latex=r"2\pi")


def longer(factor: int, **settings: object) -> tuple[str, dict[str, str]]:
    """Return the page and settings that extend the context by a factor."""
    link = {"tab": "longer", "factor": str(factor)}
    return "rope", link | {name: str(value) for name, value in settings.items()}


def yarn(factor: float, trained: int) -> dict[str, object]:
    return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": trained}


def slowed(method: str, D: int, base: float, factor: float, trained: int) -> Tensor:
    """Return the factor of a method on the frequency of each pair: (D / 2,)."""
    scaling = yarn(factor, trained) if method == "yarn" else {"rope_type": method, "factor": factor}
    return scaled_rope_frequencies(D, base, scaling) / rope_frequencies(D, base)


# ---- which pairs change


_CHANGED = {
    "linear": "all pairs, by the same factor",
    "ntk": "all pairs but the fastest, the more the slower they are",
    "yarn": f"those that rotate fewer than {FAST} times within the trained context",
}


def _changes(factors: Tensor) -> str:
    """Name the method with these factors on the frequencies by which of them are below 1."""
    unchanged = int((factors > 1 - 1e-9).sum())
    return "linear" if not unchanged else "ntk" if unchanged == 1 else "yarn"


@kind("rope", 1)
def pairs_that_a_method_slows(rng: random.Random) -> Question:
    method, factor, trained = rng.choice(tuple(METHODS)), rng.choice((2, 4, 8, 16)), rng.choice(TRAINED)
    found = _changes(slowed(method, 128, 10_000, factor, trained))
    wrong = [(_CHANGED[other], f"That is {METHODS[other]}.") for other in METHODS if other != found]
    wrong.append(("none of them", "Then the slow pairs would reach angles that they never had in training."))
    return Question(
        f"A model trained on {trained:,} tokens is extended to {factor * trained:,} with {METHODS[method]}. Which "
        "pairs of dimensions rotate more slowly per token than before?",
        Options(_CHANGED[found], wrong).shuffled(rng),
        {
            "linear": "Dividing positions by the factor slows each pair by that factor, the fast ones too.",
            "ntk": "A larger base leaves pair 0 as it is and slows the last pair by the whole factor.",
            "yarn": "Pairs that complete many rotations within the trained context have shown all their angles in "
            "training, so YaRN leaves them as they are.",
        }[found],
        link=longer(factor),
    )


@kind("rope", 1)
def position_after_interpolation(rng: random.Random) -> Question:
    trained, factor = rng.choice(TRAINED), rng.choice((2, 4, 8))
    p, extended = factor * rng.randrange(trained // factor + 1, trained - 1), factor * trained
    (share,) = slowed("linear", 2, 10_000, factor, trained).tolist()
    position = Value(p, "p", "position")
    lengths = Value(trained, "S₁", "trained context", latex="S_1"), Value(extended, "S₂", "context", latex="S_2")
    return Question(
        f"Position interpolation extends a model from {trained:,} trained tokens to {extended:,}. To which position "
        f"does it map position {p:,} before RoPE rotates?",
        NumberAnswer(
            round(p * share),
            wrong=known(
                (p, "That is without interpolation."),
                (p % trained, "Positions do not start again at 0 after the trained context."),
                (p - (extended - trained), "Positions are divided, not moved.") if factor > 2 else None,
                (p * factor, "Divide; do not multiply."),
            ),
        ),
        "Positions are multiplied by the trained context ÷ the extended one, so that none is beyond the trained one.",
        (Equation(position * lengths[0] / lengths[1]),),
        longer(factor),
    )


@kind("rope", 2)
def pairs_without_a_full_rotation(rng: random.Random) -> Question:
    _, m = published_with(rng, _has_slow_pairs)
    D, S = m.rotary_dim, m.max_context
    n = _n_slow(D, m.rope_theta, S)
    width, base, tokens = _values(D, m.rope_theta, S, "tokens of the context")
    without_turn = int((1 / rope_frequencies(D, m.rope_theta) > S).sum())
    return Question(
        f"{m.name}: RoPE rotates {D} dimensions of a head, the base is {m.rope_theta:,.0f}, the context {S:,} tokens. "
        "How many pairs do not complete a full rotation within the context?",
        NumberAnswer(
            n,
            wrong=known(
                (D // 2 - n, "That is how many complete one.") if 2 * n != D // 2 else None,
                (2 * n, "Count pairs, not dimensions."),
                (without_turn, "A full rotation is 2π, not 1.") if without_turn != n else None,
                (n + 1, "Pairs are counted from 0, so one more of them completes a rotation."),
            ),
        ),
        "Pair j takes 2π · base^(2j / D) tokens for a rotation. The last pair that completes one within the context "
        "has the index ⌊D / 2 · ln(S / 2π) / ln(base)⌋, and pairs are counted from 0.",
        (Equation(width / 2 - (function("floor", _last_pair(width, base, tokens / TURN)) + 1)),),
        rotation(D, m.rope_theta, D // 2 - n) if D <= 128 else ("rope", {}),
    )


@lru_cache(maxsize=256)
def _n_slow(D: int, base: float, n_tokens: int) -> int:
    """Return how many pairs do not complete a rotation within these tokens."""
    return int((2 * math.pi / rope_frequencies(D, base) > n_tokens).sum())


def _has_slow_pairs(m: ModelConfig) -> bool:
    """Check that a model has unscaled RoPE, of which some pairs do not complete a rotation within its context."""
    if m.attention == "mla" or not m.rotary_dim or m.rope_scaling or m.rope_theta is None or m.max_context is None:
        return False
    return _n_slow(m.rotary_dim, m.rope_theta, m.max_context) > 0


def _values(D: int, base: float, tokens: int, meaning: str) -> tuple[Value, Value, Value]:
    return (
        letter("D", D, "rotated dimensions of a head"), Value(base, "base", "rope_theta", latex=r"\text{base}"),
        letter("S", tokens, meaning),
    )  # fmt: skip


def _last_pair(width: Expression, base: Expression, slowest: Expression) -> Expression:
    """Return the fractional index of the pair whose frequency is 1 / slowest."""
    return width / 2 * function("ln", slowest) / function("ln", base)


# ---- NTK-aware scaling


@kind("rope", 2)
def base_of_ntk_scaling(rng: random.Random) -> Question:
    D, base, factor = rng.choice(WIDTHS), rng.choice(BASES), rng.choice((2, 4, 8))
    frequencies = scaled_rope_frequencies(D, base, {"rope_type": "ntk", "factor": factor})
    new = float(frequencies[1]) ** (-D / 2)
    width, old, _ = _values(D, base, 1, "")
    s = Value(factor, "s", "factor of the extension")
    return Question(
        f"NTK-aware scaling raises the base so far that the slowest pair is slowed by exactly the factor of the "
        f"extension. head_dim = {D}, base = {base:,}, factor {factor}: what is the new base?",
        NumberAnswer(
            new,
            tolerance=0.002,
            wrong=known(
                (base * factor, "The last pair's exponent is −(D − 2) / D, not −1, so s itself is not enough."),
                (base * factor ** ((D - 2) / D), "The exponent is D / (D − 2)."),
                (base * factor**2, "The factor is not squared."),
                (base / factor, "A larger base makes pairs slower."),
            ),
        ),
        "The slowest pair has the frequency base^(−(D − 2) / D); a base larger by s^(D / (D − 2)) divides it by s.",
        (Equation(old * s ** (width / (width - 2))),),
        longer(factor, model="own", head_dim=D, theta=base),
    )


# ---- YaRN


@kind("rope", 2)
def scores_under_yarn(rng: random.Random) -> Question:
    trained, factor = rng.choice(TRAINED), rng.choice((2, 4, 8, 16, 32))
    scaling = RopeScaling.of(yarn(factor, trained))
    assert scaling is not None
    m, s = scaling.attention_factor, Value(factor, "s", "factor of the extension")
    return Question(
        f"YaRN extends {trained:,} tokens to {factor * trained:,} and multiplies cos and sin by 0.1 · ln(s) + 1, s "
        "being the factor of the extension. By what factor does this change the scores q · k?",
        NumberAnswer(
            m * m,
            tolerance=0.005,
            wrong=known(
                (m, "Queries and keys are both multiplied by it."),
                (2 * m, "The two factors are multiplied, not added."),
                ((0.1 * math.log2(factor) + 1) ** 2, "That is with the logarithm to base 2."),
                ((0.1 * math.log(factor)) ** 2, "You left out + 1."),
            ),
        ),
        "Rotated queries and rotated keys both have the factor, so a score has its square.",
        (Equation((Value(0.1, digits=1) * function("ln", s) + 1) ** 2),),
        longer(factor),
    )


@kind("rope", 3)
def pairs_that_yarn_leaves(rng: random.Random) -> Question:
    D, base, trained = rng.choice(WIDTHS), rng.choice(BASES), rng.choice((*TRAINED, 32_768))
    n = int((slowed("yarn", D, base, 4, trained) > 1 - 1e-9).sum())
    width, old, tokens = _values(D, base, trained, "tokens of the trained context")
    frequencies = rope_frequencies(D, base)
    turns = Value(FAST, "β₁", "rotations", latex=r"\beta_1")
    return Question(
        f"YaRN leaves the pairs unchanged that rotate at least {FAST} times within the trained context. head_dim = "
        f"{D}, base = {base:,}, trained on {trained:,} tokens: how many pairs are these?",
        NumberAnswer(
            n,
            wrong=known(
                (n - 1, "That is the index of the last one; pairs are counted from 0."),
                (int((trained * frequencies / (2 * math.pi) >= 1).sum()), "These rotate at least once."),
                (int((trained * frequencies >= FAST).sum()), "A full rotation is 2π, not 1."),
                (D // 2 - n, "These are the pairs that YaRN slows."),
            ),
        ),
        f"Pair j rotates S / (2π · base^(2j / D)) times. The last pair with {FAST} rotations or more has the index "
        "⌊D / 2 · ln(S / (2π · β)) / ln(base)⌋, and pairs are counted from 0.",
        (Equation(function("floor", _last_pair(width, old, tokens / (TURN * turns))) + 1),),
        longer(4, model="own", head_dim=D, theta=base),
    )


@kind("rope", 3)
def frequency_inside_the_ramp(rng: random.Random) -> Question:
    D, base, trained = rng.choice((64, 128)), rng.choice(BASES), rng.choice(TRAINED)
    s = rng.choice((2, 4, 8))
    factors = slowed("yarn", D, base, s, trained)
    low, high = int((factors > 1 - 1e-9).sum()) - 1, int((factors > 1 / s + 1e-9).sum())
    j = rng.randrange(low + 2, high - 1)
    share = (j - low) / (high - low)
    first, last = (
        Value(low, "j₁", "last pair that is unchanged", latex="j_1"),
        Value(high, "j₂", "first pair that is slowed by the whole factor", latex="j_2"),
    )
    r = (Value(j, "j", "pair") - first) / (last - first)
    ramp, factor = Value(share, "r", "share of the slowed frequency"), Value(s, "s", "factor of the extension")
    return Question(
        f"YaRN with a factor of {s} leaves pairs 0 to {low} unchanged and divides the frequencies from pair {high} on "
        f"by {s}. In between it mixes both frequencies, with a share of the divided one that rises linearly from 0 "
        f"at pair {low} to 1 at pair {high}. By what factor is the frequency of pair {j} multiplied?",
        NumberAnswer(
            float(factors[j]),
            tolerance=0.005,
            wrong=known(
                (1 / (1 - share + share * s), "The frequencies are mixed, not the wavelengths."),
                (share + (1 - share) / s, "You exchanged the shares."),
                (s**-share, "The mix is linear, not geometric."),
                (share / s, "You left out the share of the unchanged frequency."),
            ),
        ),
        "The frequency is (1 − r) times the old one plus r times the old one divided by s.",
        (Equation(r, "r", meaning="share of the slowed frequency"), Equation((1 - ramp) + ramp / factor)),
        longer(s, model="own", head_dim=D, theta=base),
    )
