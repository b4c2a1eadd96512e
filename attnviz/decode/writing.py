"""Generate a text and record each step's distribution, cache size and attention weights.

T tokens of the text, S tokens cached, H query heads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnviz.decode.generate import read
from attnviz.decode.sampling import Sampling, Stage, draw, stages, uniform
from attnviz.modules import Transformer
from attnviz.modules.recording import shares_of

CANDIDATES = 8
ROWS_BEFORE = 24  # rows of the maps before the first generated token


class WrittenStep(NamedTuple):
    """One generated token and its distribution."""

    id: int
    drawn: int  # the token that sampling draws here; differs from id if the user chose another one
    probability: float  # the model's, before the filters
    candidates: tuple[int, ...]  # the most probable tokens, and the generated one
    stages: tuple[tuple[str, tuple[float, ...]], ...]  # (filter, the candidates' probabilities after it)
    left: tuple[int, ...]  # number of tokens with a probability above 0 after each filter
    layer_bytes: tuple[int, ...]  # of each layer's cached tensors, counted
    rows: Tensor  # (H, S) weights of the last input token, in the selected layer


@dataclass(frozen=True, eq=False)
class Written:
    """The prompt's rows of the maps, and the steps after it."""

    rows: Tensor  # (H, up to ROWS_BEFORE, T): of the prompt's last tokens, except the very last
    steps: tuple[WrittenStep, ...]
    cache: tuple[Any, ...]  # one per layer, of all tokens but the last; copied before the text is continued
    ended: bool = False  # whether the last token ends the text, so that no more are sampled

    @property
    def nbytes(self) -> int:
        """The approximate size in bytes, for a cache of results."""
        return (
            self.rows.nbytes + sum(step.rows.nbytes + 2000 for step in self.steps) + sum(c.nbytes for c in self.cache)
        )


class _Rows:
    """A recorder that stores one layer's weights of each pass. Counts calls, because layers run in order."""

    def __init__(self, layer: int, n_layers: int) -> None:
        self.layer, self.n_layers, self.n_calls = layer, n_layers, 0
        self.weights: list[Tensor] = []  # (H, T, S) for each pass

    def __call__(self, **computed: Any) -> None:
        if self.n_calls % self.n_layers == self.layer:
            self.weights.append(computed["weights"][0].clone())
        self.n_calls += 1


def write(
    model: Transformer,
    prompt: Sequence[int],
    fixed: Sequence[int],
    n: int,
    sampling: Sampling,
    layer: int,
    before: Written | None = None,
    ends: Collection[int] = (),
) -> Written:
    """Continue the prompt by n tokens: the fixed ones first, then sampled ones. layer: whose weights are recorded.

    Fixed tokens run in one pass with the prompt, each sampled token in its own. before: an earlier result of the same
    model, prompt and sampling; the steps, keys and values of a common prefix are reused. ends: tokens after which none
    is sampled; fixed ones may follow.
    """
    reused = _until_end(_reusable(before, fixed, n), len(fixed), ends) if before else ()
    if before and (len(reused) == n or _ended(reused, len(fixed), ends)):
        return Written(before.rows, reused, before.cache, _ended(reused, len(fixed), ends))
    first = len(prompt) + len(reused)  # number of tokens before the first new one
    cache = (before and _copied(before.cache, first - 1)) or tuple(model.new_cache())
    ids, rows = [*prompt, *(s.id for s in reused), *fixed[len(reused) : n]], _Rows(layer, len(model.blocks))
    steps, read_before, known = [*reused], len(cache[0]), len(ids)
    attends, no_row = model.config.layers[layer].mixer.attends, torch.empty(0)
    logits = read(model, ids[read_before:], list(cache), rows)
    for end in range(first, len(prompt) + n):  # number of tokens before the new one
        if end > known:
            logits = read(model, ids[-1:], list(cache), rows)
        last = end - 1 - read_before if end <= known else 0  # index of the last of them in its pass
        passed = stages(logits[last], ids[:end], sampling)
        drawn = draw(passed[-1].probabilities, uniform(sampling.seed, end))
        if end >= known:
            ids.append(drawn)
        row = rows.weights[-1][:, last, :end].clone() if attends else no_row  # a view would keep all rows of the pass
        steps.append(_step(ids[end], drawn, passed, _bytes(cache, end), row))
        if _ended(steps, len(fixed), ends):
            break
    ended = _ended(steps, len(fixed), ends)
    if not attends:
        rows.weights = [_shares(model, [*prompt, *(s.id for s in steps[:-1])], layer)]
        at = enumerate(steps, len(prompt))
        steps = [step._replace(rows=rows.weights[0][:, end - 1, :end].clone()) for end, step in at]
    if before:
        return Written(before.rows, tuple(steps), cache, ended)
    last = len(prompt) - 1
    of_prompt = rows.weights[0][:, max(0, last - ROWS_BEFORE) : last, : last + 1].clone()
    return Written(of_prompt, tuple(steps), cache, ended)


