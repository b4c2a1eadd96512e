"""Read the numbers of a question from its text alone."""

import re

SEEDS = range(100)
PLAIN = str.maketrans({"−": "-", "\u2009": " "})


def numbers(pattern: str, text: str) -> list[float]:
    """Return the groups of a pattern as numbers; `#` stands for a number."""
    number = r"(-?\d[\d,]*(?:\.\d+)?)"
    found = re.search(pattern.replace("#", number), text.translate(PLAIN))
    assert found, f"{pattern} is not in: {text}"
    return [float(each.replace(",", "")) for each in found.groups()]
