"""Tokens of printed expressions, in TeX or plain text, and the value of one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from tests.intervals import FUNCTIONS, Interval, Unreadable, around

# Meaning of a unit after a number. K and M have two meanings, and B is byte or billion: the one that fits is used.
BINARY = {f"{letter}iB": 1024**power for power, letter in enumerate("KMGTPE", 1)}
DECIMAL = {f"{letter}B": 1000**power for power, letter in enumerate("kMGTPE", 1)}
FIXED = BINARY | DECIMAL | {"%": Fraction(1, 100), "ms": Fraction(1, 1000), "µs": Fraction(1, 10**6)}
READINGS = (
    FIXED | {"B": 1, "k": 1000, "K": 1024, "M": 1024**2},
    FIXED | {"B": 10**9, "k": 1000, "K": 1000, "M": 10**6, "T": 10**12},
)
UNITS = {"B", "s", "°", *READINGS[0], *READINGS[1]}
UNSCALED = dict.fromkeys(UNITS, 1)  # ignores units, for an equation with a unit on only one side


class Letters(Exception):
    """The expression contains letters, so it has no value."""


# ---- tokens


class Token(NamedTuple):
    """kind: number, word (a unit or prose), letter (TeX), function, open, close, operator, fraction, end, equals."""

    kind: str
    text: str
    apart: bool = False  # preceded by whitespace


NUMBER = r"\d{1,3}(?:(?:,|\{,\})\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?"
LOW = "₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"
SPLIT = re.compile(
    rf"(?P<number>(?:{NUMBER})(?:e[-+]?\d+)?)|\\text\{{(?P<text>[^{{}}]*)\}}|\\(?:mathrm|operatorname)\{{(?P<name>[^{{}}]*)\}}"
    rf"|\\(?P<command>[A-Za-z]+|[^A-Za-z])|(?P<high>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<low>[{LOW}]+(?:,[{LOW}]+)*)"
    r"|(?P<word>[^\W\d_]+\d*)|(?P<space>[\s\u2060\u2068\u2069~&]+)|(?P<sign>.)",
    re.DOTALL,
)
SIGNS = {"+": "+", "-": "-", "−": "-", "·": "*", "×": "*", "⋅": "*", "*": "*", "/": "/", "÷": "/", "^": "^"}
COMMANDS = {"cdot": "·", "times": "×", "div": "÷", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "%": "%",
            "approx": "≈", "lvert": "|", "rvert": "|", "{": "(", "}": ")"}  # fmt: skip
OPEN, CLOSE = "([{⌊⌈", ")]}⌋⌉"
DEPTH = {"open": 1, "close": -1}
INVISIBLE = {"left", "right", "big", "bigl", "bigr", "Big", "Bigl", "Bigr", "textstyle", "displaystyle",
             "limits", ",", "!", ";", ":", " "}  # fmt: skip


def tokens_of(text: str, tex: bool = False) -> list[Token]:
    """Return a text's tokens, all on the line: without subscripts and underbraces."""
    return _on_the_line(list(_all_tokens(text, tex)))


def _all_tokens(text: str, tex: bool) -> Iterator[Token]:
    apart = True
    for match in SPLIT.finditer(text):
        kind = match.lastgroup
        if kind == "space":
            apart = True
            continue
        found = match[kind]
        ends = found == "." and not text[match.end() : match.end() + 1].strip()  # or it is the dot in "a.b"
        yield from _found(kind, found, tex, apart, ends)
        apart = False


@cache
def _found(kind: str, found: str, tex: bool, apart: bool, ends: bool) -> list[Token]:
    """Return the tokens of a match; cached, since the same ones are in thousands of texts."""
    return [token._replace(apart=token.apart or apart) for token in _made(kind, found, tex, ends)]


