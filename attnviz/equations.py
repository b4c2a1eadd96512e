r"""Expressions and equations that format themselves: symbols, inserted numbers and result come from one object.

    L, S = Value(4, "L", "layers"), Value(128, "S", "tokens")
    Equation(2 * L * S, unit="B").text()  # "2 · L · S = 2 · 4 · 128 = 1,024 B", with thin spaces

No printed equation is typed by hand: an expression is built with + - * / from its values, and each form (TeX or plain
text, symbols or numbers) is rendered from the same tree. Standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import reduce

ADDED, DIVIDED, MULTIPLIED, POWER, ATOM = 1, 2, 3, 4, 5  # operator precedence, which decides brackets


@dataclass(frozen=True)
class Style:
    """Output format of an expression: TeX or plain text, symbols or numbers."""

    tex: bool
    symbols: bool


class Expression:
    """Base class of expression trees. `+ - * / **` build larger ones; plain numbers become `Value`s."""

    binding = ATOM

    @property
    def value(self) -> float:
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Expression, ...]:
        return ()

    def write(self, style: Style) -> str:
        raise NotImplementedError

    def within(self, style: Style, binding: int) -> str:
        """Write it as an operand of an expression with precedence `binding`, in brackets if needed."""
        written = self.write(style)
        if self.binding_in(style) >= binding:
            return written
        return rf"\left({written}\right)" if style.tex else f"({written})"

    def binding_in(self, style: Style) -> int:
        return self.binding

    def values(self) -> Iterator[Value]:
        """Iterate over the values in it, from left to right."""
        for part in self.parts:
            yield from part.values()

    def text(self) -> str:
        """Format as plain text: symbols = numbers = result."""
        return Equation(self).text()

    def tex(self) -> str:
        """Format as LaTeX: symbols = numbers = result."""
        return Equation(self).tex()

    @property
    def letters(self) -> dict[str, tuple[str, float]]:
        """The letters in it: {symbol: (meaning, value)}."""
        return {v.symbol: (v.meaning, v.number) for v in self.values() if v.symbol}

    def __add__(self, other: Expression | float) -> Expression:
        return Sum((self, expression(other)))

    def __radd__(self, other: float) -> Expression:
        return Sum((expression(other), self))

    def __sub__(self, other: Expression | float) -> Expression:
        return Difference(self, expression(other))

    def __rsub__(self, other: float) -> Expression:
        return Difference(expression(other), self)

    def __mul__(self, other: Expression | float) -> Expression:
        return Product((self, expression(other)))

    def __rmul__(self, other: float) -> Expression:
        return Product((expression(other), self))

    def __truediv__(self, other: Expression | float) -> Expression:
        return Quotient(self, expression(other))

    def __rtruediv__(self, other: float) -> Expression:
        return Quotient(expression(other), self)

    def __pow__(self, other: Expression | float) -> Expression:
        return Power(self, expression(other))

    def __neg__(self) -> Expression:
        return Negation(self)


def replaced(within: Expression, change: Callable[[Value], Value]) -> Expression:
    """Return an expression with each of its values replaced by `change(value)`."""
    if isinstance(within, Value):
        return change(within)
    new: dict[str, object] = {}
    for field in fields(within):  # type: ignore[arg-type]  # all kinds of expression are dataclasses
        part = getattr(within, field.name)
        if isinstance(part, Expression):
            new[field.name] = replaced(part, change)
        elif isinstance(part, tuple):
            new[field.name] = tuple(replaced(each, change) for each in part)
    return replace(within, **new)  # type: ignore[type-var]


def expression(value: Expression | float) -> Expression:
    """Convert a number to an expression; return an expression unchanged."""
    return value if isinstance(value, Expression) else Value(value)


@dataclass(frozen=True)
class Value(Expression):
    """A number with its symbol and the symbol's meaning.

    digits: decimals to print; None prints whole numbers without decimals and others to four significant digits. Numbers
    that are not whole have at least one decimal.
    scientific: 1.23·10⁶ with `digits` decimals (2 by default).
    latex: the symbol in TeX, if it differs from plain text.
    """

    number: float
    symbol: str = ""
    meaning: str = ""
    digits: int | None = None
    scientific: bool = False
    latex: str = ""

    @property
    def value(self) -> float:
        return self.number

    def primed(self, n: int) -> Value:
        """Return the same number under its symbol with n primes: D′ is the D of another kind of layer."""
        if not n:
            return self
        return replace(self, symbol=self.symbol + "′" * n, latex=(self.latex or self.symbol) + "'" * n)

    def binding_in(self, style: Style) -> int:
        if style.symbols and self.symbol:
            return ATOM
        if self.scientific:
            return MULTIPLIED if self.number >= 0 else ADDED
        return ATOM if self.number >= 0 else ADDED

    def write(self, style: Style) -> str:
        if style.symbols and self.symbol:
            return (self.latex or self.symbol) if style.tex else self.symbol
        return number_text(self.number, style.tex, self.digits, self.scientific)

    def values(self) -> Iterator[Value]:
        yield self


def number_text(number: float, tex: bool = False, digits: int | None = None, scientific: bool = False) -> str:
    """Format a number: with thousands separators, and a true minus sign in plain text."""
    if scientific:
        mantissa, exponent = f"{number:z.{2 if digits is None else max(1, digits)}e}".split("e")
        power = rf"\cdot 10^{{{int(exponent)}}}" if tex else f"·10{superscript(int(exponent))}"
        return (mantissa if tex else mantissa.replace("-", "−")) + power
    if not digits and float(number).is_integer():
        written = f"{int(number):,}"
    else:
        decimals = max(1, _decimals(number) if digits is None else digits)  # or it would be read as a whole number
        written = f"{number:z,.{decimals}f}"  # z: no minus sign before 0.00
    return written.replace(",", "{,}") if tex else written.replace("-", "−")


def _decimals(number: float) -> int:
    """Return the number of decimals for four significant digits."""
    return 3 - math.floor(math.log10(abs(number)))


def superscript(n: int) -> str:
    """Format a whole number as a superscript."""
    return str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


@dataclass(frozen=True)
class Sum(Expression):
    """Sum of terms; a negative number is written as a subtraction."""

    terms: tuple[Expression, ...]
    binding = ADDED

    @property
    def value(self) -> float:
        return sum(term.value for term in self.terms)

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.terms

    def write(self, style: Style) -> str:
        written, plain = self.terms[0].write(style), replace(style, tex=False)
        for term in self.terms[1:]:
            if not term.write(plain).startswith("−"):
                written += f" + {term.write(style)}"
            elif isinstance(term, Value):
                written += f" - {term.write(style)[1:]}" if style.tex else f" − {term.write(style)[1:]}"
            else:
                written += f" + {term.within(style, DIVIDED)}"
        return written


def total(terms: Sequence[Expression]) -> Expression:
    """Return the sum of one or more expressions."""
    return Sum(tuple(terms)) if len(terms) > 1 else terms[0]


@dataclass(frozen=True)
class Difference(Expression):
    """Difference of two expressions."""

    left: Expression
    right: Expression
    binding = ADDED

    @property
    def value(self) -> float:
        return self.left.value - self.right.value

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.left, self.right

    def write(self, style: Style) -> str:
        minus = "-" if style.tex else "−"
        return f"{self.left.write(style)} {minus} {self.right.within(style, DIVIDED)}"


@dataclass(frozen=True)
class Negation(Expression):
    """Negated expression."""

    inside: Expression
    binding = ADDED

    @property
    def value(self) -> float:
        return -self.inside.value

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.inside,)

    def write(self, style: Style) -> str:
        return ("-" if style.tex else "−") + self.inside.within(style, MULTIPLIED)


@dataclass(frozen=True)
class Product(Expression):
    """Product of factors."""

    factors: tuple[Expression, ...]
    binding = MULTIPLIED

    def __mul__(self, other: Expression | float) -> Expression:
        return Product((*self.factors, expression(other)))

    @property
    def value(self) -> float:
        return reduce(lambda a, b: a * b, (factor.value for factor in self.factors))

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.factors

    def write(self, style: Style) -> str:
        sign = (
            r"\cdot " if style.tex else "\u2009·\u2009"
        )  # between thin spaces: beside a digit a dot can hardly be seen
        return sign.join(factor.within(style, MULTIPLIED) for factor in self.factors)


@dataclass(frozen=True)
class Quotient(Expression):
    """Quotient of two expressions."""

    above: Expression
    below: Expression

    @property
    def value(self) -> float:
        above, below = self.above.value, self.below.value
        whole = isinstance(above, int) and isinstance(below, int) and above % below == 0
        return above // below if whole else above / below  # large whole numbers stay exact

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.above, self.below

    def binding_in(self, style: Style) -> int:
        return POWER if style.tex else DIVIDED

    def write(self, style: Style) -> str:
        if style.tex:
            return rf"\tfrac{{{self.above.write(style)}}}{{{self.below.write(style)}}}"
        return f"{self.above.within(style, MULTIPLIED)} / {self.below.within(style, POWER)}"


@dataclass(frozen=True)
class Power(Expression):
    """A base and its exponent."""

    base: Expression
    exponent: Expression
    binding = POWER

    @property
    def value(self) -> float:
        return self.base.value**self.exponent.value

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.base, self.exponent

    def write(self, style: Style) -> str:
        base = self.base.within(style, ATOM)
        if style.tex:
            return f"{base}^{{{self.exponent.write(style)}}}"
        return f"{base}^{self.exponent.within(style, ATOM)}"


@dataclass(frozen=True)
class Function(Expression):
    """A named function of expressions: floor, ceil, max, min, √, exp, cos, sin, tanh."""

    name: str
    arguments: tuple[Expression, ...]

    @property
    def value(self) -> float:
        return _FUNCTIONS[self.name].compute(*(argument.value for argument in self.arguments))

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.arguments

    def binding_in(self, style: Style) -> int:
        return POWER if self.name == "√" or (style.tex and self.name == "exp") else ATOM

    def write(self, style: Style) -> str:
        inside = ", ".join(argument.write(style) for argument in self.arguments)
        if not style.tex and self.name == "√":
            return "√" + self.arguments[0].within(style, ATOM)
        kind = _FUNCTIONS[self.name]
        return (kind.tex if style.tex else kind.plain).replace("…", inside)


@dataclass(frozen=True)
class _Kind:
    compute: Callable[..., float]
    tex: str
    plain: str


_FUNCTIONS = {
    "floor": _Kind(math.floor, r"\left\lfloor …\right\rfloor", "⌊…⌋"),
    "ceil": _Kind(math.ceil, r"\left\lceil …\right\rceil", "⌈…⌉"),
    "max": _Kind(max, r"\max\left(…\right)", "max(…)"),
    "min": _Kind(min, r"\min\left(…\right)", "min(…)"),
    "√": _Kind(math.sqrt, r"\sqrt{…}", "√(…)"),
    "exp": _Kind(math.exp, r"e^{…}", "exp(…)"),
    "cos": _Kind(math.cos, r"\cos\left(…\right)", "cos(…)"),
    "sin": _Kind(math.sin, r"\sin\left(…\right)", "sin(…)"),
    "tanh": _Kind(math.tanh, r"\tanh\left(…\right)", "tanh(…)"),
}


def function(name: str, *arguments: Expression | float) -> Expression:
    """Build a `Function`: `function("floor", a / b)`. ValueError for a name that is not listed there."""
    if name not in _FUNCTIONS:
        raise ValueError(f"there is no function {name!r} in equations; known are {', '.join(_FUNCTIONS)}")
    return Function(name, tuple(map(expression, arguments)))


@dataclass(frozen=True)
class Labelled(Expression):
    """An expression with an underbrace label in TeX: 2·C·H·D over "W_q, W_o". Plain text omits the label.

    The underbrace does not replace brackets: precedence is that of the inner expression.
    """

    inside: Expression
    label: str  # TeX

    @property
    def value(self) -> float:
        return self.inside.value

    @property
    def parts(self) -> tuple[Expression, ...]:
        return (self.inside,)

    def binding_in(self, style: Style) -> int:
        return min(self.inside.binding_in(style), POWER) if style.tex else self.inside.binding_in(style)

    def write(self, style: Style) -> str:
        written = self.inside.write(style)
        return rf"\underbrace{{{written}}}_{{{self.label}}}" if style.tex else written


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
