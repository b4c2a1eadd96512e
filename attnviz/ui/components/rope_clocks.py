"""Clocks of the RoPE pairs as an SVG component; the position slider and playback run in the browser.

Frequencies and labels are sent once, so playback needs no server requests. Choosing a pair sends an event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnviz.phrases import count
from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within

MIN_POSITIONS = 64  # of the slider, so that the pairs rotate visibly even for a short text
HTML = """
<div class="rc">
  <div class="bar">
    <button type="button" class="play">▶ Play</button>
    <label class="where">Position <input type="range" min="0" step="1"> <output></output></label>
    <label>Tokens per second <select class="speed"><option>1</option><option selected>4</option><option>16</option>
      <option>64</option></select></label>
  </div>
  <div class="rc-clocks" role="radiogroup"></div>
  <button type="button" class="rc-all"></button>
  <p class="rc-angle"></p>
  <details class="calculation"><summary>Show the calculation</summary><p class="rc-equations"></p></details>
  <p class="rc-key">Below each clock: its degrees per token. Dots: the tokens, from faint (first) to strong (last).
    Hand: the selected position.</p>
  <p class="live" aria-live="polite"></p>
</div>
"""

_mount = declared("rope_clocks", HTML)


def rope_clocks(
    frequencies: np.ndarray,
    labels: Sequence[str],
    query: int,
    pair: int,
    colour: str,
    equations: Sequence[str],
    key: str,
    on_pair: Callable[[int], None],
    reads: str = "",
) -> None:
    """Draw a clock for each of `frequencies` (n_pairs,), radians per token, with the tokens `labels` as dots.

    query: the initial position. pair: the selected one; `on_pair(pair)` runs when another is chosen. equations: text
    for each pair, shown when it is selected. reads: the head and the KV head it reads, for the legend of a saved
    picture.
    """
    last = len(frequencies) - 1  # the session stores the callback: it must not hold the array
    data = pack(frequencies, labels, query, pair, colour, equations, reads)
    chosen = on_event(key, "pair", lambda sent: on_pair(within((sent, 0), 0, (last, 0))[0]))
    _mount(key=key, data=data, width="stretch", height="content", on_pair_change=chosen)


def pack(
    frequencies: np.ndarray,
    labels: Sequence[str],
    query: int,
    pair: int,
    colour: str,
    equations: Sequence[str],
    reads: str = "",
) -> bytes:
    """Return the payload for the browser."""
    return as_bytes({
        "label": f"{count(len(frequencies), 'pair')} of dimensions as clocks; arrow keys choose one",
        "frequencies": frequencies.tolist(),
        "labels": list(labels),
        "last": max(len(labels), MIN_POSITIONS) - 1,
        "query": query,
        "pair": pair,
        "colour": colour,
        "equations": list(equations),
        "legend": [[colour, reads]] if reads else [],
    })  # fmt: skip
