"""Attention maps side by side; one map, or a cell of a map, can be chosen. Hover is handled in the browser.

A map is rows of weights, None where masked. With weights below 0, which are effective weights, colours end at the
largest size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnviz.figures import theme
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within
from attnviz.ui.components.packed_weights import below_zero, top_of

HTML = """
<div class="am">
  <div class="maps"></div>
  <p class="read" aria-live="polite"></p>
  <p class="scale" aria-hidden="true"><i>weight 0</i><canvas></canvas><i>1</i><span class="masked"></span><i>masked</i>
  </p>
</div>
"""

_mount = declared("answer_maps", HTML)

Rows = Sequence[Sequence[float | None]]
Place = tuple[int, int, int]  # map, row, column


def answer_maps(
    maps: Sequence[tuple[Rows, str]], *, key: str, labels: Sequence[str] = (), axes: tuple[str, str] = ("query", "key"),
    title: str = "", pick: str = "", show_weights: bool = True, chosen: Sequence[int] = (), right: Sequence[int] = (),
    hues: Sequence[int] = (), n_kv_heads: int = 1, width: int = 300, per_row: int = 0,
    on_pick: Callable[[Place], None] | None = None,
) -> None:  # fmt: skip
    """Show the maps with their titles. title: of the saved picture; without one there are no save buttons.

    pick: "map" or "cell", what can be chosen; on_pick(map, row, column) runs after a choice. show_weights: whether
    hover shows a cell's weight. chosen, right: a map, or (map, row, column), to outline. hues: the KV head of each map.
    width: maximal width of a map in pixels; per_row: maps per row, 0 to derive it from width.
    """
    sizes = [(len(rows), len(rows[0])) for rows, _ in maps]

    def take(sent: object) -> None:
        which, place = sent if isinstance(sent, (list, tuple)) and len(sent) == 2 else (0, (0, 0))
        i = within((which, 0), 0, (len(maps) - 1, 0))[0]
        row, column = within(place, 0, (sizes[i][0] - 1, sizes[i][1] - 1))
        if on_pick:
            on_pick((i, row, column))

    weights = np.array([w or 0.0 for rows, _ in maps for row in rows for w in row])
    data = {
        "maps": [
            {
                "title": title, "hue": hues[i] if hues else 0,
                "rows": [[None if w is None else round(w, 4) for w in row] for row in rows],
            }
            for i, (rows, title) in enumerate(maps)
        ],
        "title": title, "labels": list(labels), "axes": list(axes), "pick": pick, "showWeights": show_weights,
        "width": width, "perRow": per_row,
        "chosen": list(chosen), "right": list(right), "masked": list(theme.MASKED_RGBA),
        "ramps": theme.ramps(range(n_kv_heads), n_kv_heads),
        "top": top_of(weights), "below": below_zero() if weights.min(initial=0) < 0 else None,
    }  # fmt: skip
    _mount(key=key, data=as_bytes(data), on_pick_change=on_event(key, "pick", take))
