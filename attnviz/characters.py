"""Characters as a reader sees them (grapheme clusters), the tokens that form one, and what their bytes can become.

A byte-level tokenizer splits a rare character into its UTF-8 bytes: 床 is three tokens, a family emoji can be 25.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tokenizers.pre_tokenizers import Split

# invisible characters in the categories of letters, symbols and marks: fillers, the joiner, variation selectors
BLANKS = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0") | frozenset(map(chr, range(0xFE00, 0xFE10)))
SURROGATE = re.compile("[\ud800-\udfff]")  # no character; a browser can send one
RAW_BYTE = re.compile("[\udc80-\udcff]")  # as errors="surrogateescape" decodes a byte without its character
PART = re.compile(r"(?P<character>.+) (?P<part>(?P<number>\d+)/\d+)", re.DOTALL)  # the label of one of several tokens
N_EXAMPLES = 3  # of the characters that a byte can begin
BIG5_LEVEL_1 = b"\xa4\x40"  # the first ideograph; before it are symbols, and rare characters for units
IDEOGRAPHS = frozenset(map(chr, range(0x4E00, 0xA000)))
EMOJI = tuple(frozenset(map(chr, range(*block))) for block in ((0x1F300, 0x1F650), (0x1F900, 0x1FA00)))
BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")


class Span(NamedTuple):
    """The tokens from `start` to `stop` that together are whole characters, and their text."""

    start: int
    stop: int
    text: str


def graphemes(text: str) -> list[str]:
    """Split a text into the characters that a reader sees: "é" of two code points, a flag of two, a family of seven."""
    if text.isascii():
        return list(text)
    safe = SURROGATE.sub("\0", text)  # a control character, which like these joins no neighbour
    return [text[start:stop] for _, (start, stop) in _clusters().pre_tokenize_str(safe)]


@cache
def _clusters() -> Split:
    from tokenizers import Regex  # only texts that are not plain ASCII need it
    from tokenizers.pre_tokenizers import Split

    return Split(Regex(r"\r|\X"), "isolated")  # not "\r\n" as one: the two are tokens of their own


def spans(pieces: Sequence[bytes]) -> list[Span]:
    """Return which tokens, given as bytes, form one character; most tokens are one or more whole characters alone."""
    return _spans(pieces, graphemes(_decoded(pieces)))


def code_points(pieces: Sequence[bytes]) -> list[Span]:
    """Return which tokens form one code point: of "👩‍👩", each woman and the joiner between them."""
    return _spans(pieces, list(_decoded(pieces)))


def _decoded(pieces: Iterable[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "surrogateescape")  # byte E5 alone as U+DCE5


def _spans(pieces: Sequence[bytes], units: Sequence[str]) -> list[Span]:
    """Return the shortest runs of tokens that end where one of these units of their text ends."""
    sizes = accumulate((len(unit.encode("utf-8", "surrogateescape")) for unit in units), initial=0)
    units_before = {size: n for n, size in enumerate(sizes)}  # bytes -> units that end there
    spans, start, n = [], 0, 0
    for stop, size in enumerate(accumulate(map(len, pieces)), 1):
        if size in units_before:
            spans.append(Span(start, stop, "".join(units[n : units_before[size]])))
            start, n = stop, units_before[size]
    return spans


def whole(found: Sequence[Span], most: int) -> int:
    """Return how many tokens, at most `most`, end with a whole character; `most` if the first one is longer."""
    return max((span.stop for span in found if span.stop <= most), default=most)


def growing(pieces: Sequence[bytes], first: int = 0) -> list[Span]:
    """Return for each token from `first` the character that it ends in the text up to it: what a writer has so far.

    The third byte of 床 ends a span of three tokens; before it, each byte is a span of its own.
    """
    grown, start = [], 0  # start: of the last whole character, which later tokens may extend
    for stop in range(1, len(pieces) + 1):
        last = spans(pieces[start:stop])
        if stop > first:
            grown.append(Span(start + last[-1].start, stop, last[-1].text))
        complete = [span for span in last if not RAW_BYTE.search(span.text)]
        start += complete[-1].start if complete and complete[-1] == last[-1] else 0
    return grown


# ---- characters on screen


def axis_labels(labels: Sequence[str], at: Sequence[int]) -> list[str]:
    """Return the labels of the tokens that an axis shows: a character whose tokens are neighbours there stands once.

    "床 1/3", "床 2/3" and "床 3/3" become "床", "2/3" and "3/3".
    """
    shown, named = set(at), []
    for i in at:
        if not (part := PART.fullmatch(labels[i])):
            named.append(labels[i])
            continue
        first = part["number"] == "1"
        named.append(part["character" if first else "part"] if (i + 1 if first else i - 1) in shown else labels[i])
    return named


def printable(text: str) -> str:
    """Make invisible characters visible: spaces as "·", line ends as "⏎", control characters as control pictures.

    Bytes beside each other that complete no character stand together: "<0xE5BA>".
    """
    shown, base = [], False  # base: whether a combining mark has a character of this text to attach to
    for c in re.findall(f"{RAW_BYTE.pattern}+|.", text, re.DOTALL):
        mark = unicodedata.category(c[0]) in ("Mn", "Me") and c not in BLANKS
        shown.append(c if mark and base else printable_character(c))
        base = shown[-1] == c and not c.isspace()
    return "".join(shown)


def readable(text: str) -> str:
    """Return the text as it is read, with spaces, line ends and joined emoji; what else is invisible is written out."""
    return "".join(c if c in " \n\t" or _is_visible(c[0]) else printable(c) for c in graphemes(text))


def _is_visible(c: str) -> bool:
    return printable_character(c) == c


def printable_character(c: str) -> str:
    """Return the character, or what is shown in its place; or of several bytes that complete no character."""
    named = {" ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽"}
    if c in named:
        return named[c]
    if RAW_BYTE.match(c):
        return f"<0x{c.encode('utf-8', 'surrogateescape').hex().upper()}>"
    if ord(c) < 32:
        return chr(0x2400 + ord(c))
    category = unicodedata.category(c)
    if c in BLANKS or category in ("Cc", "Cf", "Co", "Cn", "Cs", "Zs", "Zl", "Zp"):  # zero-width, direction …
        return f"U+{ord(c):04X}"
    return "◌" + c if category in ("Mn", "Me") else c  # a lone combining mark would attach to its neighbour


# ---- bytes of a character that is not complete


def unfinished(data: bytes) -> bytes:
    """Return the bytes at the end that begin a character and do not complete it; b"" if there are none."""
    for size in range(1, min(4, len(data) + 1)):
        if began(data[-size:]):
            return data[-size:]
    return b""


@cache
def began(data: bytes) -> range:
    """Return the code points that these bytes begin: U+5000 to U+5FFF for E5; an empty range for no character."""
    if not data or not 0xC2 <= data[0] <= 0xF4 or any(not 0x80 <= b <= 0xBF for b in data[1:]):
        return range(0)
    length = 2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4
    if len(data) >= length:
        return range(0)
    value = data[0] & (0x7F >> length)
    for b in data[1:]:
        value = value << 6 | b & 0x3F
    bits = 6 * (length - len(data))
    least = {2: 0x80, 3: 0x800, 4: 0x10000}[length]
    return range(max(value << bits, least), min((value + 1) << bits, 0x110000))


@cache
def examples(points: range) -> tuple[str, ...]:
    """Return a few characters of a range that a reader may know, or () if none of it can be shown.

    Of ideographs those that Big5 lists first, which are common and have few strokes; otherwise letters of GB 2312,
    symbols of Big5, emoji, or any letters, evenly spaced.
    """
    visible = [c for c in map(chr, points) if ord(c) < 0x20000 and c != "…" and _is_visible(c)]
    letters = [c for c in visible if c.isalpha()]
    listed = sorted((c for c in visible if _code(c, "big5")), key=lambda c: _code(c, "big5"))
    kinds = (
        [c for c in listed if c in IDEOGRAPHS and _code(c, "big5") >= BIG5_LEVEL_1][:N_EXAMPLES],
        [c for c in letters if _code(c, "gb2312")],
        listed[:N_EXAMPLES],
        [c for c in visible if any(c in block for block in EMOJI)],
        letters,
        visible,
    )
    chosen: Sequence[str] = next(filter(None, kinds), ())
    at = {(2 * i + 1) * len(chosen) // (2 * N_EXAMPLES): None for i in range(N_EXAMPLES)} if chosen else {}
    return tuple(chosen[i] for i in at)


def _code(c: str, charset: str) -> bytes:
    """Return the bytes of a character in an East Asian character set; b"" where it is not in it."""
    return c.encode(charset, "ignore")


# ---- tokens as their tokenizers write them


def labels_of(pieces: Sequence[bytes]) -> list[str]:
    """Return one printable label per token, given as bytes; explained at `Tokenizer.labels`."""
    labels = []
    for start, stop, text in code_points(pieces):
        shown, n = printable(text), stop - start
        labels += [shown] if n == 1 else [f"{shown} {i + 1}/{n}" for i in range(n)]
    return labels


def byte_level_bytes(piece: str) -> bytes:
    """Return the bytes of a byte-level token; as in `tokenizers`, one with other characters stands for itself."""
    table = _byte_of()
    if all(c in table for c in piece):
        return bytes(table[c] for c in piece)
    return piece.encode("utf-8", "replace")


@cache
def _byte_of() -> dict[str, int]:
    """Return GPT-2's table of the printable characters that represent bytes in a vocabulary: {character: byte}."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(rest)}


def sentencepiece_bytes(piece: str) -> bytes:
    """Return the bytes of a SentencePiece token: "▁the" is " the", "<0xE5>" is one byte."""
    if BYTE_PIECE.fullmatch(piece):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("▁", " ").encode("utf-8", "replace")


def marks(labels: Sequence[str]) -> str:
    """Explain the marks that occur in labels; "" if there are none."""
    meanings = {
        r"·": "“·” is a space",
        r"⏎": "“⏎” ends a line",
        r"⇥": "“⇥” is a tab",
        r" \d+/\d+$": "“2/3” is the second of three tokens that share a character",
        r"<0x[0-9A-F]{2}>$": "“<0xE5>” is one byte of a character",
        r"<0x[0-9A-F]{2}> (.)…$": r"“\g<0>” is a byte that can be a part of \1 or of other characters",
        r"<0x(?:[0-9A-F]{2}){2,3}> (.)…$": r"“\g<0>” are bytes that can be a part of \1 or of other characters",
    }
    firsts = (
        (next(filter(None, (re.search(mark, each) for each in labels)), None), said) for mark, said in meanings.items()
    )
    sentences = [first.expand(said) for first, said in firsts if first]
    return f"{', '.join(sentences)}." if sentences else ""
