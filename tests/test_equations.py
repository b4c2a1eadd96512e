"""What an equation prints is what it is worth, by an evaluator of its own.

Trees of expressions are invented by hypothesis, printed in TeX and in plain text, and read again by arithmetic.py.
"""

import math
import re
from dataclasses import fields, replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from attnviz.cost.units import bytes_text
from attnviz.equations import (
    Equation,
    Expression,
    Labelled,
    MatrixProduct,
    Steps,
    Style,
    Value,
    aligned,
    function,
    number_text,
    total,
)
from tests.arithmetic import Unreadable, check, value_of

LETTERS = "αβγδζηικλνξρτυφχψωΓΔΘΛΞΦΨΩ"  # none that is a function, a number or a unit
MOST = 10**6  # of any part of a tree: floats are compared with fractions
TEX, PLAIN = Style(tex=True, symbols=False), Style(tex=False, symbols=False)


def whole_numbers() -> st.SearchStrategy[Value]:
    return st.builds(Value, st.integers(-2000, 2000), st.sampled_from(LETTERS))


def any_numbers() -> st.SearchStrategy[Value]:
    """Numbers printed in all the ways there are."""
    numbers, letters = st.floats(-2000, 2000), st.sampled_from(LETTERS)
    rounded = st.builds(lambda n, s, digits: Value(n, s, digits=digits), numbers, letters, st.integers(0, 5))
    scientific = st.builds(lambda n, s: Value(n, s, scientific=True), numbers, letters)
    return st.one_of(whole_numbers(), st.builds(Value, numbers, letters), rounded, scientific)


def trees(leaves: st.SearchStrategy[Value]) -> st.SearchStrategy[Expression]:
    return st.recursive(leaves, _grown, max_leaves=6).filter(_is_moderate)


def _grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    inner = parts.filter(_is_moderate)
    small = st.builds(Value, st.integers(-3, 3))
    return st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(total),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, b: a / b, inner, inner),
        st.builds(lambda a, b: a**b, inner, small),
        st.builds(lambda a, b: function("max", a, b), inner, inner),
        st.builds(lambda a, b, c: function("min", a, b, c), inner, inner, inner),
        st.builds(
            lambda name, a: function(name, a), st.sampled_from(["floor", "ceil", "√", "exp", "cos", "sin"]), inner
        ),
        st.builds(lambda a: -a, inner),
        st.builds(lambda a: Labelled(a, r"\text{some, W}_q"), inner),
    )


def _is_moderate(tree: Expression) -> bool:
    """Whether it has a value, and no part of it one that floats would make nonsense of."""
    try:
        return all(_is_steady(part) for part in _parts(tree))
    except (ArithmeticError, ValueError, TypeError):
        return False


def _parts(tree: Expression):
    yield tree
    for part in tree.parts:
        yield from _parts(part)


def _is_steady(part: Expression) -> bool:
    value = part.value
    if isinstance(value, complex) or not (value == 0 or 1e-3 < abs(value) < MOST):
        return False
    name = getattr(part, "name", "")
    if name in ("floor", "ceil"):  # where rounding does not decide
        inside = part.parts[0].value
        return isinstance(inside, int) or abs(inside - round(inside)) > 1e-6
    return True


def holds(interval, value: float, room: float = 1e-6) -> bool:
    return float(interval.low) - room * (1 + abs(value)) <= value <= float(interval.high) + room * (1 + abs(value))


@given(trees(whole_numbers()))
@effort(max_examples=200, deadline=None)
def test_both_printed_forms_of_whole_numbers_are_worth_what_the_expression_is(tree):
    for style in (TEX, PLAIN):
        found = value_of(tree.write(style), style.tex)
        assert found.high - found.low <= Fraction(1, 10**6) * (1 + abs(found.high)), tree.write(style)
        assert holds(found, tree.value), f"{tree.write(style)}: {found}, not {tree.value}"


@pytest.mark.slow
@given(trees(any_numbers()))
@effort(max_examples=200, deadline=None)
def test_both_printed_forms_of_rounded_numbers_may_be_worth_what_the_expression_is(tree):
    for style in (TEX, PLAIN):
        try:
            found = value_of(tree.write(style), style.tex)
        except Unreadable as problem:
            assume("zero" not in str(problem) and "broken" not in str(problem))  # 0.00 may be printed of 0.004
            raise
        except ValueError:
            assume(False)  # the root of what may be negative when rounded
        assert holds(found, tree.value), f"{tree.write(style)}: {found}, not {tree.value}"


