"""python -m attnviz.ui.run_user_file FOLDER FILE: run a user's file on the shipped weights, in a separate process."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

if __name__ == "__main__":
    gc.disable()  # importing torch creates a hundred thousand objects that stay: walking them takes a quarter of it

from attnviz.practice.child_on_shipped import run
from attnviz.steps import Walk
from attnviz.ui.components.source_walk import pack, places_in


def packed(walk: Walk, labels: list[str], n_kv_heads: int, at: int) -> tuple[bytes, list]:
    """Return the walk packed for the browser, and the places that can be selected in it."""
    return pack(walk, labels, n_kv_heads, at), places_in(walk)


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    run(Path(sys.argv[1]), Path(sys.argv[2]), packed)
