"""The evaluator of printed equations accepts right equations and rejects wrong ones."""

import math
import re
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from tests.arithmetic import NOTHING, check, results, value_of
from tests.intervals import FUNCTIONS, Interval

RIGHT = [
    "4·16·2·4·(24·16/8) = 24,576 B = 24 KiB",
    "2·C·(H + K)·D = 2·192·(8 + 4)·24 = 110,592 weights",
    "L·(R + P)·4 B = 4·(32 + 8)·4 B = 640 B",
    "x = 1.23·10⁴ / 2 = 6,150",
    "divided by √24 = 4.899 it is the score. The largest step, +0.94, is pair 3",
    "max(1,234, 5)·2 = 2,468",
    "⌊7 / 2⌋ = 3 = ⌈2.1⌉",
    "s₂₁,₅ = (4.76 + 3.95) / √1 = 8.71",
    "√⌊1 / 2⌋ = 0",
    "149,600 B = 146 KiB",
    "30 GB·7 = 210 GB and 1.5 M = 1,500 k",
    "131,072 = 128 K = 131 k",
    "7 / 80 = 8.8 % = 0.0875",
    "−1.23·10⁻⁴ = −0.000123",
    "a₃ = 1 / Σⱼ exp(sⱼ − 3.20) = 1 / 1.234 = 0.810",
    "2·3 = a·b = 6",
    "200 / 3 ≈ 67 tokens per second",
    "12 KiB / 3 = 4 KiB per token",
    "λ = 1 / 2 = 0.5 rad\nμ = 2·3 = 6",
    r"2\,C\,(H + K)\,D = 2\cdot192\,(8 + 4)\,24 = 110{,}592",
    r"\begin{aligned} & \underbrace{2\,C H D}_{W_q, W_o}\\ & = 2\cdot192\cdot8\cdot24\\ & = 73{,}728 \end{aligned}",
    r"\begin{aligned} & \underbrace{1{,}000}_{\text{q, o}}\\ & + \underbrace{24}_{x}\\ & = 1{,}024 \end{aligned}",
    r"\begin{aligned} & \text{GQA-4: }2\cdot3 = 6\text{ B}\\ & \text{MHA: }1 = 1\text{ B} \end{aligned}",
    r"s_{21,5} = \frac{19.351}{\sqrt{24}} = 3.950,\quad e^{0} = \cos\left(0\right) = \max\!\left(0, 1\right)",
    r"\left\lfloor\tfrac{1-578}{1}\right\rfloor = -577",
    r"2^{-1} = \tfrac{50\text{ %}}{1}".replace("%", r"\%"),
]  # fmt: skip
WRONG = [
    "4·16·2·4·(24·16/8) = 30,720 B",
    "4·4·8·24·29 = 24,576",
    r"\left\lfloor\tfrac{1-578}{1}\right\rfloor = 0",
    "(4.76 − 0.81) = 8.71",
    r"\tfrac{19.351}{\sqrt{24}} = 8.71",
    "2·3 = a·b = 7",
    "0.22 = 0",
    "239 = 238.6 FLOPs per byte",
    "30,720 B = 31.0 KiB",
    "9 % = 0.07",
    "3·GB = 3.00 GB = 3.10 GB",
    r"e^{1.00} = 3.0",
    r"\begin{aligned} & 1\\ & + 2\\ & = 4 \end{aligned}",
    r"2 - \underbrace{3 + 4}_{\text{one}} = -5",  # an underbrace is not a bracket
    "it has 4 KV heads of 24 numbers, and 2·4·24 = 196 of them.",
    "2 = 1 / 0",
    "2 = (1",
    r"8 = \tfrac{4}{2}^{3}",
    "1 = 3 − −2",
]
SILENT = [  # texts without an equation between two numbers
    "Row = query, column = key",
    "arange(4).repeat_interleave(2) = 0 0 1 1",
    r"\theta_i = 10{,}000^{-2i/24},\qquad \lambda_i = 2\pi/\theta_i",
    "θ = 10,000; 3 and x = 4",
    "2 × 8 KV heads of 64 (not d_model / n_heads = 45)",
    r"R + P = 80\quad\text{for}\quad H\,(N + P + V) = 448",
    "4 tokens, 3.5 GB",
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_is_found_right(text):
    assert check(text) == []


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_found_wrong(text):
    assert check(text) not in ([], [NOTHING])


@pytest.mark.parametrize("text", SILENT)
def test_what_cannot_be_evaluated_is_said_to_be_so(text):
    assert check(text) == [NOTHING]


def test_the_results_of_equations_are_read_and_wrong_ones_refused():
    two = "c = a\\cdot b\n= 2\\cdot 3\n= 6\\text{ B}\n\\tfrac{5}{4} + x = \\tfrac{5}{4} + 2 = 3.25"
    assert results(two) == pytest.approx([6, 3.25], abs=0.0051) and results("E = m c") == []
    with pytest.raises(AssertionError):
        results(two.replace("= 6", "= 7"))


@st.composite
def python_expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """Draw arithmetic expressions in Python syntax, with whole numbers."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return str(draw(st.integers(0, 2000)))
    parts = [draw(python_expressions(depth=depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    joined = "".join(f"{draw(st.sampled_from('+-*/'))}{part}" for part in parts)[1:]
    return f"({joined})" if draw(st.booleans()) else joined


@pytest.mark.slow
@given(python_expressions())
@effort(max_examples=60, deadline=None)
def test_it_reckons_as_python_does(written):
    try:
        value = eval(re.sub(r"(\d+)", r"Fraction(\1)", written), {"Fraction": Fraction})
    except ZeroDivisionError:
        assume(False)
    found = value_of(written.replace("*", "·").replace("-", "−"))
    assert found.low == found.high == value


@given(st.floats(-1e6, 1e6), st.integers(1, 6))
@effort(max_examples=60, deadline=None)
def test_a_printed_decimal_stands_for_all_that_is_rounded_to_it(number, digits):
    found = value_of(f"{abs(number):,.{digits}f}")
    assert found.low <= Fraction(abs(number)) <= found.high and found.high - found.low <= Fraction(
        11, 10 ** (digits + 1)
    )


@given(st.floats(-9, 9), st.floats(0, 8))
@effort(max_examples=60, deadline=None)
def test_cos_and_sin_of_an_interval_hold_those_of_all_numbers_in_it(low, width):
    interval = Interval(Fraction(low), Fraction(low + width))
    for name, function in (("cos", math.cos), ("sin", math.sin)):
        found = FUNCTIONS[name](interval)
        assert all(found.low <= function(low + width * i / 50) <= found.high for i in range(51))
        assert found.low > -1.001 and found.high < 1.001
