"""What every figure function returns: the plotly figure and everything in words that belongs beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Drawing:
    """A figure, what it says, and the numbers behind it. Every number in the words is computed."""

    figure: go.Figure  # without a title: the page writes it
    title: str  # states what to look for
    note: str  # what one is looking at, one or two plain sentences (markdown)
    alt: str  # the finding in words, for those who cannot see the figure
    table: dict[str, list]  # column -> values, all of one length
    formula: str = ""  # LaTeX with the user's own numbers put in


def quoted(label: str) -> str:
    """A token's label for a sentence in markdown: in quotation marks, with nothing in it that markdown would act on."""
    return "“" + re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", label) + "”"
