r"""Evaluator of printed equations, in TeX or plain text, independent of attnviz.equations.

    check("4·16·2·4·(24·16/8) = 30,720 B")  # ["4·16·2·4·(24·16/8) = 30,720 B: 24576 is not 30720"]

A printed decimal means the interval that rounds to it: 8.71 is 8.705 to 8.715, and likewise 1.23·10⁴; a whole number is
exact. Two sides of an equals sign agree if their intervals overlap. Sides with letters are skipped: in
`2·L = 2·4 = 8` only the second equals sign is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests import expressions
from tests.expressions import DEPTH, READINGS, UNITS, UNSCALED, Letters, Token, tokens_of
from tests.intervals import Interval, Unreadable

NOTHING = "nothing evaluated"  # returned by `check` for a text without an equation between numbers


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


# ---- whole texts


def value_of(text: str, tex: bool = False) -> Interval:
    """Return the possible values of one printed expression."""
    return expressions.value_of(tokens_of(text, tex))


def check(text: str, tex: bool | None = None) -> list[str]:
    """Return the wrong equations in a text, each with the values of its two sides.

    tex: the text is TeX; detected by default. [NOTHING] if the text has no equation between numbers.
    """
    found = list(_compared(text, tex))
    problems = [f"{text}: {problem}" for each in found for problem in each.problems]
    return problems or ([] if any(each.n_compared for each in found) else [NOTHING])


def results(formula: str, tex: bool | None = None) -> list[float]:
    """Return the result of each equation, whole numbers as such; assert that all its sides are equal."""
    found = list(_compared(formula, tex))
    assert [problem for each in found for problem in each.problems] == [], formula
    ends = [each.last.value for each in found if each.last and each.n_equal > 1]
    return [int(end.low) if end.low == end.high == int(end.low) else float(end.low + end.high) / 2 for end in ends]


def _compared(text: str, tex: bool | None) -> Iterator[Compared]:
    tex = bool(re.search(r"\\[A-Za-z]{2,}|[\^_]\{|\{,\}", text)) if tex is None else tex
    for row in _rows(text, tex):
        yield from map(_compare, _chains(tokens_of(row, tex)))


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


class Compared(NamedTuple):
    """What an equation came to: its sides, equals signs between numbers, the errors among them, the last number."""

    n_equal: int
    n_compared: int
    problems: list[str]
    last: Side | None


def _compare(chain: list[list[Token]]) -> Compared:
    compared, problems, before = 0, [], None
    for side in chain:
        equals = side[0].text if side and side[0].kind == "equals" else ""
        tokens = side[1:] if equals else side
        try:
            side = Side(tokens, expressions.value_of(tokens))
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
    return Compared(len(chain), compared, problems, before)


def _equal(left: Side, right: Side, rounded: bool) -> bool:
    """Check whether some interpretation of the units makes both sides equal."""
    if not rounded and left.value.overlaps(right.value):
        return True
    has_units = [any(t.kind == "word" and t.text in UNITS for t in side.tokens) for side in (left, right)]
    if not rounded and not any(has_units):
        return False
    readings = [*READINGS, UNSCALED] if has_units.count(True) == 1 else READINGS
    return any(
        expressions.value_of(left.tokens, units, rounded).overlaps(expressions.value_of(right.tokens, units, rounded))
        for units in readings
    )
