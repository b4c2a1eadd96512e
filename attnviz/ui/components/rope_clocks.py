"""The clocks of RoPE as a small SVG component: position slider, play, and a real query rotated, all in the browser.

Nothing is asked of the server while it runs: frequencies, labels and each token's query before RoPE are sent once.
"""

from __future__ import annotations

import json
import struct

import numpy as np

from attnviz.ui.components.declared import declared

SHORTEST = 64  # positions the slider offers at least, so that there is something to turn in a short text
HTML = """
<div class="rc">
  <div class="rc-bar">
    <button type="button" class="rc-play">▶ Play</button>
    <label class="rc-where">Position <input type="range" min="0" step="1"> <output></output></label>
    <label>Tokens per second <select class="rc-speed"><option>1</option><option selected>4</option><option>16</option>
      <option>64</option></select></label>
  </div>
  <div class="rc-clocks" role="radiogroup"></div>
  <button type="button" class="rc-all"></button>
  <div class="rc-detail">
    <div class="rc-dial"></div>
    <div class="rc-says">
      <p class="rc-bar"><label>Rotate q of <select class="rc-token"></select></label></p>
      <p class="rc-equations"></p><p class="rc-angle"></p><p class="rc-vector"></p>
      <p class="rc-key">Dashed: q before RoPE. Solid: rotated. Dots on the clocks: the tokens, from light (first) to
      dark (last).</p>
    </div>
  </div>
  <p class="rc-live" aria-live="polite"></p>
</div>
"""

_mount = declared("rope_clocks", HTML, "save_buttons")


def rope_clocks(
    frequencies: np.ndarray,
    q: np.ndarray,
    labels: list[str],
    query: int,
    colour: str,
    equations: list[str],
    key: str,
    reads: str = "",
) -> None:
    """Draw a clock for each of `frequencies` (n_pairs,), radians per token, with the tokens `labels` on it.

    q (T, n_pairs, 2): the head's queries before RoPE, pair by pair; token `query` is the one shown first. equations:
    what is printed for each pair when it is selected. reads: which head this is and what it reads, for the legend of a
    saved picture.
    """
    data = pack(frequencies, q, labels, query, colour, equations, reads)
    _mount(key=key, data=data, width="stretch", height="content")


def pack(
    frequencies: np.ndarray,
    q: np.ndarray,
    labels: list[str],
    query: int,
    colour: str,
    equations: list[str],
    reads: str = "",
) -> bytes:
    """What the browser is sent: the length of a JSON header (4 bytes, little-endian), the header, q in float32."""
    header = {
        "label": f"{len(frequencies)} pairs of dimensions as clocks; arrow keys choose one",
        "frequencies": [float(f) for f in frequencies],
        "labels": labels,
        "last": max(len(labels), SHORTEST) - 1,
        "query": query,
        "colour": colour,
        "equations": equations,
        "legend": [[colour, reads]] if reads else [],
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return struct.pack("<I", len(text)) + text + q.astype("<f4").tobytes()
