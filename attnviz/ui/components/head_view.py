"""One head large: its map with tokens on both axes, and the steps of one query from score to weight; a canvas each.

plotly draws the same where somebody wants to zoom or to save it, but takes as long as all the rest of the page, and
draws anew from nothing for every change (`attnviz/figures/heads.py`). T query tokens, S key tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnviz.figures import theme
from attnviz.figures.drawing import Caption
from attnviz.figures.head_captions import STAGES, largest_but_first
from attnviz.figures.numbers import rounded
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within
from attnviz.ui.components.packed_weights import cells_of, message, ramp

if TYPE_CHECKING:
    from attnviz.trace import Trace

MAP_HTML = """
<div class="hv">
  <section class="one">
    <h4 class="title"></h4>
    <div class="tools">
      <label>Query token <select class="query"></select></label>
      <label>Key token <select class="key"></select></label>
      <button type="button" class="pin"></button>
    </div>
    <p class="read" aria-live="polite"></p>
    <div class="map" role="application" tabindex="0"><canvas></canvas><i hidden></i></div>
    <div class="bar"><i></i><div></div>weight</div>
    <div class="tools">
      <label>Colour scale
        <select class="colour"><option value="linear">linear</option><option value="log">logarithmic</option></select>
      </label>
      <label class="check"><input type="checkbox" class="exclude">Exclude first token from colour scale</label>
    </div>
    <p class="note"></p>
    <p class="whole"></p>
    <p class="hint">Point at a cell to read its weight. Click it, or move with the arrow keys and press Enter, to select
      its query and key for the bars and for “One weight, step by step”.</p>
  </section>
</div>
"""
PATH_HTML = """
<div class="hv">
  <section class="what">
    <h4 class="role"></h4>
    <p class="scored"></p>
  </section>
  <section class="way">
    <h4 class="from"></h4>
    <p class="steps"></p>
    <p class="said" aria-live="polite"></p>
    <div class="path" role="img"><canvas></canvas><i hidden></i></div>
    <p class="sum"></p>
  </section>
</div>
"""

_mount_map = declared("head_view", MAP_HTML, "packed_weights", "save_buttons")
_mount_path = declared("head_path", PATH_HTML, "packed_weights", "save_buttons", js="head_view")


@dataclass(frozen=True)
class Look:
    """The selection within a head, and how its map is drawn."""

    layer: int
    head: int
    query: int
    key: int  # the selected key …
    chosen: int  # … and as it was chosen: -1 for the strongest key
    log: bool = False
    exclude_first: bool = False
    pinned: bool = False


def head_view(
    trace: Trace,
    labels: Sequence[str],
    look: Look,
    captions: tuple[Caption, Caption],
    role: tuple[str, str],
    *,
    key: str,
    on_head: Callable[[int, int], None],
    on_cell: Callable[[int, int], None],
    on_look: Callable[[bool, bool], None],
    on_pin: Callable[[], None],
) -> None:
    """Show the map. `on_head(layer, head)` runs after another head was chosen in a `head_grid`; `on_cell(query, key)`
    after a cell or a token was, key -1 for the strongest key; `on_look(log, exclude_first)` after another
    scale of colours; `on_pin()` when the head is to be pinned, or no longer.

    labels: T token labels. captions: of the map and of the path. role: a title and a sentence on what the head does.
    """
    n, most = len(labels), (trace.config.n_layers - 1, trace.config.n_heads - 1)

    def head(sent: object) -> None:
        on_head(*within(sent, 0, most))

    def cell(sent: object) -> None:
        on_cell(*within(sent, -1, (n - 1, n - 1)))

    def scale(sent: object) -> None:
        on_look(*map(bool, within(sent, 0, (1, 1))))

    _mount_map(
        key=key,
        data=pack(trace, labels, look, captions, role),
        on_head_change=on_event(key, "head", head),
        on_cell_change=on_event(key, "cell", cell),
        on_look_change=on_event(key, "look", scale),
        on_pin_change=on_pin,
    )


def head_path(
    trace: Trace,
    labels: Sequence[str],
    look: Look,
    captions: tuple[Caption, Caption],
    role: tuple[str, str],
    *,
    key: str,
    on_cell: Callable[[int, int], None],
) -> None:
    """Show what the head does, and one query from score to weight; arguments as for `head_view`."""
    most = len(labels) - 1, len(labels) - 1
    data = pack(trace, labels, look, captions, role, one_row=True)
    _mount_path(key=key, data=data, on_cell_change=on_event(key, "cell", lambda sent: on_cell(*within(sent, -1, most))))


def pack(
    trace: Trace,
    labels: Sequence[str],
    look: Look,
    captions: tuple[Caption, Caption],
    role: tuple[str, str],
    *,
    one_row: bool = False,
) -> bytes:
    """The message for the browser, of shape (1, 1, T, S), or (1, 1, 1, S) with one_row: the query's.

    The query's scores and weights are in it as they are printed.
    """
    layer, head, query = look.layer, look.head, look.query
    weights, allowed = trace.weights[layer, head], trace.allowed[layer]  # (T, S) each
    read, n_kv_heads = trace.config.layer.kv_head_of[head], trace.config.n_kv_heads
    whole, way = captions
    header = {
        "labels": list(labels),
        "head": [layer, head],
        "query": query, "key": look.key, "chosen": look.chosen, "log": look.log, "exclude": look.exclude_first,
        "pinned": look.pinned,
        "tops": [1.0, largest_but_first(weights)],
        "ramps": {name: ramp(read, n_kv_heads, name) for name in theme.RAMP_ENDS},
        "mark": theme.kv_colour(read, n_kv_heads),
        "legend": [[theme.kv_colour(read, n_kv_heads), _hue_name(trace, head)]],
        "masked": list(theme.MASKED_RGBA),
        "texts": {
            "title": whole.title, "note": whole.note, "role": role[0], "scored": role[1],
            "from": way.title, "steps": way.note, "whole": _with_legend(whole), "sum": _with_legend(way),
        },
        "alts": [whole.alt, way.alt],
        "stages": STAGES,
        "scores": rounded(trace.scores_of(layer, head)[query]).tolist(),
        "weights": rounded(weights[query]).tolist(),
        "allowed": allowed[query].tolist(),
    }  # fmt: skip
    rows = slice(query, query + 1) if one_row else slice(None)
    return message(header, cells_of(weights[None, None, rows], allowed[None, rows], len(labels)))


def _with_legend(caption: Caption) -> str:
    return f"{caption.line}. {caption.legend}" if caption.legend else caption.line


def _hue_name(trace: Trace, head: int) -> str:
    """What the head's hue stands for: the KV head it reads, or the keys that MLA expands for it."""
    name = "keys of head" if trace.config.attention == "mla" else "KV"
    return f"H{head} reads {name} {trace.config.layer.kv_head_of[head]}"