def _made(kind: str, found: str, tex: bool, ends: bool) -> Iterator[Token]:
    if kind == "number":
        yield Token("number", found.replace("{,}", "").replace(",", ""))
    elif kind == "text":
        yield from _all_tokens(found, tex=False)
    elif kind == "name":
        yield Token("function" if found in FUNCTIONS else "letter", found)
    elif kind == "high":
        yield Token("operator", "^")
        yield Token("power", found.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    elif kind == "word" and (found in FUNCTIONS or found == "π"):
        yield Token("function" if found in FUNCTIONS else "number", found)
    elif kind == "word":
        yield Token("letter" if tex else "word", found)
    elif kind == "command":
        yield from _command(found)
    elif kind == "sign":
        yield Token("letter", found) if found == "." and not ends else _sign(found)


def _command(name: str) -> Iterator[Token]:
    if name in INVISIBLE:
        return
    if name in COMMANDS:
        yield _sign(COMMANDS[name])
    elif name in ("frac", "tfrac", "dfrac"):
        yield Token("fraction", name)
    elif name == "underbrace":
        yield Token("brace", name)
    elif name == "sqrt":
        yield Token("function", "√")
    elif name == "pi":
        yield Token("number", "π")
    elif name in FUNCTIONS:
        yield Token("function", name)
    elif name in ("quad", "qquad", "\\"):
        yield Token("end", name)
    else:
        yield Token("letter", name)


def _sign(sign: str) -> Token:
    if sign in SIGNS:
        return Token("operator", SIGNS[sign])
    if sign in OPEN or sign in CLOSE:
        return Token("open" if sign in OPEN else "close", sign)
    if sign in "%°":
        return Token("word", sign)
    if sign == "√":
        return Token("function", sign)
    if sign in "=≈":
        return Token("equals", sign)
    if sign in ".,;:!?<>≤≥→–—“”\"'…":
        return Token("end", sign)
    return Token(sign if sign in "_|" else "letter", sign)


def _on_the_line(tokens: list[Token]) -> list[Token]:
    """Remove TeX subscripts, `a_{21,5}`, and replace an underbrace by its content, without brackets."""
    kept, i = [], 0
    while i < len(tokens):
        if tokens[i].kind not in ("brace", "_"):
            kept.append(tokens[i])
            i += 1
            continue
        end = _group_end(tokens, i + 1)
        if tokens[i].kind == "brace":
            kept += _on_the_line(tokens[i + 2 : end - 1])
        i = end
    return kept


def _group_end(tokens: list[Token], start: int) -> int:
    """Return the end of the group, or single token, that begins at `start`."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += DEPTH.get(tokens[i].kind, 0)
        if depth <= 0:
            return i + 1
    return len(tokens)


# ---- the value of an expression


def value_of(tokens: list[Token], units: dict = READINGS[0], rounded: bool = False) -> Interval:
    """Return the possible values of an expression. units: value of each unit. rounded: so are whole numbers."""
    return _Reader(tokens, units, rounded).value()


class _Reader:
    """Recursive-descent parser of one expression."""

    def __init__(self, tokens: list[Token], units: dict, rounded: bool) -> None:
        self.tokens, self.units, self.rounded, self.at = tokens, units, rounded, 0

    def value(self) -> Interval:
        if any(self._is_letter(i, token) for i, token in enumerate(self.tokens)):
            raise Letters
        value = self._sum()
        if self.at < len(self.tokens):
            raise Unreadable(f"“{self.tokens[self.at].text}” follows an expression")
        return value

    def _is_letter(self, i: int, token: Token) -> bool:
        """Check whether a token is a symbol: e is a number, and a word after a number is a unit."""
        if token.kind == "letter":
            return token.text != "e"
        while i > 0 and self.tokens[i].kind == "word":
            i -= 1
        return token.kind == "word" and self.tokens[i].kind not in ("number", "close", "power")

    def _next(self, *kinds: str, text: str | None = None) -> Token | None:
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.kind in kinds and text in (None, token.text):
                self.at += 1
                return token
        return None

    def _is_next(self, kind: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].kind == kind

    def _sum(self) -> Interval:
        value = -self._product() if self._next("operator", text="-") else self._product()
        while True:
            if self._next("operator", text="+"):
                value = value + self._product()
            elif self._next("operator", text="-"):
                value = value + -self._product()
            else:
                return value

    def _product(self) -> Interval:
        value = self._factor()
        while True:
            if self._next("operator", text="*"):
                value = value * self._factor()
            elif self._next("operator", text="/"):
                value = value / self._factor()
            elif self.at < len(self.tokens) and self.tokens[self.at].kind in ("number", "open", "function", "fraction"):
                value = value * self._factor()
            else:
                return value

    def _factor(self) -> Interval:
        first = self.tokens[self.at] if self.at < len(self.tokens) else None
        base = self._operand()
        if self._next("operator", text="^"):
            if first.kind == "fraction" or first.text in ("e", "√"):
                raise Unreadable("a power of what needs brackets")
            base = base ** self._exponent()
        return base * self._unit() if self._is_next("word") else base

    def _exponent(self) -> Interval:
        if power := self._next("power"):
            value = int(power.text)
            return Interval(value, value)
        if self._next("operator", text="-"):
            return -self._exponent()
        return self._operand()

    def _unit(self) -> Interval:
        """Return the value of the unit after an operand; words without a known unit count as 1."""
        first = self._next("word")
        while self._next("word") or (first and self._next_per()):
            pass
        worth = self.units.get(first.text, 1) if first else 1
        return Interval(worth, worth)

    def _next_per(self) -> bool:
        """Consume the "/s" of "GB/s" and return True, if it comes next."""
        after = self.tokens[self.at : self.at + 2]
        if [t.kind for t in after] == ["operator", "word"] and after[0].text == "/":
            self.at += 2
            return True
        return False

    def _operand(self) -> Interval:
        if number := self._next("number"):
            return self._number(number.text)
        if self._next("fraction"):
            return self._group() / self._group()
        if self._next("letter", text="e"):
            if not self._next("operator", text="^"):
                raise Letters
            return FUNCTIONS["exp"](self._exponent())
        if function := self._next("function"):
            if function.text == "√":  # also of ⌊…⌋, whose brackets are themselves a function
                return FUNCTIONS["√"](self._operand())
            return FUNCTIONS[function.text](*self._arguments())
        if self._next("|"):
            inside = self._sum()
            if not self._next("|"):
                raise Unreadable("“|” is not closed")
            return FUNCTIONS["|"](inside)
        if self._opens():
            return self._group()
        raise Unreadable("an operand is missing")

    def _opens(self) -> bool:
        return self._is_next("open")

    def _group(self) -> Interval:
        kind = self.tokens[self.at].text if self._opens() else ""
        inside, *more = self._arguments()
        if more:
            raise Letters  # a shape, (1, 8, 29, 24), is no number
        return FUNCTIONS[{"⌊": "floor", "⌈": "ceil"}[kind]](inside) if kind in ("⌊", "⌈") else inside

    def _arguments(self) -> list[Interval]:
        """Parse comma-separated arguments in brackets."""
        opened = self._next("open")
        if not opened:
            raise Unreadable("a bracket is missing")
        found = [self._sum()]
        while self._next("end", text=","):
            found.append(self._sum())
        closed = self._next("close")
        if not closed or OPEN.index(opened.text) != CLOSE.index(closed.text):
            raise Unreadable(f"“{opened.text}” is not closed")
        return found

    def _number(self, written: str) -> Interval:
        if written == "π":
            return around(math.pi)
        if written.isdecimal() and not self.rounded and not self._is_rounded(value := int(written)):
            return Interval(value, value)
        mantissa, _, exponent = written.partition("e")
        value, decimals = Fraction(written), len(mantissa.partition(".")[2])
        half = Fraction(10) ** (int(exponent or 0) - decimals) / 2
        return Interval(value - half, value + half)

    def _is_rounded(self, value: int) -> bool:
        """Check whether a whole number is rounded: a percentage, or one from 100 on with a unit like KiB or M."""
        unit = self.tokens[self.at].text if self.at < len(self.tokens) else ""
        return unit == "%" or (value >= 100 and UNSCALED.get(unit) is not None and self.units.get(unit, 1) > 1)
