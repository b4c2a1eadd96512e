"""The width of a chart's label, estimated before a browser draws it."""

from __future__ import annotations

import re
import unicodedata
from html import unescape

# Pixels of a character at 12 pixels in Streamlit's font, Source Sans, as Chromium measures it, rounded up
_BY_WIDTH = {
    3.2: " ',.:;Iijl|·",
    4.2: "!()-/[\\]frt{}",
    5.9: '"*?JLYcksvxyz“”',
    8.0: "ABCDGHKNOPQRU&",
    10.6: "%@MWmw",
    11.4: "…",
}
_ASCII, _FULL_WIDTH, _OTHER = 6.7, 12.0, 7.5  # characters that are not listed
_WIDTHS = {c: width for width, characters in _BY_WIDTH.items() for c in characters}


def label_width(label: str) -> float:
    """Return the pixels that a label takes in a line; its markup takes none, and its entities count as characters."""
    return sum(map(_width, unescape(re.sub("<.*?>", "", label))))


def _width(c: str) -> float:
    if c.isascii():
        return _WIDTHS.get(c, _ASCII)
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):  # combining marks, isolates
        return 0.0
    if unicodedata.east_asian_width(c) in "WF":
        return _FULL_WIDTH
    return _WIDTHS.get(c, _OTHER)
