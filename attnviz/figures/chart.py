"""A chart as the JSON that plotly.js reads: plain dicts, lists and arrays, built by methods named as plotly's.

plotly's own objects keep a path string and a parent for every part, and take ten times as long. Nothing is validated
here; `figure()` has plotly validate the whole chart, as the tests and the download do.
"""

from __future__ import annotations

import math
from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np  # for type checkers only: the frame of every page is drawn before numpy is needed
    import plotly.graph_objects as go
    from plotly.basedatatypes import BaseFigure

TICK_ROOM = 14  # pixels per label on a vertical axis
MANY_ROWS = 560  # pixels: rows that would take more are drawn lower, each with room for its label
FULL_HEIGHT = {"y0": 0, "y1": 1, "xref": "x", "yref": "y domain"}


class Chart:
    """Traces and a layout. Arguments, arrays included, are not modified; dicts are merged into new ones."""

    def __init__(self, **layout: Any) -> None:
        self.data: list[dict] = []
        self.layout: dict = {}
        self.foot = 0  # pixels at the bottom of the plot that keep their height at any chart height: the colour bar's
        self.update_layout(**layout)

    def add_trace(self, trace: dict) -> None:
        self.data.append(trace)

    def add_bar(self, **trace: Any) -> None:
        self.add_trace({"type": "bar", **trace})

    def add_heatmap(self, **trace: Any) -> None:
        self.add_trace({"type": "heatmap", **trace})

    def add_scatter(self, **trace: Any) -> None:
        self.add_trace({"type": "scatter", **trace})

    def add_shape(self, **shape: Any) -> None:
        self.layout.setdefault("shapes", []).append(shape)

    def add_annotation(self, **annotation: Any) -> None:
        self.layout.setdefault("annotations", []).append(annotation)

    def add_vline(self, x: float, **line: Any) -> None:
        """Add a line from the bottom of the plot to its top."""
        self.add_shape(type="line", x0=x, x1=x, **FULL_HEIGHT, **line)

    def add_vrect(self, x0: float, x1: float, **rect: Any) -> None:
        """Add a band from the bottom of the plot to its top."""
        self.add_shape(type="rect", x0=x0, x1=x1, **FULL_HEIGHT, **rect)

    def update_layout(self, **layout: Any) -> None:
        _merge(self.layout, layout)

    def update_xaxes(self, **axis: Any) -> None:
        self._update_axes("xaxis", axis)

    def update_yaxes(self, **axis: Any) -> None:
        self._update_axes("yaxis", axis)

    def at_height(self, height: int) -> Chart:
        """Return the chart at another height in pixels, with as many labels on its vertical axes as fit."""
        chart, sides = Chart(), self.layout["margin"]["t"] + self.layout["margin"]["b"]
        chart.data, chart.layout = self.data, {**self.layout, "height": height}
        before, now = self.layout["height"] - sides, height - sides
        for name in [name for name in self.layout if name.startswith("yaxis")]:
            low, high = self.layout[name].get("domain", (0, 1))
            low, high = (part * before / now if part * before <= self.foot + 0.5 else part for part in (low, high))
            axis = chart.layout[name] = {**self.layout[name], "domain": [low, high]}
            if "tickvals" in axis and axis.get("showticklabels", True):
                every = math.ceil(len(axis["tickvals"]) * TICK_ROOM / (now * (high - low)))
                axis |= {each: axis[each][::every] for each in ("tickvals", "ticktext") if each in axis}
        return chart

    def _update_axes(self, kind: str, axis: dict) -> None:
        for name in self.layout:
            if name.startswith(kind):
                _merge(self.layout[name], axis)

    def figure(self) -> go.Figure:
        """Return plotly's own object, which validates every part of the chart. ImportError without plotly."""
        try:
            import plotly.graph_objects as go  # lazily: the front page has no charts and does not wait for plotly
        except ModuleNotFoundError:
            raise ImportError(
                'this chart is drawn by plotly, which is not installed: pip install "attnviz[app]"'
            ) from None

        return go.Figure(self.data, self.layout)

    def sent(self) -> BaseFigure:
        """Return a figure for `st.plotly_chart`, which validates a dict on every call but only serialises a figure."""
        return _sent()(self)


@cache
def _sent() -> type:
    """Return a figure class that only holds its JSON, the same as that of `Chart.figure()`."""
    import plotly.io as pio
    from plotly.basedatatypes import BaseFigure

    template = pio.templates[pio.templates.default].to_plotly_json()

    class Sent(BaseFigure):
        def __init__(self, chart: Chart) -> None:
            self._chart = chart

        def to_dict(self) -> dict:
            figure = _copied({"data": self._chart.data, "layout": self._chart.layout})
            figure["layout"].setdefault("template", template)  # not copied: it is larger than most charts
            return figure

    return Sent


def _copied(part: Any) -> Any:
    """Copy dicts and lists, drop values that are None, and encode arrays as plotly.js reads them fastest."""
    if isinstance(part, dict):
        return {key: _copied(value) for key, value in part.items() if value is not None}
    if getattr(part, "ndim", 0):
        return _in_base64(part)
    return [_copied(each) for each in part] if isinstance(part, list) else part


def _in_base64(array: np.ndarray) -> object:
    """Encode an array as plotly does; plotly tries pandas and others first and takes ten times as long."""
    if array.dtype.str not in ("<f4", "<f8") or not array.size:
        from plotly.basedatatypes import convert_to_base64

        convert_to_base64(found := {"array": array})  # in place
        return found["array"]
    shape = {"shape": str(array.shape)[1:-1]} if array.ndim > 1 else {}
    return {"dtype": array.dtype.str[1:], "bdata": b64encode(array.tobytes()).decode(), **shape}


def rows_height(n: int, usual: int) -> int:
    """Return the pixels that n rows take: `usual` for each, less where a model's many layers would fill a screen."""
    return round(n * max(TICK_ROOM, min(usual, MANY_ROWS / n)))


def numbered(axis: str, number: int) -> str:
    """Return plotly.js's name of an axis; the first has no number: "x", "x2", "x3" and "xaxis", "xaxis2"."""
    return axis if number == 1 else f"{axis}{number}"


def _merge(into: dict, update: dict) -> None:
    """Merge dicts recursively. A title may be given as text; plotly.js reads only {"text": …}."""
    for key, given in update.items():
        value = {"text": given} if key == "title" and isinstance(given, str) else given
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value
