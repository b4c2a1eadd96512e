"""The return type of the figure functions: a chart and its caption."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attnviz.figures.chart import Chart
from attnviz.phrases import in_quotes

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Caption:
    """The texts beside a picture: a `Drawing` without its chart."""

    title: str
    note: str
    alt: str
    formula: str = ""
    table: dict[str, list] = field(default_factory=dict)
    line: str = ""  # the formula as plain text: KaTeX takes a browser as long as a small chart
    legend: str = ""  # meaning of the formula's letters
    more: str = ""  # as a drawing's


@dataclass(frozen=True)
class Drawing:
    """A chart, its texts, and the numbers behind it. Every number in the texts is computed."""

    chart: Chart  # without a title: the page writes it
    title: str  # the finding
    note: str  # what is drawn and how to read it, two or three sentences (markdown)
    alt: str  # the finding in words, for screen readers
    table: Mapping[str, Sequence]  # column -> values, all of the same length
    formula: str = ""  # LaTeX with the user's own numbers
    legend: str = ""  # meaning of the formula's letters
    below: str = ""  # meaning of the numbers in the chart
    tall: bool = False  # presented at full height and so at less zoom: its words need the width
    more: str = ""  # behind the note's question mark: how it is computed or measured, sources, limits (markdown)
    missing: str = ""  # stands in the table where there is no number: None or NaN

    @property
    def figure(self) -> go.Figure:
        """The chart as plotly's own object, which validates every part of it."""
        return self.chart.figure()


def drawn(chart: Chart, caption: Caption) -> Drawing:
    """Join a chart and its caption."""
    return Drawing(
        chart, caption.title, caption.note, caption.alt, caption.table, caption.formula, caption.legend,
        more=caption.more,
    )  # fmt: skip


def escaped(text: str) -> str:
    """Escape untrusted text for markdown: its markup has no effect, and no address becomes a link."""
    unlinked = re.sub(r"(?i)(:(?=//)|@|www(?=\.))", "\\1\u2060", text)  # a bare address is a link in spite of escapes
    return _escaped(unlinked)


def as_label(text: str) -> str:
    """Escape text for a widget's label, but only what would have an effect: a screen reader says each backslash."""
    return re.sub(
        r"([\\*`$~<\[]|(?<![^\W_])_|_(?![^\W_])|:(?=[a-z+-])|-(?=[->])|>(?==)|^[-+#>]|(?<=^\d)[.)])", r"\\\1", text
    )


def quoted(label: str) -> str:
    """Escape a token's label for markdown and put it in quotation marks."""
    return in_quotes(_escaped(label))


def _escaped(text: str) -> str:
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)
