"""What the Step by step page computes: a recorded run, once for all who look at the same model, text and layer."""

from __future__ import annotations

from dataclasses import dataclass

from attnviz.compute import models
from attnviz.compute.byte_cache import ByteCache
from attnviz.compute.view import View
from attnviz.steps import Run, Selection, Walk, record

MAX_RECORDED = 128  # tokens: a layer's scores grow with their square
MAX_RUN_BYTES = 24_000_000  # of all recorded runs, if it is more than one

_runs = ByteCache(MAX_RUN_BYTES)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A run, with its size for the cache."""

    run: Run

    @property
    def nbytes(self) -> int:
        return self.run.nbytes


def run_of(view: View) -> Run:
    """Record the model on the first MAX_RECORDED tokens, in the selected layer."""
    s, ids, layer = view.settings, view.ids[:MAX_RECORDED], view.layer_and_head[0]
    key = "steps", models.weights_key(s), models.config_of(s), ids, layer
    return models.computed_once(key, lambda: Recorded(record(models.model_of(s), ids, layer)), _runs).run


def walk_of(view: View) -> Walk:
    """Return the walk for the selected head, tokens and column."""
    layer, head = view.layer_and_head
    last = min(len(view.ids), MAX_RECORDED) - 1
    kv_head = view.config.layer.kv_head_of[head]
    return Walk(
        run_of(view), Selection(head, kv_head, min(view.query, last), min(view.key, last), view.settings.column)
    )


def stop_of(walk: Walk, step: int) -> int:
    """Return the stop of the link; by default the first line of the outermost call that made a tensor."""
    if step >= 0:
        return min(step, len(walk.stops) - 1)
    return next(i for i, stop in enumerate(walk.stops) if stop.line.call == 0 and stop.operations)
