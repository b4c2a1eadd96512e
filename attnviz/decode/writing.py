"""A text that a model writes, with what each step drew from, cached and attended to.

T tokens of the text, S tokens cached, H query heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from attnviz.decode.generate import read
from attnviz.decode.sampling import Sampling, Stage, draw, stages, uniform
from attnviz.modules import Transformer

CANDIDATES = 8
ROWS_BEFORE = 24  # rows of the maps that come before the first token written


class WrittenStep(NamedTuple):
    """One token written, and what it was drawn from."""

    id: int
    probability: float  # that the model gave it, before the filters
    candidates: tuple[int, ...]  # the most probable tokens, and the one written
    stages: tuple[tuple[str, tuple[float, ...]], ...]  # (filter, the candidates' probabilities after it)
    layer_bytes: tuple[int, ...]  # of each layer's cached tensors, counted
    rows: Tensor  # (H, S) weights of the last token read, in the layer that is looked at


@dataclass(frozen=True, eq=False)
class Written:
    """The text's own rows of the maps, and the steps after it."""

    rows: Tensor  # (H, up to ROWS_BEFORE, T): of the text's last tokens but one
    steps: tuple[WrittenStep, ...]

    @property
    def nbytes(self) -> int:
        """Count about what it takes, for a cache of results."""
        return self.rows.nbytes + sum(step.rows.nbytes + 2000 for step in self.steps)


class _Rows:
    """Keeps one layer's weights of each pass: layers run in their order."""

    def __init__(self, layer: int, n_layers: int) -> None:
        self.layer, self.n_layers, self.n_calls = layer, n_layers, 0
        self.weights: list[Tensor] = []  # (H, T, S) for each pass

    def __call__(self, **computed: Any) -> None:
        if self.n_calls % self.n_layers == self.layer:
            self.weights.append(computed["weights"][0].clone())
        self.n_calls += 1


def write(
    model: Transformer, prompt: Sequence[int], fixed: Sequence[int], n: int, sampling: Sampling, layer: int
) -> Written:
    """Continue the prompt by n tokens: the fixed ones first, then tokens drawn. layer: whose weights are kept.

    The prompt and the fixed tokens are read in one pass, each drawn token in one of its own.
    """
    ids, cache, rows = [*prompt, *fixed[:n]], model.new_cache(), _Rows(layer, len(model.blocks))
    known, steps = len(ids), list[WrittenStep]()
    logits = read(model, ids, cache, rows)
    for end in range(len(prompt), len(prompt) + n):  # tokens before the one that is written
        if end > known:
            logits = read(model, ids[-1:], cache, rows)
        last = end - 1 if end <= known else 0  # where the last of them stands in its pass
        found = stages(logits[last], ids[:end], sampling)
        if end >= known:
            ids.append(draw(found[-1].probabilities, uniform(sampling.seed, end)))
        row = rows.weights[-1][:, last, :end].clone()  # a copy: a view would keep all rows of the pass
        steps.append(_step(ids[end], found, _bytes(cache, end), row))
    last = len(prompt) - 1
    return Written(rows.weights[0][:, max(0, last - ROWS_BEFORE) : last, : last + 1].clone(), tuple(steps))


def _bytes(cache: list, n_tokens: int) -> tuple[int, ...]:
    """Count the bytes of the first n_tokens in each layer's cached tensors."""
    return tuple(sum(t.narrow(-2, 0, n_tokens).nbytes for t in layer.tensors) for layer in cache)


def _step(chosen: int, found: Sequence[Stage], layer_bytes: tuple[int, ...], row: Tensor) -> WrittenStep:
    before = found[0].probabilities
    best = before.topk(min(CANDIDATES, len(before))).indices.tolist()
    shown = best if chosen in best else [*best[:-1], chosen]
    drawn = tuple((stage.name, tuple(stage.probabilities[shown].tolist())) for stage in found)
    return WrittenStep(chosen, float(before[chosen]), tuple(shown), drawn, layer_bytes, row)
