"""A computation that takes a while: how long it takes, how far it is, what it has found, and a button that ends it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import streamlit as st

from attnviz.figures.drawing import Drawing
from attnviz.ui import charts

LONG = 10  # seconds, above which it is said how long it will take
BETWEEN_CHARTS = 1  # second


class Found(Protocol):
    """What has been found so far."""

    @property
    def seconds(self) -> float:
        """About how long all of it takes."""

    @property
    def n_measured(self) -> int:
        """How many results there are."""


@dataclass
class Measuring:
    """Called with what is known and the share of the work that is done, it draws both, and a button.

    place, chart: where, as `st.empty()` makes them. stop: what the button calls.
    """

    label: str
    stop_label: str
    place: Any
    chart: Any
    draw: Callable[[Any], Drawing]
    stop: Callable[[], None]
    _bar: Any = None
    _drawn: int = 0  # results
    _drawn_at: float = field(default_factory=time.perf_counter)

    def __call__(self, found: Found, done: float) -> None:
        if self._bar is None:
            with self.place.container():
                self._bar = st.progress(done)
                st.button(self.stop_label, on_click=self.stop)
        long = f", about {_tens(found.seconds * (1 - done))} seconds left" if found.seconds > LONG else ""
        self._bar.progress(done, f"{self.label}: {done:.0%} done{long} …")
        now = time.perf_counter()
        if found.n_measured > self._drawn and now > self._drawn_at + BETWEEN_CHARTS:
            with self.chart.container():
                charts.picture(self.draw(found), f"so-far-{found.n_measured}")
            self._drawn, self._drawn_at = found.n_measured, now


def _tens(seconds: float) -> int:
    return 10 * math.ceil(seconds / 10)