@pytest.mark.slow
@given(trees(whole_numbers()))
@effort(max_examples=200, deadline=None)
def test_letters_stand_where_their_numbers_do(tree):
    """Each value gets a letter of its own; the letters are then replaced by the numbers in brackets."""
    values = list(tree.values())
    assume(len(values) <= len(LETTERS))
    named = {letter: value.number for letter, value in zip(LETTERS, values, strict=False)}
    letters = iter(LETTERS)
    lettered = _renamed(tree, letters)
    for tex in (True, False):
        written = lettered.write(Style(tex, symbols=True))
        put_in = re.sub(f"[{LETTERS}]", lambda match: f"({named[match[0]]})", written)
        assert holds(value_of(put_in, tex), tree.value), written


def _renamed(tree: Expression, letters) -> Expression:
    """The same tree with the next letter at every value."""
    if isinstance(tree, Value):
        return Value(tree.number, next(letters))
    changed = {}
    for field in fields(tree):
        part = getattr(tree, field.name)
        if isinstance(part, Expression):
            changed[field.name] = _renamed(part, letters)
        elif isinstance(part, tuple):
            changed[field.name] = tuple(_renamed(each, letters) for each in part)
    return replace(tree, **changed)


@pytest.mark.slow
@given(
    trees(any_numbers()), st.sampled_from(list(Steps)), st.sampled_from([None, 0, 1, 3]), st.booleans(), st.booleans()
)
@effort(max_examples=200, deadline=None)
def test_every_equation_is_right_in_every_form(tree, steps, digits, scientific, named):
    names = ("f", r"f_{\text{x}}") if named else ("", "")
    equation = Equation(tree, *names, unit="B", digits=digits, scientific=scientific, steps=steps)
    for written in (equation.tex(), equation.text(), equation.tex_lines(), aligned(equation, Equation(Value(2) * 3))):
        try:
            problems = [problem for problem in check(written) if "zero" not in problem and "broken" not in problem]
        except ValueError:
            assume(False)
        assert [problem for problem in problems if "evaluated" not in problem] == []


@given(st.integers(0, 2**45))
def test_the_result_in_other_words_is_the_same_number(n):
    equation = Equation(Value(n, "n") * 3, unit="B", also=bytes_text(3 * n))
    assert check(equation.text()) == check(equation.tex()) == []


@pytest.mark.parametrize(
    ("number", "options", "plain", "tex"),
    [
        (0, {}, "0", "0"),
        (-5, {}, "−5", "-5"),
        (1_234_567, {}, "1,234,567", "1{,}234{,}567"),
        (2 / 3, {}, "0.6667", "0.6667"),
        (12_345.5, {}, "12,345.5", "12{,}345.5"),  # no whole number, so none is printed
        (198.69, {"digits": 0}, "198.7", "198.7"),
        (199.0, {"digits": 0}, "199", "199"),
        (999.99, {}, "1,000.0", "1{,}000.0"),
        (-0.0001, {"digits": 2}, "0.00", "0.00"),
        (8.7149, {"digits": 2}, "8.71", "8.71"),
        (7e13, {"scientific": True}, "7.00·10¹³", r"7.00\cdot 10^{13}"),
        (11, {"scientific": True, "digits": 0}, "1.1·10¹", r"1.1\cdot 10^{1}"),
        (-1.5e-7, {"scientific": True, "digits": 1}, "−1.5·10⁻⁷", r"-1.5\cdot 10^{-7}"),
    ],
)
def test_numbers_are_printed_so(number, options, plain, tex):
    assert number_text(number, **options) == plain
    assert number_text(number, tex=True, **options) == tex


