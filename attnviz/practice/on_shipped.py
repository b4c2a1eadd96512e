"""Run a user's file on the shipped weights in another process (attnviz/ui/run_user_file.py); read its results."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load

import attnviz
from attnviz.modules import Transformer
from attnviz.practice.judge import MEMORY, Ended, Tick, bounded, error_in, run_limited
from attnviz.practice.live import Live
from attnviz.practice.task import SECONDS, Names

LARGEST = 2**25  # bytes of one result file
RUNNER = "attnviz.ui.run_user_file"


@dataclass(frozen=True, eq=False)
class OnShipped:
    """The attention weights (n, T, T) of the file and the right ones, and the packed walk through its lines.

    maps_problem, walk_problem: a sentence if the maps or the walk are missing.
    """

    yours: np.ndarray | None
    right: np.ndarray | None
    maps_problem: str
    walk: bytes
    places: list
    walk_problem: str


def run_on_shipped(
    file: Path, ask: dict[str, Any], model: Transformer, right: Names, tick: Tick | None = None
) -> OnShipped:
    """Run the file on the request `ask`. The right maps are computed here, before any line of the file runs."""
    with torch.inference_mode(False):
        ours = Live(model, list(ask["ids"]), ask["layer"], ask["head"]).maps(ask["task"], right)
    with tempfile.TemporaryDirectory(prefix="practice-", ignore_cleanup_errors=True) as name:
        folder, ended = Path(name), ""
        (folder / "ask.json").write_text(json.dumps(ask), encoding="utf-8")
        command = [sys.executable, "-X", "utf8", "-m", RUNNER, name, str(file.resolve())]
        try:
            code = run_limited(
                command, folder, SECONDS, MEMORY, lambda so_far: tick and tick(so_far, "attention maps and lines"),
                path=str(Path(attnviz.__file__).parents[1]),
            )  # fmt: skip
            ended = f"The process ended with exit code {code}." if code else ""
        except Ended as error:
            ended = f"The process was {error}."
        maps, walk, places = (
            bounded(folder / each, LARGEST) for each in ("maps.safetensors", "walk.bin", "places.json")
        )
        problems = [error_in(folder / f"{part}.json") or ended for part in ("maps", "walk")]
    return OnShipped(
        None if ours is None else _array(maps, tuple(ours.shape)), None if ours is None else ours.numpy(), problems[0],
        walk if places else b"", json.loads(places or b"[]"), problems[1],
    )  # fmt: skip


def _array(raw: bytes, shape: tuple[int, ...]) -> np.ndarray | None:
    """Parse the returned maps; None if they are missing or do not have this shape."""
    try:
        found = load(raw)["maps"].float().numpy()
    except Exception:  # noqa: BLE001, the process may have written anything
        return None
    return found if found.shape == shape else None
