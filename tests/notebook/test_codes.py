"""Weights of 16 bits: every printed digit is that of the weight, decoded here by the table in the docstring."""

import math
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pytest

from attnviz.notebook.codes import codes_of, exponent_of, planes

RANDOM = np.random.default_rng(7)


def decoded(code: int, top: int) -> Decimal:
    """By the docstring: decade and significant digits."""
    if code == 0:
        return Decimal(0)
    if code <= 36_000:
        decade, digits, length = (code - 1) // 9000, (code - 1) % 9000 + 1000, 4
    else:
        decade, digits, length = (code - 36_001) // 900 + 4, (code - 36_001) % 900 + 100, 3
    return Decimal(digits).scaleb(top - decade - length + 1)


def rounded(value: float, n: int) -> Decimal:
    return Context(prec=n, rounding=ROUND_HALF_UP).create_decimal(Decimal(value))


@pytest.mark.parametrize("largest", [1.0, 0.37, 5123.0, 3e-6])
def test_every_weight_has_its_digits(largest: float) -> None:
    weights = np.float32(largest) * (10 ** RANDOM.uniform(-30, 0, 3000)).astype(np.float32)
    top = exponent_of(largest)
    for weight, code in zip(weights.tolist(), codes_of(weights, top).tolist(), strict=True):
        depth = top - math.floor(math.log10(weight))
        if weight >= 0.999 * 10.0 ** (top - 3):
            assert decoded(code, top) == rounded(weight, 4)
        else:
            assert decoded(code, top) in {rounded(weight, 3), rounded(weight, 4)}, (weight, depth)


def test_the_ends() -> None:
    """Values at the borders of decades, and those that round up to the next."""
    values = np.array([1, 0.1, 0.01, 0.001, 1e-4, 1e-5, 0.99996, 0.099996, 0.00099996, 9.996e-5, 0, 1e-34, 1e-40])
    found = [decoded(code, 0) for code in codes_of(values, 0).tolist()]
    expected = ["1", ".1", ".01", ".001", "1e-4", "1e-5", "1", ".1", "1e-3", "1e-4", "0", "1e-34", "0"]
    assert found == [Decimal(each) for each in expected]


def test_the_largest_weight_says_the_first_decade() -> None:
    assert [exponent_of(w) for w in (1.0, 0.99996, 0.9999, 0.1, 0.0999, 1.25, 48.0, 0.0)] == [0, 0, -1, -1, -2, 0, 1, 0]


def test_half_precision_is_read_too() -> None:
    weights = np.array([[0.333, 2e-5]], np.float16)
    assert [float(decoded(c, -1)) for c in codes_of(weights, -1)[0].tolist()] == [0.3330, 2.0e-5]


def test_planes_are_the_high_and_the_low_bytes() -> None:
    assert planes(np.array([[0x1234, 0x00FF]], np.uint16)) == bytes([0x12, 0x00, 0x34, 0xFF])
