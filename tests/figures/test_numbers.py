"""A score or a weight is rounded once, as a browser rounds it."""

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from attnviz.figures.numbers import printed, rounded, steps


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0000"),
        (1 / 32, "0.0313"),
        (-1 / 32, "−0.0313"),
        (0.99995, "1.0000"),
        (-1e-9, "0.0000"),
        (12.5, "12.5000"),
    ],
)
def test_halves_go_away_from_zero_and_zero_has_no_sign(value, shown):
    assert printed(value) == shown


def test_float32_numbers_are_rounded_exactly():
    """Decimal represents a binary number exactly, so that it is rounded only once."""
    values = np.random.default_rng(0).normal(scale=3, size=2003).astype(np.float32)
    exact = [Decimal(float(v)).quantize(Decimal("0.0001"), ROUND_HALF_UP) for v in values]
    assert [Decimal(printed(v).replace("−", "-")) for v in values] == exact
    np.testing.assert_array_equal(steps(values), [int(10_000 * v) for v in exact])
    np.testing.assert_array_equal(rounded(values), [float(v) for v in exact])