def _ended(steps: Sequence[WrittenStep], n_fixed: int, ends: Collection[int]) -> bool:
    """Check whether the last step ends the text: no fixed token follows it."""
    return len(steps) >= max(1, n_fixed) and steps[-1].id in ends


def _until_end(steps: tuple[WrittenStep, ...], n_fixed: int, ends: Collection[int]) -> tuple[WrittenStep, ...]:
    """Return the steps up to the first that ends the text."""
    stops = (i for i in range(1, len(steps)) if _ended(steps[:i], n_fixed, ends))
    return steps[: next(stops, len(steps))]


def _reusable(before: Written, fixed: Sequence[int], n: int) -> tuple[WrittenStep, ...]:
    """Return the first steps that would not change, at most n; in the last one the token may be replaced."""
    for i, step in enumerate(before.steps[:n]):
        wanted = fixed[i] if i < len(fixed) else step.drawn
        if step.id != wanted:
            best_are_shown = step.id != step.candidates[-1]  # False if the last of them was replaced by the chosen one
            if not best_are_shown or wanted not in step.candidates:
                return before.steps[:i]
            probability = step.stages[0][1][step.candidates.index(wanted)]
            return *before.steps[:i], step._replace(id=wanted, probability=probability)
    return before.steps[:n]


@torch.no_grad()
def _shares(model: Transformer, ids: Sequence[int], layer: int) -> Tensor:
    """Return the shares (H, T, T) of a layer with a state, which remembers no token to compute them from afterwards."""
    rows = _Rows(layer, len(model.blocks))
    model(torch.tensor([ids]), record=rows)
    return shares_of(rows.weights[0], model.config.layers[layer].mixer)


def _copied(cache: Sequence[Any], n_tokens: int) -> tuple[Any, ...] | None:
    """Copy the first n_tokens of each layer's cache; None if a layer has a state and more tokens are in it."""
    copies = tuple(layer.copied(n_tokens) for layer in cache)
    return None if any(copy is None for copy in copies) else copies


def _bytes(cache: Sequence[Any], n_tokens: int) -> tuple[int, ...]:
    """Count the bytes of the first n_tokens in each layer's cache, and of a state."""
    return tuple(layer.nbytes_of(n_tokens) for layer in cache)


def _step(chosen: int, drawn: int, passed: Sequence[Stage], layer_bytes: tuple[int, ...], row: Tensor) -> WrittenStep:
    before = passed[0].probabilities
    best = before.topk(min(CANDIDATES, len(before))).indices.tolist()
    shown = best if chosen in best else [*best[:-1], chosen]
    odds = tuple((stage.name, tuple(stage.probabilities[shown].tolist())) for stage in passed)
    left = tuple(int((stage.probabilities > 0).sum()) for stage in passed)
    return WrittenStep(chosen, drawn, float(before[chosen]), tuple(shown), odds, left, layer_bytes, row)
