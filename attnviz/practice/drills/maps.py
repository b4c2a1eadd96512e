"""Questions on attention maps: identify a head's role, an untrained head or a mistake; read off a weight.

The maps come from a shipped checkpoint on short texts. T tokens.
"""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from attnviz.analysis.layers import Each
from attnviz.analysis.roles import score
from attnviz.checkpoints import load_checkpoint, shipped_config
from attnviz.equations import Equation, Value, total
from attnviz.modules import Transformer
from attnviz.modules.masks import attention_mask
from attnviz.practice.drills.answers import ChoiceAnswer, NumberAnswer, known
from attnviz.practice.drills.masks import OFFSET, causal_rows, window_page
from attnviz.practice.drills.question import Drawn, Options, Question, kind, tries
from attnviz.practice.drills.ranks import draw
from attnviz.text import tokenizer
from attnviz.trace import Trace, trace

CHECKPOINT = "gqa-4"
TEXTS = (
    "The little girl found a red ball. The little girl found a red ball.",
    "The old man saw a dog in the garden. The old man saw a dog in",
    "Alice ran down the hill to the river. Alice ran down the hill to",
)
CLEAR, UNCLEAR = 0.6, 0.3  # mean weight on a role's keys: at least CLEAR to show that role, below UNCLEAR to show none
LETTERS = "ABCD"
SINK = "attention sink"
SEEN = {  # what a map of the role shows: its share of the weight, on average over n queries
    "previous token": "the queries put {share} of their weight on the token before them",
    "current token": "the queries put {share} of their weight on their own token",
    "induction": "the {n} queries whose token occurred before put {share} of their weight on the token after an "
    "earlier occurrence",
    SINK: "the queries put {share} of their weight on the first token",
}
CALLED = {"previous token": "a previous-token head", "current token": "a current-token head",
          "induction": "an induction head", SINK: "an attention sink"}  # fmt: skip
HEADS = ("heads", {"tab": "does", "model": CHECKPOINT})


@lru_cache(maxsize=2)
def _model(trained: bool) -> Transformer:
    if trained:
        return load_checkpoint(CHECKPOINT)[0]
    return Transformer.random(shipped_config(CHECKPOINT), seed=0)


@lru_cache(maxsize=2 * len(TEXTS))
def _trace(text: str, trained: bool = True) -> Trace:
    return trace(_model(trained), tokenizer().encode(text))


