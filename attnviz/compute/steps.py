"""Computations of the Step by step page: recorded runs, cached and shared between sessions."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from attnviz import decode
from attnviz.analysis import values
from attnviz.compute import decode as decoding
from attnviz.compute import mistakes, models
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.heads import readout
from attnviz.compute.view import View
from attnviz.decode.comparisons import Spread
from attnviz.experiments import residual as experiments
from attnviz.experiments import tiles
from attnviz.experiments.residual import Lens, Residual
from attnviz.experiments.tiles import tiled_row
from attnviz.mistakes import Mistake
from attnviz.steps import Run, Selection, Walk, record, record_decode, with_absorbed, with_recurrent

MAX_RECORDED = 128  # tokens: a layer's scores grow with their square
MAX_RUN_BYTES = 24_000_000  # of all recorded runs, if more than one
TIMED, RUNS = (128, 256, 512, 1024, 2048), 5  # tokens at which the tiled kernel is timed, and how often

DECODE_FILES = inspect.getfile(decode.generate), inspect.getfile(decode.stages)  # also recorded in a decode step

_runs = ByteCache(MAX_RUN_BYTES)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recorded run with the `nbytes` that a ByteCache needs."""

    run: Run
    chosen: int = -1  # the token that a decode step chose

    @property
    def nbytes(self) -> int:
        return self.run.nbytes


def run_of(view: View) -> Run:
    """Record a run of the model on the first MAX_RECORDED tokens, in the selected layer."""
    s, ids, layer = view.settings, view.ids[:MAX_RECORDED], view.layer_and_head[0]
    mistake = mistake_of(view)
    absorbed = s.absorbed and view.mixer.absorbed and not mistake
    key = "steps", models.run_of(s), ids, layer, absorbed, mistake and mistake.id

    def run() -> Recorded:
        model = mistake.model(models.model_of(s)) if mistake else models.model_of(s)
        if view.mixer.state():
            return Recorded(record(with_recurrent(model, layer), ids, layer))
        return Recorded(record(with_absorbed(model, layer) if absorbed else model, ids, layer))

    return models.computed_once(key, run, _runs).run


@dataclass(frozen=True, eq=False)
class DecodeStep:
    """A decode step: its walk, the text whose last token it reads, and the token it chose."""

    walk: Walk
    ids: tuple[int, ...]
    chosen: int


def decode_step_of(view: View) -> DecodeStep:
    """Return the walk through one decode step after the generated text: a cached forward pass, then sampling.

    The default column is that of the chosen token.
    """
    view = decoding.causal(view)
    s, ids, sampling = view.settings, decoding.text_so_far(view), decoding.sampling_of(view.settings)
    (layer, head), model = view.layer_and_head, view.model
    key = "decode step", view.run, ids, layer, sampling

    def run() -> Recorded:
        cache = model.new_cache()
        if len(ids) > 1:
            decode.read(model, ids[:-1], cache)
        steps, taken = decode.generate(model, ids, 1, sampling, cache), list[decode.Step]()

        def step() -> Any:
            taken.append(next(steps))
            return taken[0].logits

        recorded = record_decode(step, DECODE_FILES, model, ids, layer)
        return Recorded(recorded, taken[0].id)

    found = models.computed_once(key, run, _runs)
    kv_head, column = view.mixer.kv_head_of[head], s.column if s.column >= 0 else found.chosen
    selection = Selection(head, kv_head, 0, min(view.key, len(ids) - 1), column)
    return DecodeStep(Walk(found.run, selection), ids, found.chosen)


def offered_mistake(view: View) -> Mistake | None:
    """Return the mistake of the link if its version can be walked beside the correct one, or None."""
    if not view.settings.version:
        return None
    mistake = mistakes.mistake_of(view.settings)
    return mistake if mistakes.can_be_walked(mistake) and not mistakes.reason(view) else None


def mistake_of(view: View) -> Mistake | None:
    """Return the mistake whose version is walked, or None."""
    return offered_mistake(view) if view.settings.version == "mistaken" else None


def walk_of(view: View) -> Walk:
    """Return the walk for the selected head, tokens and column."""
    layer, head = view.layer_and_head
    last = min(len(view.ids), MAX_RECORDED) - 1
    kv_head = view.mixer.kv_head_of[head]
    return Walk(
        run_of(view), Selection(head, kv_head, min(view.query, last), min(view.key, last), view.settings.column)
    )


def stop_of(view: View, walk: Walk) -> int:
    """Return the index of the selected stop; by default the first that a mistake changes, or that makes something."""
    if view.settings.step >= 0:
        return min(view.settings.step, len(walk.stops) - 1)
    return next(iter(_changed_stops(view, walk)), _first_made(walk))


def decode_stop_of(view: View, walk: Walk) -> int:
    """Return the index of the selected stop of a decode step; by default the first that makes something."""
    return min(view.settings.decode_step, len(walk.stops) - 1) if view.settings.decode_step >= 0 else _first_made(walk)


