"""Numbers read back from printed texts, so that tests compare numbers and leave the words free."""

from __future__ import annotations

import re

PLAIN = str.maketrans({"−": "-", "\u2009": " "})
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+|·10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"
ALONE = re.compile(rf"(?<![\w.-])[-+]?{NUMBER}")  # not those of names: GQA-2, int4, W_3


def numbers_in(text: str) -> list[float]:
    """Return the numbers of a text in their order, without those of names and quoted tokens."""
    plain = re.sub(r"“[^”]*”", "", text.translate(PLAIN).replace("\\", "").replace("{,}", ","))
    return [value(found[0]) for found in ALONE.finditer(plain)]


def numbers_where(pattern: str, text: str) -> list[float]:
    """Return the numbers that stand for `#` in a pattern, which must be in the text."""
    found = re.search(pattern.replace("#", rf"((?<![\d.,])[-+]?{NUMBER})"), text.translate(PLAIN))
    assert found, f"{pattern} is not in: {text}"
    return [value(each) for each in found.groups()]


def value(printed: str) -> float:
    """Return the value of a printed number: 1,234, −0.5 or 3.2·10⁻⁵."""
    digits, _, power = printed.translate(PLAIN).replace(",", "").partition("·10")
    return float(f"{digits}e{power.translate(SUPERSCRIPTS)}" if power else digits)
