"""Numbers read back from printed texts, so that tests compare numbers and leave the words free."""

from __future__ import annotations

import re

UNBROKEN = {"\u2060": None, "\u00a0": " "}  # what keeps a line from breaking within a name or a value
PLAIN = str.maketrans({"−": "-", "\u2009": " ", **UNBROKEN})
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+|·10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"
ALONE = re.compile(rf"(?<![\w.-])[-+]?{NUMBER}")  # not those of names: GQA-2, int4, W_3


def plain(text: str) -> str:
    """Return a text, or one that JSON has escaped, without what keeps its lines from breaking."""
    return text.translate(str.maketrans(UNBROKEN)).replace(r"\u2060", "").replace(r"\u00a0", " ")


def numbers_in(text: str) -> list[float]:
    """Return the numbers of a text in their order, without those of names and quoted tokens."""
    unquoted = re.sub(r"“[^”]*”", "", text.translate(PLAIN).replace("\\", "").replace("{,}", ","))
    return [value(found[0]) for found in ALONE.finditer(unquoted)]


def numbers_where(pattern: str, text: str) -> list[float]:
    """Return the numbers that stand for `#` in a pattern, which must be in the text."""
    found = re.search(pattern.replace("#", rf"((?<![\d.,])[-+]?{NUMBER})"), text.translate(PLAIN))
    assert found, f"{pattern} is not in: {text}"
    return [value(each) for each in found.groups()]


def value(printed: str) -> float:
    """Return the value of a printed number: 1,234, −0.5 or 3.2·10⁻⁵."""
    digits, _, power = printed.translate(PLAIN).replace(",", "").partition("·10")
    return float(f"{digits}e{power.translate(SUPERSCRIPTS)}" if power else digits)
