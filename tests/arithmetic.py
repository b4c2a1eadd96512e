r"""Evaluator of printed equations, in TeX or plain text, independent of attnviz.equations.

    check("4·16·2·4·(24·16/8) = 30,720 B")  # ["4·16·2·4·(24·16/8) = 30,720 B: 24576 is not 30720"]

A printed decimal means the interval that rounds to it: 8.71 is 8.705 to 8.715, and likewise 1.23·10⁴; a whole number is
exact. Two sides of an equals sign agree if their intervals overlap. Sides with letters are skipped: in
`2·L = 2·4 = 8` only the second equals sign is checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import NamedTuple

NOTHING = "nothing evaluated"  # returned by `check` for a text without an equation between numbers

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


class Unreadable(Exception):
    """The text is not an expression."""


# ---- intervals


ONE = Fraction(1)


class Interval(NamedTuple):  # with Token: a dataclass that cannot be changed takes several times as long to create
    """The interval of values that round to a printed number; whole ends are integers, which are faster."""

    low: Fraction | int
    high: Fraction | int

    def __add__(self, other: Interval) -> Interval:
        low = self.low + other.low
        return Interval(low, low if _is_exact(self) and _is_exact(other) else self.high + other.high)

    def __neg__(self) -> Interval:
        low = -self.high
        return Interval(low, low if _is_exact(self) else -self.low)

    def __mul__(self, other: Interval) -> Interval:
        if self.low >= 0 and other.low >= 0:
            low = self.low * other.low
            return Interval(low, low if _is_exact(self) and _is_exact(other) else self.high * other.high)
        return _hull(a * b for a in (self.low, self.high) for b in (other.low, other.high))

    def __truediv__(self, other: Interval) -> Interval:
        if other.low <= 0 <= other.high:
            raise Unreadable("division by zero")
        low = ONE / other.high
        return self * Interval(low, low if _is_exact(other) else ONE / other.low)

    def __pow__(self, other: Interval) -> Interval:
        exponent = other.low
        if other.low == other.high and exponent.denominator == 1:
            if exponent < 0:
                return Interval(1, 1) / self ** Interval(-exponent, -exponent)
            ends = [self.low**exponent.numerator, self.high**exponent.numerator]
            return _hull([*ends, 0] if self.low < 0 < self.high else ends)
        if self.low <= 0:
            raise Unreadable("a broken power of what may be negative")
        return _hull(_rounded(math.pow(a, b)) for a in _ends(self) for b in _ends(other))

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        low, high = float(self.low), float(self.high)
        return f"{low:.15g}" if low == high else f"{low:.6g} to {high:.6g}"


def _is_exact(interval: Interval) -> bool:
    """Check whether both ends are the same object: to compare them would take longer than it saves."""
    return interval.low is interval.high


def _hull(numbers) -> Interval:
    ends = [end for n in numbers for end in ((n.low, n.high) if isinstance(n, Interval) else (n,))]
    return Interval(min(ends), max(ends))


def _ends(interval: Interval) -> tuple[float, float]:
    return float(interval.low), float(interval.high)


def _rounded(x: float) -> Interval:
    """Return the interval of a computed float, exact to 12 digits."""
    value = Fraction(x)
    room = abs(value) / 10**12
    return Interval(value - room, value + room)


def _rising(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    return lambda x: _hull(_rounded(function(end)) for end in _ends(x))


def _whole(function: Callable[[Fraction], int]) -> Callable[[Interval], Interval]:
    return lambda x: Interval(function(x.low), function(x.high))


def _wave(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    def over(x: Interval) -> Interval:
        low, high = _ends(x)
        if high - low > 7:
            return Interval(-1, 1)
        quarters = range(math.ceil(low / (math.pi / 2)), math.floor(high / (math.pi / 2)) + 1)
        return _hull(_rounded(function(at)) for at in (low, high, *(k * math.pi / 2 for k in quarters)))

    return over


FUNCTIONS: dict[str, Callable[..., Interval]] = {
    "√": _rising(math.sqrt),
    "exp": _rising(math.exp),
    "erf": _rising(math.erf),
    "log": _rising(math.log),
    "ln": _rising(math.log),
    "log2": _rising(math.log2),
    "cos": _wave(math.cos),
    "sin": _wave(math.sin),
    "tanh": _rising(math.tanh),
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "max": lambda *xs: Interval(max(x.low for x in xs), max(x.high for x in xs)),
    "min": lambda *xs: Interval(min(x.low for x in xs), min(x.high for x in xs)),
    "|": lambda x: FUNCTIONS["max"](x, -x),
}


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


def _tokens(text: str, tex: bool) -> Iterator[Token]:
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
        yield from _tokens(found, tex=False)
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


# ---- finding equations in a text


def _chains(tokens: list[Token]) -> Iterator[list[list[Token]]]:
    """Return the chains `a = b = c` in a text, as lists of sides, without the prose around them."""
    segments, depth = [[]], 0
    for token in tokens:
        depth += DEPTH.get(token.kind, 0)
        if token.kind == "equals" and depth <= 0:
            segments.append([token])
            depth = 0
        else:
            segments[-1].append(token)
    chain: list[list[Token]] = []
    for i, segment in enumerate(segments):
        inside = segment[1:] if i else segment
        if i:
            run = _run(inside)
            chain.append([segment[0], *run])
            if len(run) == len(inside):
                continue
            yield chain
        chain = [_run_to_the_end(inside)]
    yield chain


def _run(tokens: list[Token]) -> list[Token]:
    """Return the expression at the start of the tokens."""
    depth, previous = 0, None
    for i, token in enumerate(tokens):
        before = previous.kind if previous else "operator"
        operand = before not in ("operator", "open", "function", "fraction", "end", "|")
        if depth == 0:
            if token.kind in ("end", "close"):
                return tokens[:i]
            if token.kind == "word" and operand and token.text not in UNITS:
                phrase = before != "word" and all(t.kind == "word" for t in tokens[i:]) and len(tokens[-1].text) > 1
                return tokens if phrase else tokens[:i]  # "27 weights" is one side, "27 and x" is not
            if before == "word" and previous.text not in UNITS and token.kind not in ("operator", "close"):
                return tokens[:i]
            if before == "word" and token.kind in ("number", "letter", "function", "word"):
                return tokens[:i]
        depth += DEPTH.get(token.kind, 0)
        previous = token
    return tokens


def _run_to_the_end(tokens: list[Token]) -> list[Token]:
    """Return the longest expression at the end of the tokens."""
    for i, token in enumerate(tokens):
        begins = i == 0 or token.apart or tokens[i - 1].kind in ("end", "open")
        if begins and len(_run(tokens[i:])) == len(tokens) - i:
            return tokens[i:]
    return []


# ---- the value of a side


class _Reader:
    """Recursive-descent parser of one side. units: value of each unit. rounded: treat whole numbers as rounded."""

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
            return _rounded(math.pi)
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


# ---- whole texts


def value_of(text: str, tex: bool = False) -> Interval:
    """Return the possible values of one printed expression."""
    return _value(_on_the_line(list(_tokens(text, tex))))


def check(text: str, tex: bool | None = None) -> list[str]:
    """Return the wrong equations in a text, each with the values of its two sides.

    tex: the text is TeX; detected by default. [NOTHING] if the text has no equation between numbers.
    """
    tex = bool(re.search(r"\\[A-Za-z]{2,}|[\^_]\{|\{,\}", text)) if tex is None else tex
    problems, n_compared = [], 0
    for row in _rows(text, tex):
        for chain in _chains(_on_the_line(list(_tokens(row, tex)))):
            compared, found = _compare(chain)
            n_compared += compared
            problems += [f"{text}: {problem}" for problem in found]
    return problems or ([] if n_compared else [NOTHING])


def _rows(text: str, tex: bool) -> list[str]:
    """Split into lines; in TeX, join lines that continue with an equals sign or another operator."""
    if not tex:
        return re.sub(r"\\([!-/:-@\[-`{-~])|\*\*", r"\1", text).splitlines()  # without markdown's escapes and bold
    rows: list[str] = []
    for row in re.split(r"\\\\(?:\[[^\]]*\])?|\n(?:\$\$\n)*", re.sub(r"\\(?:begin|end)\{[a-z]+\}", "", text)):
        goes_on = re.match(r"[&\s]*(?:\\quad\s*)?(?:=|\+|-|\\cdot|\\approx)", row)
        if goes_on and rows:
            rows[-1] += row
        else:
            rows.append(row)
    return rows


class Side(NamedTuple):
    """A side of an equation, and its value where B is a byte."""

    tokens: list[Token]
    value: Interval


def _compare(chain: list[list[Token]]) -> tuple[int, list[str]]:
    """Return how many equals signs have numbers on both sides, and the errors among them."""
    compared, problems, before = 0, [], None
    for side in chain:
        equals = side[0].text if side and side[0].kind == "equals" else ""
        tokens = side[1:] if equals else side
        try:
            side = Side(tokens, _value(tokens))
        except Letters:
            continue
        except Unreadable as problem:
            if tokens:
                problems.append(f"cannot be read: {problem}")
            continue
        if before is not None:
            compared += 1
            if not _equal(before, side, rounded=equals == "≈"):
                problems.append(f"{before.value} is not {side.value}")
        before = side
    return compared, problems


def _equal(left: Side, right: Side, rounded: bool) -> bool:
    """Check whether some interpretation of the units makes both sides equal."""
    if not rounded and left.value.overlaps(right.value):
        return True
    has_units = [any(t.kind == "word" and t.text in UNITS for t in side.tokens) for side in (left, right)]
    if not rounded and not any(has_units):
        return False
    readings = [*READINGS, UNSCALED] if has_units.count(True) == 1 else READINGS
    return any(
        _Reader(left.tokens, units, rounded).value().overlaps(_Reader(right.tokens, units, rounded).value())
        for units in readings
    )


def _value(tokens: list[Token]) -> Interval:
    return _Reader(tokens, READINGS[0], False).value()