@pytest.mark.parametrize(
    ("expression", "plain", "tex"),
    [
        (Value(2) * (Value(3) + 4), "2·(3 + 4)", r"2\cdot \left(3 + 4\right)"),
        (Value(2) - (Value(3) - 4), "2 − (3 − 4)", r"2 - \left(3 - 4\right)"),
        (Value(2) + (-3), "2 − 3", "2 - 3"),
        (Value(2) - (-3), "2 − (−3)", r"2 - \left(-3\right)"),
        (2 / (Value(3) * 4), "2 / (3·4)", r"\tfrac{2}{3\cdot 4}"),
        (Value(2) * (Value(3) / 4), "2·(3 / 4)", r"2\cdot \tfrac{3}{4}"),
        ((Value(3) / 4) ** 2, "(3 / 4)^2", r"\left(\tfrac{3}{4}\right)^{2}"),
        (function("exp", 3) ** 2, "exp(3)^2", r"\left(e^{3}\right)^{2}"),
        (function("√", 24) ** 3, "(√24)^3", r"\left(\sqrt{24}\right)^{3}"),
        (Value(-2) ** 2, "(−2)^2", r"\left(-2\right)^{2}"),
        (Value(2, scientific=True) ** 2, "(2.00·10⁰)^2", r"\left(2.00\cdot 10^{0}\right)^{2}"),
        (2 - Labelled(Value(3) + 4, "x"), "2 − (3 + 4)", r"2 - \left(\underbrace{3 + 4}_{x}\right)"),
        (1 + Labelled(Value(-3) * 2, "x"), "1 + (−3)·2", r"1 + \underbrace{\left(-3\right)\cdot 2}_{x}"),
        (1 + Labelled(Value(-3), "x"), "1 + (−3)", r"1 + \left(\underbrace{-3}_{x}\right)"),
        (function("floor", Value(7) / 2), "⌊7 / 2⌋", r"\left\lfloor \tfrac{7}{2}\right\rfloor"),
    ],
)
def test_brackets_stand_where_they_are_needed_and_nowhere_else(expression, plain, tex):
    assert (expression.write(PLAIN), expression.write(TEX)) == (plain, tex)


def test_a_unit_and_other_words_can_be_any_in_tex():
    equation = Equation(Value(1, "n") / 2, unit="%", also="50 % & _")
    assert equation.tex().endswith(r"0.5000\text{ \%} = \text{50 \% \& \_}")


def test_a_side_that_is_the_same_is_printed_once():
    assert Equation(Value(5)).text() == "5"
    assert Equation(Value(5, "S"), unit="B").text() == "S = 5 = 5 B"
    assert Equation(Value(2, "L") * 4, steps=Steps.SYMBOLS).text() == "L·4 = 8"
    assert Equation(Value(2, "L") * 4, name="n", steps=Steps.NUMBERS).text() == "n = 2·4 = 8"


def test_every_letter_with_a_meaning_is_in_the_legend():
    L, S = Value(4, "L", "layers"), Value(12_345, "S", "tokens")
    assert Equation(2 * L * S * Value(3, "x")).legend() == {"L": ("layers", "4"), "S": ("tokens", "12,345")}
    named = Equation(L * S, "n", unit="B", meaning="bytes").legend()
    assert list(named) == ["n", "L", "S"] and named["n"] == ("bytes", "49,380 B")


def test_a_minus_sign_stands_before_what_holds_together():
    a, b = Value(7, "a"), Value(-3, "b")
    assert (-a).value == -7 and (-(a + b)).value == -4
    assert Equation(-(a + b)).text() == "−(a + b) = −(7 − 3) = −4"
    assert Equation(-(a * b)).text() == "−a·b = −7·(−3) = 21"
    assert Equation(5 * -a).text() == "5·(−a) = 5·(−7) = −35"
    assert Equation(5 - -a).text() == "5 − (−a) = 5 − (−7) = 12"


def test_a_matrix_times_a_vector_is_its_rows():
    a, b, x, y = Value(2, "a"), Value(5, "b"), Value(7, "x"), Value(-3, "y")
    product = MatrixProduct((("u", "u", "first"), ("v", r"\upsilon", "second")), ((a, -b), (b, a)), (x, y))
    assert product.tex() == (
        r"\begin{pmatrix} u \\ \upsilon \end{pmatrix} = "
        r"\begin{pmatrix} a & -b \\ b & a \end{pmatrix} \begin{pmatrix} x \\ y \end{pmatrix}"
    )
    first, second = product.rows()
    assert first.text() == "u = x·a − y·b = 7·2 − (−3)·5 = 29" and first.legend()["u"] == ("first", "29")
    assert second.tex() == r"\upsilon = x\cdot b + y\cdot a = 7\cdot 5 + \left(-3\right)\cdot 2 = 29"
    assert check(aligned(product, first, second), tex=True) == []


def test_a_value_is_what_python_makes_of_it():
    a, b, c = Value(7), Value(-3), Value(2.5)
    tree = (
        (2 * a - b / c) ** 2 + function("floor", a / 2) * function("max", a, b, 1) - function("√", 16) + total([a, b])
    )
    assert tree.value == pytest.approx((2 * 7 + 3 / 2.5) ** 2 + 3 * 7 - math.sqrt(16) + 4)
    assert (1 - a).value == -6 and (1 / c).value == 0.4 and (1 + a).value == 8 and total([a]) is a
