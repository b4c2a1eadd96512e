"""Progress display for a long computation: progress bar, time left, results so far, stop button."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import streamlit as st

from attnviz.figures.drawing import Drawing
from attnviz.ui import charts

SHOW_TIME_LEFT_ABOVE = 10  # seconds of total time
CHART_INTERVAL = 1  # second between two redraws of the chart


class Found(Protocol):
    """Partial result of a computation."""

    @property
    def seconds(self) -> float:
        """Estimated total time."""

    @property
    def n_measured(self) -> int:
        """Number of results so far."""


@dataclass
class MeasurementProgress:
    """Callback for partial results: draws them, the share of the work that is done, and a stop button.

    place, chart: `st.empty()` placeholders for the progress bar and the chart. stop: callback of the button.
    """

    label: str
    stop_label: str
    place: Any
    chart: Any
    draw: Callable[[Any], Drawing]
    stop: Callable[[], None]
    _bar: Any = None
    _drawn: int = 0  # results in the last chart
    _drawn_at: float = field(default_factory=time.perf_counter)

    def __call__(self, found: Found, done: float) -> None:
        if self._bar is None:
            with self.place.container():
                self._bar = st.progress(done)
                st.button(self.stop_label, on_click=self.stop)
        long = (
            f", about {_tens(found.seconds * (1 - done))} seconds left" if found.seconds > SHOW_TIME_LEFT_ABOVE else ""
        )
        self._bar.progress(done, f"{self.label}: {done:.0%} done{long} …")
        now = time.perf_counter()
        if found.n_measured > self._drawn and now > self._drawn_at + CHART_INTERVAL:
            with self.chart.container():
                charts.picture(self.draw(found), f"so-far-{found.n_measured}")
            self._drawn, self._drawn_at = found.n_measured, now


def _tens(seconds: float) -> int:
    return 10 * math.ceil(seconds / 10)
