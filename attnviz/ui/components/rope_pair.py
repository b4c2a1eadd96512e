"""One pair of a query and a key as arrows that RoPE rotates: shifting both positions leaves the score unchanged.

The browser computes everything in float64 from the head's q and k before RoPE, which are sent once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.ui.components.as_bytes import as_bytes
from attnviz.ui.components.declared import declared

MAX_SHIFT = 64  # positions
HTML = """
<div class="rp">
  <div class="bar">
    <button type="button" class="play">▶ Play</button>
    <label class="where">Shift both by <input class="both" type="range" min="0" step="1"> <output></output></label>
  </div>
  <div class="bar">
    <label class="where">Shift only k by <input class="alone" type="range" step="1"> <output></output></label>
    <label>per second
      <select class="speed"><option>1</option><option selected>4</option><option>16</option></select></label>
  </div>
  <div class="rp-sides">
    <div class="rp-plane"></div>
    <table class="rp-numbers"><thead><tr><th></th><th>unshifted</th><th>now</th></tr></thead><tbody></tbody></table>
  </div>
  <p class="rp-key">Dashed: before RoPE. Solid: rotated. Shaded: the angle between q and k.</p>
  <p class="live" aria-live="polite"></p>
</div>
"""

_mount = declared("rope_pair", HTML)


def rope_pair(data: bytes, key: str) -> None:
    """Draw the payload of `pack`."""
    _mount(key=key, data=data, width="stretch", height="content")


def pack(
    frequencies: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    unrotated: float,
    head_dim: int,
    pair: int,
    dimensions: tuple[int, int],
    positions: tuple[int, int],
    labels: Sequence[str],
    colour: str,
    reads: str,
) -> bytes:
    """Return the payload for the browser.

    q, k (n_pairs,) complex: the pairs before RoPE, which rotate by `frequencies` (n_pairs,) radians per token.
    unrotated: contribution of the unrotated dimensions to q·k. pair: the pair that is drawn, with its two `dimensions`
    of the head. positions: of the query and of the key in the text with these `labels`. reads: the head and the KV head
    it reads.
    """
    m, n = positions
    return as_bytes({
        "frequencies": frequencies.tolist(),
        "q": np.stack((q.real, q.imag), axis=-1).tolist(),
        "k": np.stack((k.real, k.imag), axis=-1).tolist(),
        "unrotated": unrotated,
        "root": head_dim,
        "pair": pair,
        "dimensions": list(dimensions),
        "positions": [m, n],
        "tokens": [labels[m], labels[n]],
        "alone": [-n, len(labels) - 1 - n],
        "last": MAX_SHIFT,
        "colour": colour,
        "legend": [[colour, reads]],
    })  # fmt: skip
