"""The clocks of RoPE as a small SVG component: position slider and play run in the browser.

Nothing is asked of the server while it plays: frequencies and labels are sent once. A chosen pair is told to the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared
from attnviz.ui.components.events import on_event, within

SHORTEST = 64  # positions the slider offers at least, so that there is something to turn in a short text
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
  <p class="rc-angle"></p><p class="rc-equations"></p>
  <p class="rc-key">Below each clock: its degrees per token. Dots: the tokens, from faint (first) to strong (last).
    Hand: the position of the slider.</p>
  <p class="live" aria-live="polite"></p>
</div>
"""

_mount = declared("rope_clocks", HTML, "save_buttons", "rope_playing")


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
    """Draw a clock for each of `frequencies` (n_pairs,), radians per token, with the tokens `labels` on it.

    query: the position that is shown first. pair: the selected one; `on_pair(pair)` runs when another is chosen.
    equations: what is printed for each pair when it is selected. reads: which head this is and what it reads, for the
    legend of a saved picture.
    """
    last = len(frequencies) - 1  # the session keeps what the callback refers to
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
    """What the browser is sent."""
    return as_bytes({
        "label": f"{len(frequencies)} pairs of dimensions as clocks; arrow keys choose one",
        "frequencies": frequencies.tolist(),
        "labels": list(labels),
        "last": max(len(labels), SHORTEST) - 1,
        "query": query,
        "pair": pair,
        "colour": colour,
        "equations": list(equations),
        "legend": [[colour, reads]] if reads else [],
    })  # fmt: skip
