"""Progress display for a long computation: progress bar, time left, results so far, stop button."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.compute import queue
from attnviz.figures.drawing import Drawing
from attnviz.phrases import count
from attnviz.server.selectors import STATUS
from attnviz.ui import charts

CHART_INTERVAL = 1  # second between two redraws of the chart
FIRST_BAR, BAR_INTERVAL = 0.5, 0.3  # seconds before a progress bar is shown, and between two of its states


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
    place: DeltaGenerator
    chart: DeltaGenerator
    draw: Callable[[Any], Drawing]
    stop: Callable[[], None]
    _bar: DeltaGenerator | None = None
    _drawn: int = 0  # results in the last chart
    _drawn_at: float = field(default_factory=time.perf_counter)

    def __call__(self, found: Found, done: float) -> None:
        if self._bar is None:
            with self.place.container():
                self._bar = st.progress(done)
                stop_button(self.stop_label, "measurement", self.stop)
        left = count(_rounded_up(found.seconds * (1 - done)), "second")
        self._bar.progress(done, f"{self.label}: {done:.0%} done, about {left} left …")
        now = time.perf_counter()
        if found.n_measured > self._drawn and now > self._drawn_at + CHART_INTERVAL:
            with self.chart.container():
                charts.picture(self.draw(found), f"so-far-{found.n_measured}")
            self._drawn, self._drawn_at = found.n_measured, now


@contextmanager
def progress(label: str) -> Iterator[None]:
    """Show the share done of a computation that reports it (`queue.ON_PROGRESS`), and the time left."""
    place, began, drawn_at = st.empty(), time.perf_counter(), -math.inf

    def report(done: float) -> None:
        nonlocal drawn_at
        now = time.perf_counter()
        if now < max(began + FIRST_BAR, drawn_at + BAR_INTERVAL):
            return
        drawn_at, left = now, count(_rounded_up((now - began) * (1 - done) / done), "second")
        place.progress(done, f"{label}: {done:.0%} done, about {left} left …")

    token = queue.ON_PROGRESS.set(report)
    try:
        yield
    finally:
        queue.ON_PROGRESS.reset(token)
    place.empty()


def stop_button(label: str, what: str, stop: Callable[[], None]) -> None:
    """Button that stops the running computation and keeps its results. what: names it among the page's buttons.

    Streamlit's own, which would lose them, is hidden beside it. A rule of the style sheet would have to look for this
    button in the whole page at each of its changes.
    """
    st.button(label, key=f"stop-{what}", on_click=stop)
    st.html(f"<style>{STATUS} {{ display: none; }}</style>")


def _rounded_up(seconds: float) -> int:
    """Round up to whole seconds, to tens above ten."""
    unit = 10 if seconds > 10 else 1
    return unit * math.ceil(seconds / unit)
