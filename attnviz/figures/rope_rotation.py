"""The rotation of one pair of dimensions in numbers: the 2 × 2 matrix, its two rows, and the pair's part of q·k."""

from __future__ import annotations

import math

from attnviz.analysis.rope import RotatedPair
from attnviz.equations import Equation, MatrixProduct, Value, function, tex_lines
from attnviz.figures.drawing import Caption, quoted
from attnviz.figures.markup import meanings
from attnviz.figures.rope import frequency_value, subscript, three_digits

DIGITS = 3  # decimals of the rotated numbers


def rotation(rotated: RotatedPair, dimensions: tuple[int, int], q_label: str, n_pairs: int, theta: float) -> Caption:
    """Write the caption of a pair's rotation of q from before RoPE to position m, and of its part of q·k."""
    i, m, degrees = rotated.pair, rotated.m, math.degrees(rotated.m * rotated.frequency)
    angle = angle_of(rotated, n_pairs, theta)
    product = matrix_product(rotated, dimensions, angle)
    equations = [angle, *product.rows(), product_of_pair(rotated, dimensions)]
    title = f"At position {m}, pair {i} of q is rotated by {three_digits(degrees)}°"
    return Caption(
        title=title,
        note=f"q of {quoted(q_label)}, dimensions {dimensions[0]} and {dimensions[1]}: before RoPE, then rotated by "
        "position × frequency. The last line is this pair's part of q·k.",
        alt=f"{title}; it adds {rotated.product:.{DIGITS}f} to q·k with the key at position {rotated.n}.",
        formula=tex_lines(angle, product, *equations[1:]),
        legend=meanings(*equations),
    )


def angle_of(rotated: RotatedPair, n_pairs: int, theta: float) -> Equation:
    """Return the equation of φ, the angle of the pair at the query's position."""
    position = Value(rotated.m, "m", "position of the query")
    right = position * frequency_value(rotated.pair, n_pairs, theta)
    whole = float(right.value).is_integer()
    decimals = None if whole else max(DIGITS, 3 - math.floor(math.log10(right.value)))
    meaning = f"angle of pair {rotated.pair} at position {rotated.m}"
    return Equation(right, "φ", r"\varphi", unit="rad", digits=decimals, meaning=meaning)


def matrix_product(rotated: RotatedPair, dimensions: tuple[int, int], angle: Equation) -> MatrixProduct:
    """Return the rotation matrix times the pair of q."""
    phi = Value(angle.value, "φ", angle.meaning, digits=angle.digits, latex=r"\varphi")
    cos, sin = function("cos", phi), function("sin", phi)
    before = [
        Value(number, f"q{subscript(d)}", f"dimension {d} of q before RoPE", DIGITS, latex=f"q_{{{d}}}")
        for number, d in zip((rotated.q.real, rotated.q.imag), dimensions, strict=True)
    ]
    names = [(f"q′{subscript(d)}", f"q'_{{{d}}}", f"dimension {d} of q, rotated") for d in dimensions]
    return MatrixProduct(tuple(names), ((cos, -sin), (sin, cos)), tuple(before), DIGITS)


def product_of_pair(rotated: RotatedPair, dimensions: tuple[int, int]) -> Equation:
    """Return the equation of the pair's part of q·k: the dot product of the rotated pairs."""
    (a, b), q, k = dimensions, rotated.q_rotated, rotated.k_rotated
    right = _rotated_value("q", a, q.real) * _rotated_value("k", a, k.real, rotated.n)
    right = right + _rotated_value("q", b, q.imag) * _rotated_value("k", b, k.imag, rotated.n)
    meaning = f"part of q·k from pair {rotated.pair}"
    name, name_tex = f"r{subscript(rotated.pair)}", f"r_{{{rotated.pair}}}"
    return Equation(right, name, name_tex, digits=DIGITS, meaning=meaning)


def _rotated_value(vector: str, dimension: int, number: float, position: int | None = None) -> Value:
    at = "" if position is None else f" to position {position}"
    name, latex = f"{vector}′{subscript(dimension)}", f"{vector}'_{{{dimension}}}"
    return Value(number, name, f"dimension {dimension} of {vector}, rotated{at}", DIGITS, latex=latex)