@lru_cache(maxsize=len(TEXTS))
def heads_by_role(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return, for each role, the heads that clearly have it on this text and no other role."""
    run = _trace(text)
    weight = score(Each(run.layers, "weights"), run.masks, run.tokens).weight
    named = [role for role in SEEN if role in weight]
    return {
        role: [
            (layer, head)
            for layer, head in np.argwhere(weight[role] >= CLEAR).tolist()
            if all(weight[other][layer, head] < 0.4 for other in (*named, "first token") if other != role)
        ]
        for role in named
    }


def _head(text: str, layer: int, head: int) -> tuple[str, dict[str, str]]:
    """Return the page and settings that show this head on this text."""
    return "heads", {"model": CHECKPOINT, "text": text, "layer": str(layer), "head": str(head)}


def _seen(role: str, weights: np.ndarray, run: Trace) -> str:
    """Describe what a map (T, T) shows of its role, with the share of the weight that is on the role's keys."""
    scores = score([weights[None]], run.masks[:1], run.tokens)
    key = "first token" if role == SINK else role
    share, n = float(scores.weight[key][0, 0]), int(scores.n_queries[key][0])
    return SEEN[role].format(share=f"{share:.0%}", n=n) + ", on average"


def _sink(run: Trace, layer: int, head: int) -> tuple[np.ndarray, int]:
    """Turn a head into a clear attention sink by adding a constant to the scores of key 0. Return its weights and the
    constant, the smallest even one that works. No shipped head is a sink by itself."""
    scores, allowed = _scores(run, layer, head)
    for added in range(2, 100, 2):
        biased = scores.clone()
        biased[:, 0] += added
        weights = biased.masked_fill(~allowed, -torch.inf).softmax(-1)
        if float(weights[2:, 0].mean()) > 0.75:
            return weights.numpy(), added
    raise AssertionError("the scores of this head are too far apart for a sink")


@kind("heads", 2, "many-heads", drawn=True)
def map_of_a_role(rng: random.Random) -> Question:
    text = rng.choice(TEXTS)
    run, found = _trace(text), heads_by_role(text)
    chosen = {role: rng.choice(found[role]) for role in found}
    chosen[SINK] = rng.choice(found["current token"])
    maps = {role: _weights(run, *head) for role, head in chosen.items()}
    maps[SINK], added = _sink(run, *chosen[SINK])
    seen = {role: _seen(role, weights, run) for role, weights in maps.items()}
    roles = list(maps)
    rng.shuffle(roles)
    asked = rng.choice(roles)
    tokens = tuple(tokenizer().labels(run.tokens.tolist()))
    explanation = {
        LETTERS[i]: f"{LETTERS[i]} is {CALLED[role]}: {seen[role]}." for i, role in enumerate(roles) if role != asked
    }
    letter = LETTERS[roles.index(asked)]
    extra = f" This map was made for the question by adding {added} to the scores of key 0." if asked == SINK else ""
    return Question(
        f"Four attention maps of the text “{text}” (rows are queries, columns are keys). Which one is {CALLED[asked]}?",
        _letters(letter, explanation),
        f"In {letter}, {seen[asked]}.{extra}",
        link=_head(text, *chosen[asked]),
        maps=tuple(Drawn(causal_rows(maps[role]), LETTERS[i], tokens) for i, role in enumerate(roles)),
    )


def _letters(right: str, explanation: dict[str, str]) -> ChoiceAnswer:
    """Build the options A, B, C, D in order: the maps are already shuffled."""
    return Options(right, tuple(explanation.items())).in_order()


@kind("heads", 1, "many-heads", drawn=True)
def map_without_training(rng: random.Random) -> Question:
    text = rng.choice(TEXTS)
    run, random_run, found = _trace(text), _trace(text, False), heads_by_role(text)
    weight = score(Each(random_run.layers, "weights"), random_run.masks, random_run.tokens).weight
    most = np.max([weight[role] for role in found], axis=0)  # (L, H)
    layer, head = rng.choice(np.argwhere(most < UNCLEAR).tolist())
    plain = _weights(random_run, layer, head)
    maps: list[tuple[np.ndarray, str]] = [
        (_weights(run, *head), f"is {CALLED[role]}: {_seen(role, _weights(run, *head), run)}")
        for role, head in ((role, rng.choice(found[role])) for role in found)
    ]
    maps.append((plain, ""))
    rng.shuffle(maps)
    right = LETTERS[next(i for i, (_, explanation) in enumerate(maps) if not explanation)]
    explanation = {LETTERS[i]: f"{LETTERS[i]} {role}." for i, (_, role) in enumerate(maps) if role}
    tokens = tuple(tokenizer().labels(run.tokens.tolist()))
    return Question(
        "Four attention maps of one text: three from heads of a trained model, one from a model with random weights. "
        "Which one is untrained?",
        _letters(right, explanation),
        f"Each trained head here puts on average {CLEAR:.0%} or more of its weight on one kind of key: the previous "
        "token, the token itself, or, if the token occurred before, the token after an earlier occurrence. "
        f"{right} puts at most {most[layer, head]:.0%} on any of them.",
        link=("heads", {"model": "own", "text": text, "layer": str(layer), "head": str(head)}),
        maps=tuple(Drawn(causal_rows(weights), LETTERS[i], tokens) for i, (weights, _) in enumerate(maps)),
    )


def _without_mask(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.softmax(-1)


def _off_by_one(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~torch.ones_like(allowed).tril(1), -torch.inf).softmax(-1)


def _over_queries(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -torch.inf).softmax(-2)


def _after_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.softmax(-1) * allowed


def _masked_by_zero(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, 0.0).softmax(-1)


_ROW_0 = "query 0 has only one key, and its weight is not 1"
WRONG_MAPS = (  # function, id of the mistake if there is a page of it, reason
    (_without_mask, "mask_never_used", "there is weight above the diagonal, on later keys: the mask is never used"),
    (_off_by_one, "", "queries also attend to the next token, one cell above the diagonal: tril(1) instead of tril()"),
    (_over_queries, "softmax_over_queries", f"{_ROW_0}: the softmax is over the queries"),
    (_after_softmax, "mask_after_softmax", f"{_ROW_0}: the mask is applied after the softmax"),
    (_masked_by_zero, "", "there is weight above the diagonal: masked scores are set to 0 instead of −∞"),
)  # fmt: skip


@kind("masks", 3, "score-to-weight")
def map_with_a_mistake(rng: random.Random) -> Question:
    text = rng.choice(TEXTS)
    run, found = _trace(text), heads_by_role(text)
    by_reason = {reason: (make, mistake) for make, mistake, reason in WRONG_MAPS}
    reason = draw(rng, by_reason)
    make, mistake = by_reason[reason]
    several = [head for role in ("induction", "current token") for head in found[role]]
    rng.shuffle(several)
    mistaken, head = next((w, head) for head in several if _is_wrong(w := make(*_scores(run, *head))))
    correct = [each for each in several if each != head][:3]
    maps = [causal_rows(_weights(run, *each)) for each in correct]
    wrong = rng.randrange(4)
    maps.insert(wrong, _drawn_where(mistaken > 0, mistaken))
    tokens = tuple(tokenizer().labels(run.tokens.tolist()))
    explanation = {
        letter: f"{letter} is correct, the map of layer {layer}, head {head}: there is no weight above the diagonal, "
        "and each row sums to 1."
        for letter, (layer, head) in zip([each for each in LETTERS if each != LETTERS[wrong]], correct, strict=True)
    }
    return Question(
        "Four causal attention maps; rows are queries. Three are correct. Which one comes from code with a mistake?",
        _letters(LETTERS[wrong], explanation),
        f"In {LETTERS[wrong]}, {reason}.",
        link=("mistakes", {"mistake": mistake}) if mistake else ("heads", {"tab": "masks"}),
        maps=tuple(Drawn(values, LETTERS[i], tokens) for i, values in enumerate(maps)),
    )


def _weights(run: Trace, layer: int, head: int) -> np.ndarray:
    return run.layers[layer].weights[head]


def _scores(run: Trace, layer: int, head: int) -> tuple[Tensor, Tensor]:
    """Return the scores and the mask of one head, both (T, T)."""
    return torch.tensor(run.layers[layer].scores_of(head)), torch.tensor(run.masks[layer])


def _drawn_where(drawn: Tensor, weights: Tensor) -> tuple[tuple[float | None, ...], ...]:
    """Convert a map to rows for drawing, with None where `drawn` is False."""
    return tuple(
        tuple(w if d else None for w, d in zip(row, keep, strict=True))
        for row, keep in zip(weights.tolist(), drawn.tolist(), strict=True)
    )


def _is_wrong(weights: Tensor) -> bool:
    """Check whether the mistake is visible: weight above the diagonal, or a weight other than 1 for query 0."""
    return float(weights.triu(1).max()) > 0.1 or abs(float(weights[0, 0]) - 1) > 0.1


@lru_cache(maxsize=64)
def _cells(text: str, n: int, low: float, high: float) -> list[tuple[int, int, int, int]]:
    """List layer, head, query and key of the weights in this range, of the first n tokens; of queries from 2 on."""
    run = _trace(text)
    every = np.array(
        [[_weights(run, layer, h)[:n, :n] for h in range(run.config.n_heads)] for layer in range(len(run.layers))]
    )
    found = np.argwhere((every >= low) & (every <= high)).tolist()  # every: (L, H, n, n)
    return [(layer, head, i, j) for layer, head, i, j in found if i >= 2 and j <= i]


@kind("masks", 1, "one-head", drawn=True)
def weight_off_a_map(rng: random.Random) -> Question:
    text = rng.choice(TEXTS)
    run, n = _trace(text), rng.choice((7, 8, 9))
    # the right option is, as often, the lowest of the three, the one in the middle, and the highest
    steps, low, high = rng.choice((((0.3, 0.6), 0.02, 0.3), ((-0.3, 0.3), 0.35, 0.65), ((-0.6, -0.3), 0.7, 0.98)))
    layer, head, i, j = rng.choice(_cells(text, n, low, high))
    weights = _weights(run, layer, head)[:n, :n]
    right = float(weights[i, j])
    wrong = [
        (
            f"{right + step:.2f}",
            f"That is {abs(step):.1f} too {'high' if step > 0 else 'low'}. Compare the cell with the colour scale: "
            "light is near 0, dark is near 1 (in dark mode, bright is near 1).",
        )
        for step in steps
    ]
    tokens = tuple(tokenizer().labels(run.tokens[:n].tolist()))
    return Question(
        f"A map of a trained head: rows are queries, columns are keys, both from 0. Approximately what weight does "
        f"query {i} put on key {j}?",
        Options(f"{right:.2f}", wrong).shuffled(rng),
        f"Row {i}, column {j}: {right:.2f}. The row's {i + 1} weights sum to 1.",
        link=_head(text, layer, head),
        maps=(Drawn(causal_rows(weights), "", tokens, show_values=False),),
    )


@kind("masks", 2, "one-head")
def missing_weight(rng: random.Random) -> Question:
    run = _trace(rng.choice(TEXTS))
    for _ in tries():  # until the rounded weights sum to 1 and the missing one is at least 0.05
        layer, head = rng.randrange(len(run.layers)), rng.randrange(run.config.n_heads)
        i = rng.randrange(3, 6)
        row = [round(float(w), 2) for w in _weights(run, layer, head)[i, : i + 1]]
        j = rng.randrange(i + 1)
        others = [w for k, w in enumerate(row) if k != j]
        weight = round(1 - sum(others), 2)
        if weight == row[j] >= 0.05:
            break
    listed = ", ".join("?" if k == j else f"{w:.2f}" for k, w in enumerate(row))
    values = [Value(w, f"w{k}", f"weight on key {k}", digits=2) for k, w in enumerate(row) if k != j]
    return Question(
        f"Row {i} (from 0) of a causal map, to two decimals: {listed}. What is the missing weight?",
        NumberAnswer(
            weight,
            wrong=known(
                (round(sum(others), 2), "That is the sum of the other weights; all together sum to 1."),
                (1 / (i + 1), "The weights are not equal."),
            ),
            digits=2,
        ),
        "The weights of a query sum to 1.",
        (Equation(1 - total(values), digits=2),),
        link=HEADS,
    )


@kind("masks", 2)
def row_of_a_mask(rng: random.Random) -> Question:
    n, mask_type = rng.choice((7, 8, 9)), rng.choice(("causal", "window", "sinks", "cache"))
    window, i = rng.choice(((3, 5), (3, 6), (4, 6)))  # at least one key between the sink and a wider window is masked
    options: dict[str, dict] = {
        "causal": {"text": "A causal mask", "args": {}},
        "window": {"text": f"A causal sliding window of {window} tokens (including the query)", "args": {"w": window}},
        "sinks": {
            "text": f"A causal sliding window of {window} tokens (including the query) and 1 attention-sink token",
            "args": {"w": window, "s": 1},
        },
        "cache": {
            "text": "3 tokens are cached, and the next ones are processed at once with a causal mask",
            "args": {"p": 3},
        },
    }

    def row(w: int | None = None, s: int = 0, p: int = 0, plus: int = 0) -> str:
        mask = attention_mask(n - p, n, causal=True, window=w, n_sinks=s, offset=p)
        assert mask is not None
        return " ".join(str(int(x)) for x in mask[i - p + plus])

    args = options[mask_type]["args"]
    right = row(**args)
    others = {
        "causal": (row(), "That is the causal mask without a window."),
        "window": (row(w=window), f"That is a sliding window of {window} tokens without sink tokens."),
        "sinks": (row(w=window, s=1), f"That is a sliding window of {window} tokens with a sink token."),
    }
    if mask_type == "cache":
        others["causal"] = (row(plus=-3), "That leaves out the 3 cached tokens: the mask needs an offset.")
    wrong = [other for name, other in others.items() if name != mask_type]
    if "w" in args:
        wider = args | {"w": window + 1}
        wrong.append(
            (row(**wider), f"That is a window of {window + 1} tokens: the query itself is part of the window.")
        )
    wrong.append((row(**args, plus=-1), "A query may also attend to itself."))
    asked = f"new token {i - 3} (from 0)" if mask_type == "cache" else f"query {i} (from 0)"
    return Question(
        f"{options[mask_type]['text']}; {n} keys; 1 means “may attend”. What is the mask row of {asked}?",
        Options(right, wrong, code=True).shuffled(rng),
        f"{asked.capitalize()} {f'is at position {i} and ' * (mask_type == 'cache')}may attend to keys up to {i}"
        + {"window": f", the last {window} of them.", "sinks": f", the last {window} of them, and to key 0."}.get(
            mask_type, "."
        ),
        link=OFFSET if mask_type == "cache" else window_page(window),
    )
