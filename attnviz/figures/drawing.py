"""What every figure function returns: the chart and its caption."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attnviz.figures.chart import Chart

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Caption:
    """What is written beside a picture: a `Drawing` without its chart."""

    title: str
    note: str
    alt: str
    formula: str = ""
    table: dict[str, list] = field(default_factory=dict)
    line: str = ""  # the formula once more as plain text: KaTeX takes a browser as long as a small chart
    legend: str = ""  # what the formula's letters mean


@dataclass(frozen=True)
class Drawing:
    """A chart, what it says, and the numbers behind it. Every number in the texts is computed."""

    chart: Chart  # without a title: the page writes it
    title: str  # states what to look for
    note: str  # what one is looking at, one or two plain sentences (markdown)
    alt: str  # the finding in words, for those who cannot see the figure
    table: Mapping[str, Sequence]  # column -> values, all of one length
    formula: str = ""  # LaTeX with the user's own numbers put in
    legend: str = ""  # what its letters mean
    below: str = ""  # what the numbers in the chart stand for

    @property
    def figure(self) -> go.Figure:
        """The chart as plotly's own object, every part of it validated."""
        return self.chart.figure()


def drawn(chart: Chart, caption: Caption) -> Drawing:
    """Join a chart and its caption."""
    return Drawing(chart, caption.title, caption.note, caption.alt, caption.table, caption.formula, caption.legend)


def escaped(text: str) -> str:
    """A stranger's text for a sentence in markdown: nothing in it is acted on, and no address becomes a link."""
    apart = re.sub(r"(?i)(:(?=//)|@|www(?=\.))", "\\1\u2060", text)  # a bare address is a link for all escapes
    return _escaped(apart)


def quoted(label: str) -> str:
    """A token's label for a sentence in markdown, in quotation marks."""
    return f"“{_escaped(label)}”"


def _escaped(text: str) -> str:
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)
