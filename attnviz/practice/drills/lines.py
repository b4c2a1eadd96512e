"""Questions on lines of code: fill a blank, find a wrong line. Each version is run and compared with the right one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.practice.drills.answers import NumberAnswer, known
from attnviz.practice.drills.question import Options, Question, kind
from attnviz.practice.drills.ranks import draw

B, T, H, K, D, PAST = 2, 7, 6, 2, 10, 3  # sizes on which the lines are run


def _names() -> dict[str, Any]:
    """Return the namespace in which the lines are run, with the same values every time."""
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
    """Run the lines. Return the tensor that the last one assigns, or a sentence if one raises."""
    names = _names()
    try:
        exec("\n".join(lines), names)  # noqa: S102, lines of this file
    except (RuntimeError, IndexError) as error:
        return f"It raises {type(error).__name__}."
    return names[lines[-1].partition(" = ")[0]]


def differs(output: Tensor | str, right: Tensor) -> str:
    """Describe how a result differs from the right one; "" if it does not."""
    if isinstance(output, str):
        return output
    if output.shape != right.shape:
        return f"It runs, but the shape is {tuple(output.shape)} instead of {tuple(right.shape)}."
    if output.dtype == torch.bool:
        n = int((output != right).sum())
        return f"It runs, but {n} of {right.numel()} cells are wrong." if n else ""
    if bool(output.isnan().any()):
        return "It runs, but the result contains NaN."
    return "" if torch.allclose(output, right, atol=1e-5) else "It runs with the right shape, but the values are wrong."


BLANKS = (  # line, the right option and its reason, what is wanted, the others and their mistakes
    ("scores = q @ k.transpose(___)", "-2, -1",
     "Queries (T, D) times transposed keys (D, S): the last two axes are swapped.",
     "scores compare each query with each key",
     {"1, 2": "That swaps the heads and the tokens of k.", "0, 1": "That swaps the texts and the heads of k.",
      "1, 3": "That swaps the heads and head_dim of k."}),
    ("weights = scores.softmax(___)", "-1",
     "Scores have shape (B, H, T, S): each query's weights, along the last axis S, sum to 1.",
     "each query's weights sum to 1",
     {"-2": "Axis −2 holds the queries: the weights of each key would sum to 1.",
      "1": "Axis 1 holds the heads.", "0": "Axis 0 holds the texts."}),
    ("scores = q @ k.transpose(-2, -1) / D ** ___", "0.5",
     "Scores are divided by the square root of head_dim.",
     "the size of the scores does not grow with D",
     {"1": "That divides by head_dim itself.", "2": "That divides by the square of head_dim.",
      "-0.5": "That multiplies by the square root of head_dim."}),
    ("mask = torch.ones(T, T, dtype=torch.bool).tril(___)", "0",
     "tril(0) keeps the diagonal and everything below it.",
     "a query may attend to itself and to the tokens before it (True = may attend)",
     {"1": "That also keeps the cells just above the diagonal: a query may attend to the next token.",
      "-1": "That drops the diagonal: a query may not attend to itself.",
      "T": "That keeps all cells: nothing is masked."}),
    ("mask = torch.ones(T, past + T, dtype=torch.bool).tril(___)", "past",
     "New token i is at position past + i, so the diagonal is shifted by past.",
     "T new tokens may attend to the cached tokens (past of them), to the new ones before them and to themselves",
     {"0": "That counts positions from the first cached token: new token 0 may attend to that one only.",
      "T": "That shifts the diagonal by the number of new tokens.",
      "past + 1": "That shifts the diagonal by one too many: a token may attend to the next one."}),
    ("k = kv.repeat_interleave(___, dim=1)", "H // K",
     "Each KV head is repeated H / K times in a row.",
     "kv (B, K, S, D) is expanded to H query heads, six for two KV heads",
     {"K": "That repeats each KV head K times and gives K · K heads.",
      "H": "That repeats each KV head H times and gives K · H heads.",
      "H * K": "That repeats each KV head H · K times and gives K · H · K heads."}),
    ("rotated = torch.cat((-q[..., D // 2:], q[..., : D // 2]), ___)", "-1",
     "The two halves are concatenated along head_dim, the last axis.",
     "the two halves of each head are swapped, one of them negated (half-split RoPE)",
     {"-2": "Axis −2 holds the tokens.", "1": "Axis 1 holds the heads.", "0": "Axis 0 holds the texts."}),
    ("y = o_proj(out.transpose(___).reshape(B, T, H * D))", "1, 2",
     "Tokens and heads are swapped first; reshape then merges heads and head_dim.",
     "the heads' outputs (B, H, T, D) are concatenated for each token",
     {"2, 3": "That swaps tokens and head_dim; the heads stay before the tokens.",
      "1, 3": "That swaps heads and head_dim.", "0, 1": "That swaps texts and heads."}),
)  # fmt: skip
RIGHT_BLANKS = {line: option for line, option, *_ in BLANKS}


@lru_cache(maxsize=64)
def _difference(line: str, option: str) -> str:
    right = run((line.replace("___", RIGHT_BLANKS[line]),))
    assert isinstance(right, Tensor)
    return differs(run((line.replace("___", option),)), right)


@kind("shapes", 1, "rope-pictures")
def blank_in_a_line(rng: random.Random) -> Question:
    line = draw(rng, RIGHT_BLANKS)
    _, right, because, wanted, mistakes = next(blank for blank in BLANKS if blank[0] == line)
    differences = {option: _difference(line, option) for option in mistakes}
    assert all(differences.values())
    wrong = [(option, f"{mistake} {differences[option]}") for option, mistake in mistakes.items()]
    return Question(
        f"Fill in the blank so that {wanted}. Shapes: q, k and out (B, H, T, D); scores (B, H, T, S).",
        Options(right, wrong, code=True).shuffled(rng),
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
    "It multiplies queries by keys and divides by √head_dim.",
    "True means “may attend”, so ~mask selects the masked cells, which get −∞.",
    "Each query's weights sum to 1 over the keys.",
    "It averages the values and concatenates the heads for each token.",
    "It mixes the heads' outputs.",
)
MISTAKES = (
    (0, "q, k, v = (p(x).view(B, H, T, D) for p in (q_proj, k_proj, v_proj))",
     "view(B, H, T, D) mixes tokens and heads; view(B, T, H, D).transpose(1, 2) swaps the axes."),
    (1, "scores = q @ k.transpose(-2, -1) / D", "Scores are divided by √head_dim, not by head_dim."),
    (1, "scores = q @ k.transpose(-2, -1) / (H * D) ** 0.5", "Scores are divided by √head_dim, not by √d_model."),
    (1, "scores = q @ k.transpose(-2, -1)", "Scores must be divided by √head_dim."),
    (1, "scores = q @ q.transpose(-2, -1) / D ** 0.5", "Queries are compared with queries; the keys are never used."),
    (2, "scores = scores.masked_fill(mask, -inf)", "True means “may attend”, so ~mask must get −∞, not mask."),
    (2, "scores = scores.masked_fill(~mask, 0.0)", "A masked score of 0 still has the exponential 1; it must be −∞."),
    (2, "scores = scores.masked_fill(~mask.T, -inf)", "The transposed mask lets a query attend to later tokens."),
    (3, "weights = scores.softmax(-2)", "softmax(-2) is over the queries; weights must sum to 1 over the keys."),
    (3, "weights = scores.softmax(1)", "Axis 1 holds the heads; the softmax must be over the keys."),
    (3, "weights = scores.sigmoid()", "Sigmoids do not sum to 1 over the keys."),
    (4, "heads = (weights @ v).reshape(B, T, H * D)", "transpose(1, 2) must come first, or reshape mixes tokens."),
    (4, "heads = (weights @ k).transpose(1, 2).reshape(B, T, H * D)", "The weights average the values, not the keys."),
)  # fmt: skip


@lru_cache(maxsize=16)
def _with(n: int) -> tuple[str, ...]:
    """Return the six lines with mistake n, after checking that it changes the output and raises no error."""
    at, line, _ = MISTAKES[n]
    lines = (*ATTENTION[:at], line, *ATTENTION[at + 1 :])
    right = run(ATTENTION)
    assert isinstance(right, Tensor) and differs(run(lines), right).startswith("It runs")
    return lines


@kind("shapes", 3, "many-heads")
def wrong_line(rng: random.Random) -> Question:
    wrong = draw(rng, [line for _, line, _ in MISTAKES])
    n = next(n for n, (_, line, _) in enumerate(MISTAKES) if line == wrong)
    at, _, explanation = MISTAKES[n]
    listed = "\n".join(f"{i}  {line}" for i, line in enumerate(_with(n), 1))
    others = [(i + 1, f"Line {i + 1} is right. {does}") for i, does in enumerate(DOES) if i != at]
    return Question(
        "Causal multi-head attention; mask is bool, and True means “may attend”. One line is wrong, but none raises an "
        "error. What is the number of the wrong line?",
        NumberAnswer(at + 1, wrong=known(*others)),
        f"{explanation} The right line is: {ATTENTION[at]}.",
        link=("steps", {}),
        code=listed,
    )
