"""One head enlarged, on two canvases: its map with tokens on both axes, and one query's path from score to weight.

`attnviz/figures/heads.py` has the map as a plotly chart for zooming and saving, but plotly takes as long as the rest of
the page and redraws from scratch on every change. T query tokens, S key tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnviz.figures import theme
from attnviz.figures.drawing import Caption
from attnviz.figures.head_captions import SCALES, largest_but_first, stages_of
from attnviz.figures.numbers import rounded
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within
from attnviz.ui.components.packed_weights import below_zero, cells_of, message, top_of

if TYPE_CHECKING:
    from attnviz.analysis.merging import Merged
    from attnviz.mechanisms import Mixer
    from attnviz.recorded import Sides
    from attnviz.trace import Trace

PATH_HTML = """
<div class="hv">
  <section class="way">
    <h3 class="from"></h3>
    <p class="steps"></p>
    <p class="readout" aria-live="polite"></p>
    <div class="path" role="img"><canvas></canvas><i hidden></i></div>
    <details class="calculation"><summary>Show the calculation</summary><p class="sum"></p></details>
  </section>
</div>
"""

_mount = declared("head_view")
_mount_path = declared("head_path", PATH_HTML, css="head_view")


@dataclass(frozen=True)
class Cell:
    """The selection within a head, and how its map is drawn."""

    layer: int
    head: int
    query: int
    key: int  # the selected key …
    chosen: int  # … and as it was chosen: -1 for the strongest key
    scale: str = "root"  # of colour, one of SCALES
    exclude_first: bool = False
    pinned: bool = False


def head_view(
    trace: Trace,
    labels: Sequence[str],
    cell: Cell,
    caption: Caption,
    merged: Merged | None = None,
    *,
    key: str,
    on_head: Callable[[int, int], None],
    on_cell: Callable[[int, int], None],
    on_scale: Callable[[str, bool], None],
    on_pin: Callable[[], None],
    sides: Sides | None = None,
) -> None:
    """Show the map.

    `on_head(layer, head)` runs after a head was chosen in a `head_grid`; `on_cell(query, key)` after a cell or token
    was chosen, key -1 for the strongest key; `on_scale(scale, exclude_first)` after a change of the colour scale;
    `on_pin()` when the head is pinned or unpinned. labels: T token labels. merged: maps to draw instead of the trace's;
    `on_cell` then runs with two characters. sides: of a saved run, the rows that are drawn, and what rows and columns
    are called; `on_cell` runs with a query of the trace.
    """
    n, most = len(merged.labels if merged else labels), (trace.config.n_layers - 1, trace.config.n_heads - 1)
    n_queries, n_keys = (len(sides.rows), len(sides.key_labels)) if sides else (n, n)
    first = sides.rows.start if sides else 0

    def take_head(sent: object) -> None:
        on_head(*within(sent, 0, most))

    def take_cell(sent: object) -> None:
        query, chosen = within(sent, -1, (n_queries - 1, n_keys - 1))
        on_cell(query + first, chosen)

    def take_scale(sent: object) -> None:
        which, exclude_first = within(sent, 0, (len(SCALES) - 1, 1))
        on_scale(SCALES[which], bool(exclude_first))

    _mount(
        key=key,
        data=pack(trace, labels, cell, caption, merged, sides),
        on_head_change=on_event(key, "head", take_head),
        on_cell_change=on_event(key, "cell", take_cell),
        on_scale_change=on_event(key, "scale", take_scale),
        on_pin_change=on_pin,
    )


def head_path(
    trace: Trace,
    labels: Sequence[str],
    cell: Cell,
    caption: Caption,
    *,
    key: str,
    on_cell: Callable[[int, int], None],
) -> None:
    """Show one query's path from score to weight. `on_cell(query, key)` runs on a click on a bar.

    labels: of the keys, (S,).
    """
    n_queries, n_keys = trace.layers[cell.layer].allowed.shape
    most = n_queries - 1, n_keys - 1
    data = as_bytes(path_of(trace, labels, cell, caption))
    _mount_path(key=key, data=data, on_cell_change=on_event(key, "cell", lambda sent: on_cell(*within(sent, -1, most))))


def pack(
    trace: Trace, labels: Sequence[str], cell: Cell, caption: Caption, merged: Merged | None = None,
    sides: Sides | None = None,
) -> bytes:  # fmt: skip
    """Return the payload for the browser, with cells of shape (1, 1, T, S)."""
    maps = (merged or trace).layers[cell.layer]
    weights, allowed = maps.weights_of(cell.head), maps.allowed  # (T, S) each
    read, top = trace.layers[cell.layer].mixer.kv_head_of[cell.head], top_of(weights)
    header = {
        **_shared(trace, labels, cell, caption),
        "head": [cell.layer, cell.head],
        "chosen": cell.chosen, "scale": cell.scale, "exclude": cell.exclude_first, "pinned": cell.pinned,
        "tops": [top, min(top, largest_but_first(weights))],
        "below": below_zero() if weights.min(initial=0) < 0 else None,
        "ramps": theme.ramps([read], trace.config.n_kv_heads),
        "texts": {"title": caption.title, "note": caption.note, "whole": _with_legend(caption)},
        **(_by_character(merged, cell) if merged else {}),
        **(_of_run(sides, cell) if sides else {}),
    }  # fmt: skip
    if sides:
        weights, allowed = (array[sides.rows.start : sides.rows.stop] for array in (weights, allowed))
    return message(header, cells_of(weights[None, None], allowed[None], max(weights.shape)))


def _of_run(sides: Sides, cell: Cell) -> dict:
    """Return the header fields that differ for a saved run: rows are some of the tokens, columns may be others."""
    return {
        "labels": sides.labels, "positions": sides.positions, "tokens": list(sides.rows),
        "keys": {"labels": sides.key_labels, "positions": sides.key_positions}, "query": cell.query - sides.rows.start,
    }  # fmt: skip


def _by_character(merged: Merged, cell: Cell) -> dict:
    """Return the header fields that differ where the map's rows and columns are characters.

    The strongest key of a merged row need not be the character of the strongest token.
    """
    query, chosen = merged.at(cell.query), merged.at(cell.chosen)
    strongest = int(abs(merged.layers[cell.layer].weights_of(cell.head)[query]).argmax())
    return {
        "labels": merged.labels, "positions": merged.positions, "tokens": merged.last,
        "query": query, "key": strongest if chosen < 0 else chosen, "chosen": chosen,
    }  # fmt: skip


def path_of(trace: Trace, labels: Sequence[str], cell: Cell, caption: Caption) -> dict:
    """Return the path's payload: the query's scores and weights, rounded as they are printed."""
    one, head, query = trace.layers[cell.layer], cell.head, cell.query
    return {
        **_shared(trace, labels, cell, caption),
        "texts": {"from": caption.title, "steps": caption.note, "sum": _with_legend(caption)},
        "stages": stages_of(one.allowed),
        "scores": rounded(one.scores_of(head)[query]).tolist(),
        "weights": rounded(one.weights[head, query]).tolist(),
        "allowed": one.allowed[query].tolist(),
    }  # fmt: skip


def _shared(trace: Trace, labels: Sequence[str], cell: Cell, caption: Caption) -> dict:
    """Return the header fields shared by the map and the path."""
    mixer = trace.layers[cell.layer].mixer
    mark = theme.kv_colour(mixer.kv_head_of[cell.head], trace.config.n_kv_heads)
    return {
        "labels": list(labels), "query": cell.query, "key": cell.key, "alt": caption.alt,
        "mark": mark, "legend": [[mark, _hue_name(mixer, cell.head)]], "masked": list(theme.MASKED_RGBA),
    }  # fmt: skip


def _with_legend(caption: Caption) -> str:
    return f"{caption.line}. {caption.legend}" if caption.legend else caption.line


def _hue_name(mixer: Mixer, head: int) -> str:
    """Return the meaning of the head's hue: the KV head it reads, or the keys that MLA expands for it."""
    if not mixer.keys_known:
        return f"H{head}"
    return f"H{head} reads {mixer.keys_read(mixer.kv_head_of[head]).replace('KV head', 'KV')}"
