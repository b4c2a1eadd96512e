"""The user's own code: permission to run it, its verdict, and its results on the shipped weights.

It runs only on the user's own machine: the server is bound to loopback, and the request comes from this machine and not
through a proxy. A file is named in the environment (make run CODE=practice/gqa.py); neither a link nor a page can
choose it, and no link can contain code.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from cachetools import LRUCache, cached, keys

from attnviz.analysis.sparse import usual_k
from attnviz.compute import models
from attnviz.compute.view import View
from attnviz.mechanisms import Mixer
from attnviz.mistakes import load_mistake
from attnviz.practice.judge import Tick, Verdict, judge, task_named_in
from attnviz.practice.live import MAX_TOKENS, OF_ONE_HEAD, WITH_A_STATE, WITHOUT_ROPE, checkpoint_for, layer_for
from attnviz.practice.on_shipped import OnShipped, run_on_shipped
from attnviz.practice.task import LIMITS, SECONDS
from attnviz.practice.tasks import TASKS
from attnviz.session.openable import CODE
from attnviz.session.settings import Settings

__all__ = [
    "LIMITS",
    "MAX_PASTED",
    "MAX_TOKENS",
    "OF_ONE_HEAD",
    "SECONDS",
    "WITHOUT_ROPE",
    "WITH_A_STATE",
    "Pasted",
    "ShippedRun",
    "Verdict",
    "run_on_weights",
    "task_of",
    "title_of",
    "verdict_of",
]

MAX_PASTED = 100_000  # characters
LEAST_SHOWN = 5e-4  # as a share of the largest weight: the least difference, and weight above the diagonal, that shows


def own_file() -> Path | None:
    """Return the file named in the environment, or None."""
    name = os.environ.get(CODE, "")
    return Path(name) if name else None


@dataclass(frozen=True)
class Pasted:
    """Pasted code for a task, in a file that exists as long as this object."""

    task: str
    folder: tempfile.TemporaryDirectory

    @classmethod
    def of(cls, task: str, source: str) -> Pasted:
        """Write the source to a new file."""
        pasted = cls(task, tempfile.TemporaryDirectory(prefix="attnviz-"))
        pasted.file.write_text(source[:MAX_PASTED], encoding="utf-8")
        return pasted

    @property
    def file(self) -> Path:
        return Path(self.folder.name) / TASKS[self.task].file


Stamp = tuple[int, int]  # a file's modification time in nanoseconds and its size; (0, 0) if there is no file


def stamp_of(file: Path) -> Stamp:
    """Return the file's modification time and size, a cache key that changes when it is saved."""
    try:
        stats = file.stat()
    except OSError:
        return 0, 0
    return stats.st_mtime_ns, stats.st_size


def task_of(file: Path, otherwise: str) -> str:
    """Return the task that the file names, or the fallback `otherwise`."""
    named = task_named_in(file)
    return named if named in TASKS else otherwise


def verdict_of(file: Path, task: str, tick: Tick | None = None) -> Verdict:
    """Judge the file; cached until it is saved again. tick: called while it runs."""
    return _verdict(file, task, stamp_of(file), tick)


def title_of(mistake: str) -> str:
    """Return the title of a mistake of the Mistakes page."""
    return load_mistake(mistake).title


def _without_tick(*asked: Hashable) -> tuple:
    return keys.hashkey(*asked[:-1])


@cached(LRUCache(4), _without_tick, Lock())
def _verdict(file: Path, task: str, stamp: Stamp, tick: Tick | None) -> Verdict:
    return judge(file, TASKS[task], tick=tick)


@dataclass(frozen=True, eq=False)
class ShippedRun:
    """Results of the file on the shipped weights of one layer. maps (n, T, T); problems are sentences."""

    checkpoint: str
    asked: int  # the chosen layer
    layer: int  # the chosen one, or the nearest that the task can be shown in
    head: int
    labels: tuple[str, ...]
    found: OnShipped
    mixer: Mixer  # of the layer
    kv_heads: tuple[int, ...]  # read by each map's head

    @property
    def top_k(self) -> int | None:
        """The keys that each query keeps, fewer than the layer's own where these are all; None without an indexer."""
        return None if self.mixer.top_k is None else usual_k(self.mixer.top_k, len(self.labels))

    @property
    def max_difference(self) -> list[float]:
        """The largest difference between the user's weights and the correct ones, per map."""
        assert self.found.yours is not None and self.found.right is not None
        return np.nan_to_num(np.abs(self.found.yours - self.found.right), nan=1.0).max((1, 2)).tolist()

    @property
    def least_shown(self) -> float:
        assert self.found.right is not None
        return LEAST_SHOWN * float(np.abs(self.found.right).max())

    @property
    def maps(self) -> list[tuple[list[list[float | None]], list[list[float | None]]]]:
        """The user's and the correct map of each head, for drawing: None where both are masked."""
        assert self.found.yours is not None and self.found.right is not None
        masked = ~np.tri(self.found.right.shape[-1], dtype=bool)
        least, both = self.least_shown, zip(self.found.yours, self.found.right, strict=True)
        return [(_drawn(a, masked, least), _drawn(b, masked, least)) for a, b in both]


def _drawn(weights: np.ndarray, masked: np.ndarray, least: float) -> list[list[float | None]]:
    hidden = masked & (np.abs(weights) < least)
    clean = np.nan_to_num(weights)
    return [
        [None if gone else w for w, gone in zip(row, off, strict=True)]
        for row, off in zip(clean.tolist(), hidden.tolist(), strict=True)
    ]


def run_on_weights(view: View, file: Path, task: str, tick: Tick | None = None) -> ShippedRun:
    """Run the file on the shipped weights for the text; cached per saved version and selection. tick: as above."""
    s = view.settings
    checkpoint = checkpoint_for(task, s.model)
    config = models.config_of(Settings(model=checkpoint))
    n = min(len(view.ids), MAX_TOKENS)
    query, key = (place if 0 <= place < n else n - 1 for place in (s.query, s.key))
    asked, head = min(s.chosen_head[0], config.n_layers - 1), min(s.chosen_head[1], config.n_heads - 1)
    selected = asked, head, query, key, s.column, s.own_step
    return _look(file, task, stamp_of(file), checkpoint, view.ids[:n], tuple(view.labels[:n]), selected, tick)


@cached(LRUCache(4), _without_tick, Lock())
def _look(
    file: Path, task: str, stamp: Stamp, checkpoint: str, ids: tuple[int, ...], labels: tuple[str, ...],
    selected: tuple[int, int, int, int, int, int], tick: Tick | None,
) -> ShippedRun:  # fmt: skip
    asked, head, query, key, column, at = selected
    model = models.model_of(Settings(model=checkpoint))
    layer = layer_for(task, model.config, asked)
    ask = {
        "task": task, "checkpoint": checkpoint, "ids": ids, "labels": labels, "layer": layer, "head": head,
        "query": query, "key": key, "column": column, "at": at,
    }  # fmt: skip
    found, mixer = run_on_shipped(file, ask, model, TASKS[task].right, tick), model.config.layers[layer].mixer
    reads = mixer.kv_head_of
    return ShippedRun(
        checkpoint, asked, layer, head, labels, found, mixer, (reads[head],) if task in OF_ONE_HEAD else tuple(reads)
    )
