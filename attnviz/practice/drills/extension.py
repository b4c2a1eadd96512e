"""Questions on contexts longer than the original one: linear and NTK-aware scaling, YaRN, and Llama 3's scaling.

Answers come from attnviz.modules.rope_scaling; the models and their scaling, from the published configurations.
"""

from __future__ import annotations

import math
import random
from functools import lru_cache

from torch import Tensor

from attnviz.config import ModelConfig
from attnviz.equations import Equation, Expression, Value, function, number_text
from attnviz.mechanisms import letter
from attnviz.modules.rope import rope_frequencies
from attnviz.modules.rope_scaling import scaled_rope_frequencies, yarn_bounds
from attnviz.practice.drills.answers import HALF, NumberAnswer, known
from attnviz.practice.drills.extended import METHODS, Extended, extended, fewer_than, leaves_from, rotations, times
from attnviz.practice.drills.heads import published_with
from attnviz.practice.drills.question import Options, Question, kind
from attnviz.practice.drills.rope import rotation

TURN = Value(2 * math.pi, "2π", "a full rotation", digits=4, latex=r"2\pi")


# ---- which pairs change


_CHANGED = {
    "linear": "all pairs, by the same factor",
    "ntk": "all pairs but the fastest, the more the slower they are",
    "often": "those that rotate {} within the original context",
}
_REASONS = {
    "linear": "Dividing positions by the factor slows each pair by that factor, the fast ones too.",
    "ntk": "A larger base leaves pair 0 as it is and slows the last pair by the whole factor.",
    "often": "Pairs that rotate often within the original context have shown all their angles in training, so their "
    "frequency is left as it is.",
}
_NAMES = {"linear": METHODS["linear"], "ntk": METHODS["ntk"], "often": "YaRN, and Llama 3's scaling"}


def _changes(factors: Tensor) -> str:
    """Return the key in _CHANGED of the method that leads to these factors on the frequencies."""
    unchanged = int((factors > 1 - 1e-9).sum())
    return "linear" if not unchanged else "ntk" if unchanged == 1 else "often"


@kind("rope", 1, "longer-contexts")
def pairs_that_a_method_slows(rng: random.Random) -> Question:
    e = extended(rng, *METHODS)
    found, often = _changes(e.slowed), fewer_than(leaves_from(e.scaling))
    wrong = [(_CHANGED[other].format(often), f"That is {_NAMES[other]}.") for other in _CHANGED if other != found]
    wrong.append(("none of them", "Then the slow pairs would reach angles that they never had in training."))
    return Question(
        f"{e.told}. Which pairs of dimensions {'rotate' if e.own else 'would rotate'} more slowly per token than "
        "before?",
        Options(_CHANGED[found].format(often), wrong).shuffled(rng),
        _REASONS[found],
        link=e.link(),
    )


