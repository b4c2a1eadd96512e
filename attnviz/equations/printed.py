"""Printed equations: an expression with its result, in TeX or plain text, and the legend of its symbols."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from attnviz.equations.expressions import Expression, Negation, Style
from attnviz.equations.numbers import number_text


class Steps(Enum):
    """The sides that an equation shows besides its result."""

    BOTH = "symbols = numbers = result"
    NUMBERS = "numbers = result"
    SYMBOLS = "symbols = result"


@dataclass(frozen=True)
class Equation:
    """An expression with its result.

    name, name_tex: symbol of the result, written before the first equals sign, such as "s(21, 5)".
    unit: of the result. digits, scientific: format of the result, as for a `Value`.
    also: the result in another form, such as "30 KiB", rounded by the caller from `value`.
    meaning: of the name, for the legend.
    computed: the model's float32 result, printed instead of the expression's value so that a page shows the same number
    everywhere. ValueError if the two differ.
    """

    right: Expression
    name: str = ""
    name_tex: str = ""
    unit: str = ""
    digits: int | None = None
    scientific: bool = False
    steps: Steps = Steps.BOTH
    also: str = ""
    computed: float | None = None
    meaning: str = ""

    def __post_init__(self) -> None:
        if self.computed is not None and not math.isclose(self.right.value, self.computed, rel_tol=1e-3, abs_tol=1e-4):
            raise ValueError(f"{self.name or 'the expression'} is {self.right.value}, not {self.computed}")

    @property
    def value(self) -> float:
        return self.right.value if self.computed is None else self.computed

    def sides(self, tex: bool) -> list[str]:
        """Return the sides of the equation, without duplicates."""
        written = [self.name_tex or self.name] if tex else [self.name]
        if self.steps is not Steps.NUMBERS:
            written.append(self.right.write(Style(tex, symbols=True)))
        if self.steps is not Steps.SYMBOLS:
            written.append(self.right.write(Style(tex, symbols=False)))
        written.append(self._result(tex))
        if self.also:
            written.append(tex_text(self.also) if tex else self.also)
        return [side for side in dict.fromkeys(written) if side]

    def tex(self) -> str:
        """Format as LaTeX on one line."""
        return " = ".join(self.sides(tex=True))

    def tex_lines(self) -> str:
        """Format as LaTeX with a line break at each equals sign, for narrow screens."""
        return tex_lines(self)

    def text(self) -> str:
        """Format as plain text."""
        return " = ".join(self.sides(tex=False))

    def legend(self) -> dict[str, tuple[str, str]]:
        """Return the legend of its symbols, {symbol: (meaning, value)}: {"L": ("layers", "4")}."""
        numbers = Style(tex=False, symbols=False)
        defined = {self.name: (self.meaning, self._result(tex=False))} if self.meaning else {}
        return defined | {
            v.symbol: (v.meaning, v.write(numbers)) for v in self.right.values() if v.symbol and v.meaning
        }

    def _result(self, tex: bool) -> str:
        written = number_text(self.value, tex, self.digits, self.scientific)
        if not self.unit:
            return written
        return written + tex_text(f" {self.unit}") if tex else f"{written} {self.unit}"


@dataclass(frozen=True)
class MatrixProduct:
    """Matrix-vector product: as a whole with symbols, and row by row with numbers.

    names: of the result's entries, each as (plain text, TeX, meaning).
    """

    names: tuple[tuple[str, str, str], ...]
    matrix: tuple[tuple[Expression, ...], ...]
    vector: tuple[Expression, ...]
    digits: int | None = None

    def tex(self) -> str:
        """Format with symbols, as LaTeX on one line."""
        style = Style(tex=True, symbols=True)
        result = [[name] for _, name, _ in self.names]
        matrix = [[entry.write(style) for entry in row] for row in self.matrix]
        vector = [[entry.write(style)] for entry in self.vector]
        return f"{_grid(result)} = {_grid(matrix)} {_grid(vector)}"

    def rows(self) -> list[Equation]:
        """Return one equation per entry of the result."""
        return [
            Equation(_row(row, self.vector), name, tex, digits=self.digits, meaning=meaning)
            for (name, tex, meaning), row in zip(self.names, self.matrix, strict=True)
        ]


def _row(row: Sequence[Expression], vector: Sequence[Expression]) -> Expression:
    """Return one row times the vector; negated entries are subtracted."""
    first, *others = zip(row, vector, strict=True)
    added = first[1] * first[0]
    for entry, x in others:
        added = added - x * entry.inside if isinstance(entry, Negation) else added + x * entry
    return added


def _grid(rows: Sequence[Sequence[str]]) -> str:
    return r"\begin{pmatrix} " + r" \\ ".join(" & ".join(row) for row in rows) + r" \end{pmatrix}"


def tex_text(words: str) -> str:
    """Format words for use in a formula, with TeX's special characters escaped."""
    escaped = re.sub(r"([%&#$_{}])", r"\\\1", words)
    return rf"\text{{{escaped}}}"


def tex_lines(*equations: Equation | MatrixProduct) -> str:
    """Format equations as lines of LaTeX, one per equals sign; the page wraps each that is too long."""
    lines = []
    for equation in equations:
        if isinstance(equation, MatrixProduct):
            lines.append(equation.tex())
            continue
        first, *rest = equation.sides(tex=True)
        if rest and (equation.name_tex or equation.name):  # the name stays on the line of its definition
            first = f"{first} = {rest.pop(0)}"
        lines += [first, *(f"= {side}" for side in rest)]
    return "\n".join(lines)
