"""Read what people type as numbers: signs and digits of other scripts, separators, words before and after.

The app writes 1,234.5, so that reading comes first. Where a number has another one, as 5,692 may be 5.692, `readings`
returns both, and the answer decides whether it matters.
"""

from __future__ import annotations

import re
import unicodedata

MAX_CHARS = 200


class Unreadable(ValueError):
    """The text is not a valid answer. The message says why, and what to type instead."""


_SIGNS = str.maketrans(
    {"·": "*", "×": "*", "⋅": "*", "∙": "*", "•": "*", "∗": "*", "✕": "*", "✖": "*", "⨯": "*", "÷": "/", "∕": "/",
     "⁄": "/", "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "﹣": "-", "ˆ": "^", "π": " pi ", "’": "'", "、": ",",
     "。": ".", "٫": ".", "٬": ",", "⌊": "floor(", "⌋": ")", "⌈": "ceil(", "⌉": ")", "₂": "2",
     "¼": "(1/4)", "½": "(1/2)", "¾": "(3/4)", "⅓": "(1/3)", "⅔": "(2/3)", "⅛": "(1/8)", "⅜": "(3/8)", "⅝": "(5/8)",
     "⅞": "(7/8)"}
)  # fmt: skip
_BEFORE = re.compile(
    r"(?i)^(?:(?:(?:the |my )?(?:answer|result|value)|it|that)(?: is|'s)|(?:the |my )?(?:answer|result|value) ?:"
    r"|is\b|about\b|approx(?:imately|\.)?|around\b|roughly\b|circa\b|ca\.|[≈≃≅∼~=:])\s*"
)
_AFTER = re.compile(
    r"(?i)(?<=[\d).kMGTB]) ?(?:(?:kv|query|attention) )?(?:heads?|keys?|quer(?:y|ies)|tokens?|layers?|param(?:eter)?s?"
    r"|numbers?|entries|scores?|weights?|cells?|blocks?|slots?|sequences?|positions?|dimensions?|dims?|pairs?"
    r"|frequenc(?:y|ies)|times)$"
)
_POWERS = {"thousand": "1e3", "million": "1e6", "billion": "1e9", "bn": "1e9", "trillion": "1e12"}
_POWER = re.compile(rf"(?i)(?<=[\d)]) ?({'|'.join(_POWERS)})\b")
_SUFFIXED = re.compile(r"^(?:([-+]?\d[\d.,]*) ?([kKMGT])|([-+]?\d{1,3}(?:[.,]\d+)?) ?(B))$")
_THOUSANDS = {"K": 1, "M": 2, "G": 3, "B": 3, "T": 4}
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:[ '_]\d{3})+(?!\d)")
_SEPARATED = re.compile(r"\d+(?:[.,]\d+)+")


def plain(written: str) -> str:
    """Replace signs, digits and spaces of other scripts and fonts by those of ASCII. Superscripts stay."""
    if len(written) > MAX_CHARS:
        raise Unreadable(f"An answer can have at most {MAX_CHARS} characters; this one has {len(written):,}.")
    if found := re.search(r"\d[–—]\d", written):
        raise Unreadable(f"“{found[0]}” can be a range. Type one number; for a difference, type - or −.")
    return " ".join("".join(map(_ascii, written)).translate(_SIGNS).split())


def _ascii(sign: str) -> str:
    if "！" <= sign <= "～":  # full-width
        return chr(ord(sign) - 0xFEE0)
    match unicodedata.category(sign):
        case "Nd":
            return str(unicodedata.decimal(sign))
        case "Zs":
            return " "
        case "Cf":  # invisible: marks of the direction, zero-width spaces
            return ""
    return sign


def bare(written: str) -> str:
    """Remove words and signs before and after an answer that do not change its number: "about 42 keys." """
    text = plain(written).rstrip(" .,;")
    while found := _BEFORE.match(text):
        text = text[found.end() :]
    return text


def without_noun(text: str) -> str:
    """Remove what is counted: "42 keys"."""
    return _AFTER.sub("", text)


def in_digits(text: str) -> str:
    """Write out the word after a number: 151 million."""
    return _POWER.sub(lambda found: f"*{_POWERS[found[1].lower()]}", text)


def written_out(text: str, thousand: int = 1000) -> str:
    """Write out the suffix of a count, as in 151M, 1.41B or 32k tokens. thousand: 1024 for its other meaning.

    A number of four digits or more before B is in bytes.
    """
    match = _SUFFIXED.match(_AFTER.sub("", text))
    if not match:
        return text
    number, suffix = (each for each in match.groups() if each)
    return f"{number}*{thousand ** _THOUSANDS[suffix.upper()]}"


def readings(text: str) -> list[str]:
    """Return the text with its numbers as Python writes them: one text, or two if a number has two meanings."""
    if found := re.search(r"[a-z]\w*\((\d+),(\d+)\)", text):
        raise Unreadable(f"“{found[0]}” has two meanings. Type {found[1]}.{found[2]} with a point.")
    if found := re.search(r"(?<![\w.])0[xXbBoO]\w+", text):
        raise Unreadable(f"“{found[0]}” has two meanings. Type · or * between factors.")
    text = _GROUPED.sub(lambda m: re.sub(r"\D", "", m[0]), text)
    one = _SEPARATED.sub(lambda m: _numbers(m[0])[0], text)
    other = _SEPARATED.sub(lambda m: _numbers(m[0])[-1], text)
    unpadded = [re.sub(r"(?<![\w.])0+(?=\d)", "", each) for each in (one, other)]
    return unpadded if one != other else unpadded[:1]


def separated(text: str) -> str:
    """Return the first number of the text that has two meanings."""
    return next(found[0] for found in _SEPARATED.finditer(text) if len(_numbers(found[0])) > 1)


def _numbers(written: str) -> list[str]:
    """Return the meanings of digits with commas or points between them, the app's own first."""
    groups, whole = re.split("[.,]", written), re.sub("[.,]", "", written)
    separators = re.sub(r"\d", "", written)
    last, decimal = separators[-1], f"{''.join(groups[:-1])}.{groups[-1]}"
    if len(set(separators)) == 2:  # 1,234.5 or 1.234,5
        if separators.count(last) == 1 and _are_thousands(groups[:-1]):
            return [decimal]
    elif len(groups) > 2:  # 1,048,576
        if _are_thousands(groups):
            return [whole]
    elif not _are_thousands(groups):  # 1,5 or 0,512
        return [decimal]
    else:
        return [whole, decimal] if last == "," else [decimal, whole]
    raise Unreadable(f"“{written[:40]}” is not one number. Type it without separators.")


def _are_thousands(groups: list[str]) -> bool:
    first, *rest = groups
    return 1 <= len(first) <= 3 and not first.startswith("0") and all(len(each) == 3 for each in rest)
