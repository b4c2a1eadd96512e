"""Expression trees: values with symbols, joined by operators and functions; each writes itself and has a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce

from attnviz.equations.numbers import number_text

ADDED, DIVIDED, MULTIPLIED, POWER, ATOM = 1, 2, 3, 4, 5  # operator precedence, which decides brackets


@dataclass(frozen=True)
class Style:
    """Output format of an expression: TeX or plain text, symbols or numbers.

    in_fraction: it is part of a fraction with a bar, in which others are written with a slash.
    """

    tex: bool
    symbols: bool
    in_fraction: bool = False

    @property
    def bars(self) -> bool:
        """Whether a quotient is written with a bar."""
        return self.tex and not self.in_fraction


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
        return " = ".join(self._sides(tex=False))

    def tex(self) -> str:
        """Format as LaTeX: symbols = numbers = result."""
        return " = ".join(self._sides(tex=True))

    def _sides(self, tex: bool) -> list[str]:
        written = [self.write(Style(tex, symbols)) for symbols in (True, False)]
        return list(dict.fromkeys([*written, number_text(self.value, tex)]))

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
        return POWER if style.bars else DIVIDED

    def write(self, style: Style) -> str:
        if style.bars:
            inside = replace(style, in_fraction=True)
            return rf"\tfrac{{{self.above.write(inside)}}}{{{self.below.write(inside)}}}"
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
    "ln": _Kind(math.log, r"\ln\left(…\right)", "ln(…)"),
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