@kind("rope", 1, "longer-contexts")
def position_after_interpolation(rng: random.Random) -> Question:
    e = extended(rng, "linear")
    s = int(e.scaling.factor)
    trained = e.trained or e.longest // s
    p = s * rng.randrange(trained // s + 1, e.longest // s - 1)
    moved = p - (e.longest - trained)
    again = p % trained, "Positions do not start again at 0 after the original context."
    position, factor = Value(p, "p", "position"), Value(s, "s", "factor of the extension")
    return Question(
        f"{e.told}. To which position {'does' if e.own else 'would'} this map position {p:,} before RoPE rotates?",
        NumberAnswer(
            round(p * float(e.slowed[0])),
            wrong=known(
                (p, "That is without interpolation."),
                again if e.trained else None,
                (moved, "Positions are divided, not moved.") if e.trained and moved > 0 else None,
                (p * s, "Divide; do not multiply."),
            ),
        ),
        "Positions are divided by the factor, so that those of the longer context lie in the range of the original.",
        (Equation(position / factor),),
        e.link(),
    )


@kind("rope", 3, "longer-contexts")
def interpolated_angle(rng: random.Random) -> Question:
    e = extended(rng, "linear")
    s, j = int(e.scaling.factor), rng.randrange(1, 5)
    p = rng.randrange(64, 512, 8)
    angle = p * float(rope_frequencies(e.width, e.base)[j] * e.slowed[j])
    width, base, _ = _values(e.width, e.base, 1, "")
    position, factor, pair = Value(p, "p", "position"), Value(s, "s", "factor of the extension"), Value(j, "j", "pair")
    return Question(
        f"{e.told}. {e.rotation}. What {'is' if e.own else 'would be'} the angle of pair {j} (from 0) at position {p}, "
        "in radians?",
        NumberAnswer(
            angle,
            "rad",
            0.01,
            known(
                (angle * s, "You did not divide the position by the factor."),
                (angle * s * s, "Divide by the factor; do not multiply."),
                (p / s * e.base ** (-j / e.width), "The exponent is −2j / D."),
            ),
        ),
        "Position interpolation divides positions by the factor, which equals dividing each frequency by it.",
        (Equation(position / factor * base ** (-(2 * pair / width))),),
        e.link(),
    )


@kind("rope", 2, "rope-pictures")
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
    return int((rotations(D, base, n_tokens) < 1).sum())


def _has_slow_pairs(m: ModelConfig) -> bool:
    """Check that a model has unscaled RoPE, of which some pairs do not complete a rotation within its context."""
    if m.attention == "mla" or not m.rotary_dim or m.rope_scaling or m.rope_theta is None or m.max_context is None:
        return False
    return _n_slow(m.rotary_dim, m.rope_theta, m.max_context) > 0 and _is_clear(
        m.rotary_dim, m.rope_theta, m.max_context
    )


def _is_clear(D: int, base: float, tokens: int, times: float = 1) -> bool:
    """Check that rounding intermediate results to three digits does not change the last pair that rotates so often."""
    index = D / 2 * math.log(tokens / (2 * math.pi * times)) / math.log(base)
    return math.floor(index * (1 - HALF)) == math.floor(index * (1 + HALF))


def _values(D: int, base: float, tokens: int, meaning: str) -> tuple[Value, Value, Value]:
    return (
        letter("D", D, "rotated dimensions of a head"), Value(base, "base", "rope_theta", latex=r"\text{base}"),
        letter("S", tokens, meaning),
    )  # fmt: skip


def _last_pair(width: Expression, base: Expression, slowest: Expression) -> Expression:
    """Return the fractional index of the pair whose frequency is 1 / slowest."""
    return width / 2 * function("ln", slowest) / function("ln", base)


# ---- NTK-aware scaling


@kind("rope", 2, "longer-contexts")
def base_of_ntk_scaling(rng: random.Random) -> Question:
    e = extended(rng, "ntk", factors=(4, 8))
    D, base, factor = e.width, e.base, int(e.scaling.factor)
    new = float(scaled_rope_frequencies(D, base, e.scaling)[1]) ** (-D / 2)
    width, old, _ = _values(D, base, 1, "")
    s = Value(factor, "s", "factor of the extension")
    return Question(
        f"{e.told}, which raises the base so far that the slowest pair is slowed by exactly this factor. {e.rotation}: "
        "what would be the new base?",
        NumberAnswer(
            new,
            tolerance=0.01,
            wrong=known(
                (base * factor, "The last pair's exponent is −(D − 2) / D, not −1, so s itself is not enough."),
                (base * factor ** ((D - 2) / D), "The exponent is D / (D − 2)."),
                (base * factor**2, "The factor is not squared."),
                (base / factor, "A larger base makes pairs slower."),
            ),
        ),
        "The slowest pair has the frequency base^(−(D − 2) / D); a base larger by s^(D / (D − 2)) divides it by s.",
        (Equation(old * s ** (width / (width - 2))),),
        e.link(),
    )


# ---- YaRN and Llama 3's scaling


@kind("rope", 2, "longer-contexts")
def scores_under_yarn(rng: random.Random) -> Question:
    e = extended(rng, "yarn", wanted=lambda e: e.scaling.attention_factor > 1)  # DeepSeek scales the softmax instead
    factor, m = e.scaling.factor, e.scaling.attention_factor
    s = Value(factor, "s", "factor of the extension")
    multiplies = "It multiplies" if e.own else "It would multiply"
    return Question(
        f"{e.told}. {multiplies} cos and sin by 0.1 · ln(s) + 1, s being the factor. What are the scores q · k "
        "multiplied by?",
        NumberAnswer(
            m * m,
            tolerance=0.01,
            wrong=known(
                (m, "Queries and keys are both multiplied by it."),
                (2 * m, "The two factors are multiplied, not added."),
                ((0.1 * math.log2(factor) + 1) ** 2, "That is with the logarithm to base 2."),
                ((0.1 * math.log(factor)) ** 2, "You left out + 1."),
            ),
        ),
        "Rotated queries and rotated keys both have the factor, so a score has its square.",
        (Equation((Value(0.1, digits=1) * function("ln", s) + 1) ** 2),),
        e.link(),
    )


@kind("rope", 3, "longer-contexts")
def pairs_that_yarn_leaves(rng: random.Random) -> Question:
    e = extended(rng, "yarn", "llama3", wanted=lambda e: not _left(e).clashes())
    least = leaves_from(e.scaling)
    width, old, tokens = _values(e.width, e.base, e.trained or 0, "tokens of the original context")
    often = Value(least, "ρ", "rotations", latex=r"\rho")
    return Question(
        f"{e.told}. This {'leaves' if e.own else 'would leave'} unchanged the pairs that rotate at least "
        f"{times(least)} within the original context. {e.rotation}. How many pairs are these?",
        _left(e),
        "Pair j rotates S / (2π · base^(2j / D)) times. The last pair with ρ rotations or more has the index "
        "⌊D / 2 · ln(S / (2π · ρ)) / ln(base)⌋, and pairs are counted from 0.",
        (Equation(function("floor", _last_pair(width, old, tokens / (TURN * often))) + 1),),
        e.link(),
    )


def _left(e: Extended) -> NumberAnswer:
    """Return the number of pairs that keep their frequency; an answer that clashes where rounding decides it."""
    assert e.trained is not None
    least, turns = leaves_from(e.scaling), rotations(e.width, e.base, e.trained)
    n = int((e.slowed > 1 - 1e-9).sum())
    once, without_turn = int((turns >= 1).sum()), int((2 * math.pi * turns >= least).sum())
    clear = _is_clear(e.width, e.base, e.trained, least)
    return NumberAnswer(
        n,
        wrong=known(
            (n - 1 if clear else n, "That is the index of the last one; pairs are counted from 0."),
            (once, "These rotate at least once.") if once != n else None,
            (without_turn, "A full rotation is 2π, not 1.") if without_turn != once else None,
            (e.width // 2 - n, "These are the pairs that are slowed.") if e.width // 2 - n != once else None,
        ),
    )


@kind("rope", 3, "longer-contexts")
def frequency_inside_the_ramp(rng: random.Random) -> Question:
    e = extended(rng, "yarn", "llama3", wanted=lambda e: len(_inside(e)) > 1)
    s, j = e.scaling.factor, rng.choice(_inside(e))
    told, share = (_share_in_yarn if e.method == "yarn" else _share_in_llama3)(e, j)
    r, factor = share.value, Value(s, "s", "factor of the extension")
    old = Value(r, "r", "share of the old frequency", digits=5)
    mixed = old + (1 - old) / factor
    assert math.isclose(mixed.value, e.slowed[j], rel_tol=0.01), "the bounds are rounded for the question"
    return Question(
        f"{e.told}. {told} What {'is' if e.own else 'would be'} the new frequency of pair {j}, divided by the old one?",
        NumberAnswer(
            float(mixed.value),
            tolerance=0.01,
            wrong=known(
                (1 / (r + (1 - r) * s), "The frequencies are mixed, not the wavelengths."),
                (1 - r + r / s, "You exchanged the shares."),
                (s ** (r - 1), "The mix is linear, not geometric."),
                ((1 - r) / s, "You left out the share of the old frequency."),
            ),
        ),
        "The frequency is r times the old one plus (1 − r) times the old one divided by s.",
        (Equation(share, "r", digits=5, meaning=old.meaning), Equation(mixed)),
        e.link(),
    )


def _inside(e: Extended) -> list[int]:
    """List the pairs of which each frequency has a share of a tenth or more."""
    s = e.scaling.factor
    return [j for j, slowed in enumerate(e.slowed.tolist()) if 0.1 < (slowed - 1 / s) / (1 - 1 / s) < 0.9]


def _share_in_yarn(e: Extended, j: int) -> tuple[str, Expression]:
    """Return the pairs between which YaRN mixes both frequencies, in words, and the share of the old one for pair j."""
    low, high = (round(n, 2) for n in yarn_bounds(e.width // 2, e.base, e.scaling))
    decimals = None if e.scaling.truncate else 2
    first, last = (
        Value(low, "j₁", "where the share of the old frequency is 1", decimals, latex="j_1"),
        Value(high, "j₂", "where it is 0", decimals, latex="j_2"),
    )
    j1, j2 = (number_text(each.number, digits=decimals) for each in (first, last))
    told = (
        f"Pairs up to j₁ = {j1} keep their frequency, and from j₂ = {j2} on it is divided by the factor. In "
        "between both frequencies are mixed, with a share of the old one that falls linearly from 1 at j₁ to 0 at j₂."
    )
    return told, (last - Value(j, "j", "pair")) / (last - first)


def _share_in_llama3(e: Extended, j: int) -> tuple[str, Expression]:
    """Return the rotations between which Llama 3 mixes both frequencies, in words, and the share of the old one."""
    assert e.trained is not None
    few, many = e.scaling.low_freq_factor, e.scaling.high_freq_factor
    turns = round(float(rotations(e.width, e.base, e.trained)[j]), 3)
    rotated, least, most = (
        Value(turns, "n", "rotations of the pair within the original context", digits=3),
        Value(few, "n₁", "rotations up to which the share of the old frequency is 0", latex="n_1"),
        Value(many, "n₂", "rotations from which it is 1", latex="n_2"),
    )
    told = (
        f"Pairs that rotate {times(many)} or more within the original context keep their frequency, and that of pairs "
        f"that rotate {times(few)} or less is divided by the factor. In between both are mixed, with a share of the "
        f"old one that rises linearly with the rotations, from 0 to 1. Pair {j} rotates {turns:.3f} times."
    )
    return told, (rotated - least) / (most - least)
