"""The state of a linear head as it is written token by token; the slider and playing run in the browser.

T tokens, D width of a key, V width of a value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnviz.analysis.linear import Written
from attnviz.figures import theme
from attnviz.figures.drawing import Caption
from attnviz.ui.components.as_bytes import framed
from attnviz.ui.components.declared import declared

HTML = """
<div class="sp">
  <h2></h2><p class="note"></p>
  <div class="bar">
    <button type="button" class="play">▶ Play</button>
    <label class="where">After token <input type="range" min="0" step="1"> <output></output></label>
    <label>Tokens per second <select class="speed"><option>1</option><option selected>4</option><option>16</option>
      <option>64</option></select></label>
  </div>
  <p class="finding"></p>
  <div class="three">
    <section class="state"><h3>State S now</h3><canvas role="img"></canvas>
      <p class="size"></p><p class="read"></p></section>
    <section class="added"><h3>What this token added: k ⊗ β (v − Sᵀk)</h3><canvas role="img"></canvas>
      <p class="size"></p><p class="read"></p></section>
    <section class="removed"><h3>What decay removed: (1 − α) S</h3><canvas role="img"></canvas>
      <p class="size"></p><p class="read"></p></section>
  </div>
  <p class="scale"></p>
  <p class="live" aria-live="polite"></p>
</div>
"""

_mount = declared("state_player", HTML)


def state_player(
    written: Written, labels: Sequence[str], t: int, hue: tuple[int, int], caption: Caption, key: str,
    legend: Sequence[list[str]] = (),
) -> None:  # fmt: skip
    """Draw the state after token t, with what came and went with it.

    hue: the head of the keys, and their number. legend: [colour, name] of a saved picture.
    """
    data = pack(written, labels, t, hue, caption, legend)
    _mount(key=key, data=data, width="stretch", height="content")


def pack(
    written: Written, labels: Sequence[str], t: int, hue: tuple[int, int], caption: Caption,
    legend: Sequence[list[str]] = (),
) -> bytes:  # fmt: skip
    """Return the payload for the browser."""
    T, picked = len(labels), np.linspace(0, 255, theme.CANVAS_STOPS).round().astype(int)
    decay = written.decay.reshape(T, -1)  # (T, 1 or D)
    ramps = {scheme: theme.diverging_ramps(*hue, scheme) for scheme in theme.RAMP_ENDS}
    header = {
        "labels": list(labels), "t": t, "D": written.k.shape[1], "V": written.v.shape[1], "channels": decay.shape[1],
        "title": caption.title, "note": caption.note, "alt": caption.alt, "scale": max(written.largest, 1e-6),
        "ramps": {scheme: above[picked].tolist() for scheme, (_, above) in ramps.items()},
        "below": {scheme: below[picked].tolist() for scheme, (below, _) in ramps.items()},
        "legend": [list(each) for each in legend],
    }  # fmt: skip
    body = (written.k, written.writes, decay)
    return framed(header, *(np.ascontiguousarray(part, "<f4").tobytes() for part in body))