def _first_made(walk: Walk) -> int:
    """Return the index of the first stop in the model's own function that makes something: past the signatures."""
    decoding, calls = {Path(file).name for file in DECODE_FILES}, walk.run.calls
    first = next((stop.line.call for stop in walk.stops if calls[stop.line.call].file not in decoding), 0)
    return next((i for i, stop in enumerate(walk.stops) if stop.line.call == first and stop.operations), 0)


def _changed_stops(view: View, walk: Walk) -> list[int]:
    """Return the stops on lines that differ between the two versions."""
    if (mistake := offered_mistake(view)) is None:
        return []
    version, mistaken, changed = mistake.version(view.config), mistake_of(view) is not None, set()
    for file in version.files:
        stem = Path(file).stem
        name = f"{stem} ({version.name}).py" if mistaken else f"{stem}.py"
        changed |= {(name, number) for number in version.changed_lines(file)[mistaken]}
    calls = walk.run.calls
    return [i for i, stop in enumerate(walk.stops) if (calls[stop.line.call].file, stop.line.number) in changed]


def residual_of(view: View) -> Residual:
    """Return what each part writes to the residual stream, on the first MAX_RECORDED tokens."""
    s, ids = view.settings, view.ids[:MAX_RECORDED]
    key = "residual", models.run_of(s), ids
    return models.computed_once(key, lambda: experiments.residual(models.model_of(s), ids))


def lens_of(view: View) -> Lens:
    """Return the most probable next token after the embedding and after each layer (logit lens)."""
    s, ids = view.settings, view.ids[:MAX_RECORDED]
    key, written = ("lens", models.run_of(s), ids), residual_of(view)
    return models.computed_once(key, lambda: experiments.lens(models.model_of(s), written))


def odds_of(view: View, row: int, position: int) -> np.ndarray:
    """Return next-token probabilities (V,) at a position, read after the embedding (row 0) or layer row - 1."""
    return experiments.lens_odds(view.model, residual_of(view), row, position)


def logit_of(view: View, position: int, token: int) -> float:
    """Return the model's own logit before a soft cap, minus the mean over the vocabulary, on MAX_RECORDED tokens."""
    model, written = view.model, residual_of(view)
    x = model.norm(written.after[-1, position]).detach().numpy()  # (C,)
    _, _, unembedding, _ = readout(model)
    mean = float(unembedding.mean(0, dtype=np.float64) @ x)
    return experiments.logit_before_cap(model, written, position, token) - mean


def attribution_of(view: View, position: int, token: int) -> np.ndarray:
    """Return what each part adds to the token's logit minus the mean over the vocabulary: (1 + 2 L,), or with a bias
    of the last norm (2 + 2 L,). Softmax ignores the mean, and the Heads page subtracts it too."""
    model, written = view.model, residual_of(view)
    parts = written.parts[:, position].numpy()  # (1 + 2 L, C)
    gain, eps, unembedding, centred = readout(model)
    means = values.mean_logit_effects(parts, parts.sum(0), gain, eps, unembedding, centred)
    bias = getattr(model.norm, "bias", None)
    if bias is not None:
        means = np.append(means, unembedding.mean(0, dtype=np.float64) @ bias.detach().numpy())
    return experiments.attribution(model, written, position, token) - means


@dataclass(frozen=True, eq=False)
class Tiled:
    """One head computed in tiles: a row of scores, the running values, and the error against PyTorch's kernel."""

    scores: np.ndarray  # (S,)
    allowed: np.ndarray  # (S,) bool
    table: dict[str, list]
    largest_difference: float  # between the outputs of all queries and PyTorch's kernel


def tiled_of(view: View) -> Tiled:
    """Compute the selected head in tiles of `block` keys."""
    one, head, query = view.traced, view.layer_and_head[1], view.query
    q, k, v = one.q[head], one.keys_of(head), one.values_of(head)
    table, difference = tiled_row(q, k, v, one.allowed, view.settings.block, one.scale, query)
    return Tiled(one.scores_of(head)[query], one.allowed[query], table, difference)


@decoding.measured
def kernel_seconds(head_dim: int) -> tuple[Spread, ...]:
    """Time one head at each of TIMED lengths: all with the full score matrix, then all by PyTorch's tiled kernel."""
    runs = [tiles.kernel_seconds(T, head_dim, RUNS) for T in TIMED]
    return tuple(Spread.of(seconds) for way in zip(*runs, strict=True) for seconds in way)


def part_names(view: View) -> list[str]:
    """Return the names of the parts that write to the residual stream, in order."""
    return experiments.part_names(view.config.n_layers)


def logit_part_names(view: View) -> list[str]:
    """Return the names of the terms of a logit: those parts, and the last norm's bias if it has one."""
    return [*part_names(view), *(["last norm's bias"] * view.config.norm_bias)]


def norms(written: Residual) -> tuple[np.ndarray, np.ndarray]:
    """Return the norms (1 + 2 L, T) of the stream after each part, and of what each part wrote."""
    return written.after.norm(dim=-1).numpy(), written.parts.norm(dim=-1).numpy()


@lru_cache(maxsize=1)
def tiles_source() -> str:
    """Return the source code of the softmax in tiles."""
    return inspect.getsource(tiles)
