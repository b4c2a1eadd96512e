"""Progress display for the head grid of a large model: a progress bar, the layers computed so far, a stop button."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.ui.components.head_grid import layer_cells
from attnviz.ui.measuring import stop_button

if TYPE_CHECKING:
    from attnviz.analysis.merging import MergedLayer
    from attnviz.trace import LayerTrace

FIRST_AFTER, BETWEEN = 0.5, 2  # seconds


@dataclass
class LayerProgress:
    """Callback for each computed layer: updates the progress bar and redraws the partial grid from time to time.

    place, grid: `st.empty()` placeholders for the bar and the grid. draw: draws the grid of the given layers' cells.
    stop: callback of the stop button.
    """

    n_layers: int
    place: DeltaGenerator
    grid: DeltaGenerator
    draw: Callable[[list[np.ndarray]], None]
    stop: Callable[[], None]
    cells: list[np.ndarray] = field(default_factory=list)  # of the layers so far
    _bar: DeltaGenerator | None = None
    _drawn: bool = False
    _at: float = field(default_factory=time.perf_counter)

    def __call__(self, layer: int, maps: LayerTrace | MergedLayer) -> None:
        self.cells.append(layer_cells(maps.weights, maps.allowed, self.n_layers))
        since = time.perf_counter() - self._at
        if self._bar is None and since > FIRST_AFTER:
            with self.place.container():
                self._bar = st.progress(0.0)
                stop_button("Stop computing layers", "layers", self.stop)
        if self._bar is not None:
            self._bar.progress((layer + 1) / self.n_layers, f"Layer {layer + 1} of {self.n_layers} computed …")
        if since > (BETWEEN if self._drawn else FIRST_AFTER) and layer + 1 < self.n_layers:
            with self.grid.container():
                self.draw(self.cells)
            self._drawn, self._at = True, time.perf_counter()
