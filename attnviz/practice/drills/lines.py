"""Lines of code: a blank to be filled, a line that is wrong. Each version is run, and compared with the right one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.question import Options, Question, kind

B, T, H, K, D, PAST = 2, 7, 6, 2, 10, 3  # what the lines are run on


def _names() -> dict[str, Any]:
    """What the lines refer to; the same numbers every time."""
    generator = torch.Generator().manual_seed(7)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def projection() -> Callable[[Tensor], Tensor]:
        weight = drawn(H * D, H * D) * (H * D) ** -0.5
        return lambda x: nn.functional.linear(x, weight)

    names: dict[str, Any] = {name: projection() for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
    names |= {"torch": torch, "B": B, "T": T, "H": H, "K": K, "D": D, "past": PAST, "inf": float("inf")}
    names |= {"x": drawn(B, T, H * D), "mask": torch.ones(T, T, dtype=torch.bool).tril()}
    names |= {"q": drawn(B, H, T, D), "k": drawn(B, H, T, D), "scores": drawn(B, H, T, T), "out": drawn(B, H, T, D)}
    return names | {"kv": drawn(B, K, T, D)}


def run(lines: tuple[str, ...]) -> Tensor | str:
    """The tensor that the last of these lines assigns; a sentence where one of them raises."""
    names = _names()
    try:
        exec("\n".join(lines), names)  # noqa: S102, lines of this file
    except (RuntimeError, IndexError) as error:
        return f"It raises {type(error).__name__}."
    return names[lines[-1].partition(" = ")[0]]


def differs(found: Tensor | str, right: Tensor) -> str:
    """How the result of a version differs from the right one; "" where it does not."""
    if isinstance(found, str):
        return found
    if found.shape != right.shape:
        return f"It runs and gives the shape {tuple(found.shape)} instead of {tuple(right.shape)}."
    if found.dtype == torch.bool:
        n = int((found != right).sum())
        return f"It runs, and {n} of {right.numel()} cells are wrong." if n else ""
    if bool(found.isnan().any()):
        return "It runs and gives NaN."
    return "" if torch.allclose(found, right, atol=1e-5) else "It runs, the shape is right, and the numbers are not."


BLANKS = (
    ("scores = q @ k.transpose(___)", ("-2, -1", "1, 2", "0, 1", "1, 3"), "scores compare each query with each key",
     "Queries (T, D) times keys transposed (D, S): the last two axes are exchanged."),
    ("weights = scores.softmax(___)", ("-1", "-2", "1", "0"), "each query's weights sum to 1",
     "Scores are (B, H, T, S): each query's weights, along the last axis S, sum to 1."),
    ("scores = q @ k.transpose(-2, -1) / D ** ___", ("0.5", "1", "2", "-0.5"), "scores are scaled as in the paper",
     "Scores are divided by the square root of head_dim."),
    ("mask = torch.ones(T, T, dtype=torch.bool).tril(___)", ("0", "1", "-1", "T"),
     "a query may attend to itself and to what stands before it (True = may attend)",
     "tril(0) keeps the diagonal and what is below it."),
    ("mask = torch.ones(T, past + T, dtype=torch.bool).tril(___)", ("past", "0", "T", "past + 1"),
     "T new tokens may attend to the past tokens in the cache, to the new ones before them and to themselves",
     "New token i stands at position past + i, so the diagonal is shifted by past."),
    ("k = kv.repeat_interleave(___, dim=1)", ("H // K", "K", "H", "H * K"),
     "kv (B, K, S, D) fits H query heads, six for two KV heads",
     "Each KV head is repeated H / K times in its place."),
    ("rotated = torch.cat((-q[..., D // 2:], q[..., : D // 2]), ___)", ("-1", "-2", "1", "0"),
     "each half of a head stands where the other was (RoPE, half-split)",
     "The two halves are joined along head_dim, the last axis."),
    ("y = o_proj(out.transpose(___).reshape(B, T, H * D))", ("1, 2", "2, 3", "1, 3", "0, 1"),
     "the heads' outputs (B, H, T, D) are laid side by side for each token",
     "Tokens and heads are exchanged first: reshape then joins heads and head_dim."),
)  # fmt: skip
RIGHT_BLANKS = {line: options[0] for line, options, *_ in BLANKS}


@lru_cache(maxsize=64)
def _told(line: str, option: str) -> str:
    right = run((line.replace("___", RIGHT_BLANKS[line]),))
    assert isinstance(right, Tensor)
    return differs(run((line.replace("___", option),)), right)


@kind("shapes", 1)
def blank_in_a_line(rng: random.Random) -> Question:
    line, options, wanted, because = rng.choice(BLANKS)
    told = {option: _told(line, option) for option in options}
    right = [option for option, says in told.items() if not says]
    assert right == [options[0]]
    return Question(
        f"Fill the blank so that {wanted}. Shapes: q, k, out (B, H, T, D), scores (B, H, T, S).",
        Options(right[0], [(o, says) for o, says in told.items() if says], code=True).shuffled(rng),
        because,
        link=("steps", {}),
        code=line,
    )


ATTENTION = (
    "q, k, v = (p(x).view(B, T, H, D).transpose(1, 2) for p in (q_proj, k_proj, v_proj))",
    "scores = q @ k.transpose(-2, -1) / D ** 0.5",
    "scores = scores.masked_fill(~mask, -inf)",
    "weights = scores.softmax(-1)",
    "heads = (weights @ v).transpose(1, 2).reshape(B, T, H * D)",
    "y = o_proj(heads)",
)
DOES = (
    "It projects, splits into heads and puts the heads before the tokens.",
    "It compares queries with keys and divides by √head_dim.",
    "The mask says True = may attend, so what is not allowed gets −∞.",
    "Each query's weights sum to 1 over the keys.",
    "It averages the values, and lays the heads side by side for each token.",
    "It mixes the heads.",
)
MISTAKES = (
    (0, "q, k, v = (p(x).view(B, H, T, D) for p in (q_proj, k_proj, v_proj))",
     "view(B, H, T, D) mixes tokens and heads: view(B, T, H, D).transpose(1, 2) moves the axes."),
    (1, "scores = q @ k.transpose(-2, -1) / D", "Scores are divided by √head_dim, not by head_dim."),
    (1, "scores = q @ k.transpose(-2, -1) / (H * D) ** 0.5", "Scores are divided by √head_dim, not by √d_model."),
    (1, "scores = q @ k.transpose(-2, -1)", "Scores are divided by √head_dim."),
    (1, "scores = q @ q.transpose(-2, -1) / D ** 0.5", "Queries are compared with queries; the keys are never read."),
    (2, "scores = scores.masked_fill(mask, -inf)", "The mask says True = may attend: ~mask is what gets −∞."),
    (2, "scores = scores.masked_fill(~mask, 0.0)", "A masked score of 0 still has the exponential 1: it needs −∞."),
    (2, "scores = scores.masked_fill(~mask.T, -inf)", "The transposed mask lets a query attend to later tokens."),
    (3, "weights = scores.softmax(-2)", "softmax(−2) is over the queries; weights sum to 1 over the keys."),
    (3, "weights = scores.softmax(1)", "Axis 1 holds the heads; the softmax is over the keys."),
    (3, "weights = scores.sigmoid()", "Sigmoids do not sum to 1 over the keys."),
    (4, "heads = (weights @ v).reshape(B, T, H * D)", "transpose(1, 2) comes first: otherwise reshape mixes tokens."),
    (4, "heads = (weights @ k).transpose(1, 2).reshape(B, T, H * D)", "Weights average the values, not the keys."),
)  # fmt: skip


@lru_cache(maxsize=16)
def _with(n: int) -> tuple[str, ...]:
    """The six lines with mistake n, which changes the output and raises nothing."""
    at, line, _ = MISTAKES[n]
    lines = (*ATTENTION[:at], line, *ATTENTION[at + 1 :])
    right = run(ATTENTION)
    assert isinstance(right, Tensor) and differs(run(lines), right).startswith("It runs")
    return lines


@kind("shapes", 3)
def wrong_line(rng: random.Random) -> Question:
    n = rng.randrange(len(MISTAKES))
    at, _, says = MISTAKES[n]
    listed = "\n".join(f"{i}  {line}" for i, line in enumerate(_with(n), 1))
    others = [(i + 1, f"Line {i + 1} is right. {said}") for i, said in enumerate(DOES) if i != at]
    return Question(
        "Causal multi-head attention; mask is bool, True = may attend. One line is wrong, and nothing raises an error. "
        "Which one (its number)?",
        NumberAnswer(at + 1, wrong=known(*others)),
        f"{says} The right line: {ATTENTION[at]}.",
        link=("steps", {}),
        code=listed,
    )
