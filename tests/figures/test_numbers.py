"""A score or a weight is rounded once, as a browser rounds it."""

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from attnviz.equations import number_text
from attnviz.figures.numbers import form, percent, printed, rounded, steps, told_apart


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (1 / 32, "0.0313"),
        (-1 / 32, "−0.0313"),
        (0.99995, "1.0000"),
        (5e-5, "0.0001"),
        (4.94e-5, "4.9·10⁻⁵"),
        (3.16e-5, "3.2·10⁻⁵"),
        (-1e-9, "−1.0·10⁻⁹"),
        (12.5, "12.5000"),
    ],
)
def test_halves_go_away_from_zero_and_zero_has_no_sign(value, shown):
    assert printed(value) == shown


def test_float32_numbers_are_rounded_exactly():
    """Decimal represents a binary number exactly, so that it is rounded only once."""
    values = np.random.default_rng(0).normal(scale=3, size=2003).astype(np.float32)
    values = values[np.abs(values) >= 5e-5]  # smaller ones are printed with two significant digits
    exact = [Decimal(float(v)).quantize(Decimal("0.0001"), ROUND_HALF_UP) for v in values]
    assert [Decimal(printed(v).replace("−", "-")) for v in values] == exact
    np.testing.assert_array_equal(steps(values), [int(10_000 * v) for v in exact])
    np.testing.assert_array_equal(rounded(values), [float(v) for v in exact])


@pytest.mark.parametrize("value", [0.93405, 5e-5, 4.9e-5, 7.1e-9, -3.3e-6])
def test_an_equation_prints_a_number_as_sentences_do(value):
    assert number_text(float(rounded(value)), **form(value)) == printed(value)
    of_several = rounded(np.array([[value, 0.0, 0.5], [1.0, 1e-6, value]]))
    np.testing.assert_array_equal(of_several, [[rounded(value), 0, 0.5], [1, 1e-6, rounded(value)]])


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((2.28, 2.413), ["2.28", "2.41"]),
        ((2.281, 2.284), ["2.281", "2.284"]),
        ((2.280801, 2.280804, 3.0), ["2.280801", "2.280804", "3.000000"]),
        ((2.0, 2.0), ["2.00", "2.00"]),
        ((2.0, 2.0 + 1e-12), ["2.00", "2.00"]),
        ((-0.001, 0.002), ["−0.001", "0.002"]),
    ],
)
def test_numbers_that_differ_are_printed_with_the_decimals_that_show_it(values, shown):
    assert told_apart(*values, digits=2) == shown


def test_a_change_that_is_printed_is_that_of_the_numbers_beside_it():
    before, after = 2.2758, 9.0829  # +6.81, and 9.08 − 2.28 would be 6.80
    assert told_apart(before, after, digits=2) == ["2.28", "9.08"]
    assert told_apart(before, after, digits=2, change=2) == ["2.276", "9.083"]
    assert told_apart(1.25, 1.5, digits=2, change=2) == ["1.25", "1.50"]


@pytest.mark.parametrize(
    ("share", "digits", "shown"),
    [
        (0.3033, 1, "30.3%"),
        (0.00004, 1, "0.004%"),
        (0.99966, 1, "99.97%"),
        (0.9996, 0, "99.96%"),
        (0.004, 0, "0.4%"),
        (0.0, 1, "0.0%"),
        (1.0, 0, "100%"),
        (1e-12, 1, "0.0000000%"),
    ],
)
def test_a_share_prints_as_none_or_all_only_if_it_is(share, digits, shown):
    assert percent(share, digits) == shown
