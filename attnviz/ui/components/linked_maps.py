"""Maps of one text side by side, each with its own colour scale; pointing at a cell marks it in all of them.

Two bytes per cell, sent once; the pointer is followed in the browser. T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnviz.figures import theme
from attnviz.ui.components.declared import declared
from attnviz.ui.components.packed_weights import STEPS, cells_of, message

HTML = """
<div class="lm">
  <p class="read" aria-live="polite"></p>
  <div class="maps"></div>
  <p class="hint"></p>
</div>
"""

_mount = declared("linked_maps", HTML)


@dataclass(frozen=True, eq=False)
class LinkedMap:
    """One of the maps: numbers (T, T), where they are masked, and its texts.

    number: what a cell is called, "weight". hue: its KV head, with their number; None: of no KV head. read: the KV
    head's name in a saved picture's legend. Maps with negative numbers, and those of no KV head, have a diverging
    scale. kept: bool (T, T), cells that get a dot.
    """

    values: np.ndarray
    allowed: np.ndarray
    title: str
    note: str
    alt: str
    number: str
    hue: tuple[int, int] | None = None
    read: str = ""
    kept: np.ndarray | None = None
    top: float | None = None  # where the colours end; None: at the largest size


def linked_maps(maps: Sequence[LinkedMap], labels: Sequence[str], key: str, cell: tuple[int, int]) -> None:
    """Draw the maps. cell: the query and key that are marked at first."""
    _mount(key=key, data=pack(maps, labels, cell), width="stretch", height="content")


def pack(maps: Sequence[LinkedMap], labels: Sequence[str], cell: tuple[int, int]) -> bytes:
    """Return the payload for the browser."""
    sizes = [max(float(np.abs(np.where(m.allowed, m.values, 0)).max()), 1 / STEPS) for m in maps]
    factors = [max(size, m.top or 0.0) for m, size in zip(maps, sizes, strict=True)]  # a cell holds −1 to 1
    cells = np.stack(
        [
            cells_of((m.values / factor)[None, None], m.allowed[None], len(labels))[0, 0]
            for m, factor in zip(maps, factors, strict=True)
        ]
    )[None]  # (1, N, T, T)
    header = {
        "labels": list(labels),
        "maps": [_header(*each) for each in zip(maps, sizes, factors, strict=True)],
        "masked": list(theme.MASKED_RGBA),
        "query": cell[0], "key": cell[1],
        "legend": [list(each) for each in dict.fromkeys((theme.kv_colour(*m.hue), m.read) for m in maps if m.hue)],
    }  # fmt: skip
    return message(header, cells)


def _header(m: LinkedMap, size: float, factor: float) -> dict:
    signed = m.hue is None or bool((m.values < 0).any())
    kv_head, n_kv_heads = m.hue or (None, 0)
    picked = np.linspace(0, 255, theme.CANVAS_STOPS).round().astype(int)
    ramps = {scheme: theme.diverging_ramps(kv_head, n_kv_heads, scheme) for scheme in theme.RAMP_ENDS}
    return {
        "title": m.title, "note": m.note, "alt": m.alt, "name": m.number,
        "top": (m.top or size) / factor, "factor": factor,
        "ramps": {scheme: above[picked].tolist() for scheme, (_, above) in ramps.items()},
        "below": {scheme: below[picked].tolist() for scheme, (below, _) in ramps.items()} if signed else None,
        "dots": None if m.kept is None else [np.flatnonzero(row).tolist() for row in m.kept],
    }  # fmt: skip
