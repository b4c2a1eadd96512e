"""Printed equations read as a person computes them: with the digits that are shown, and no others."""

from __future__ import annotations

import ast
import math
import operator
import re

from attnviz.equations import Equation
from tests.reading import NUMBER, SUPERSCRIPTS

NAMES = {"ln": math.log, "floor": math.floor, "ceil": math.ceil, "min": min, "max": max} | {
    name: getattr(math, name) for name in ("exp", "cos", "sin", "sqrt")
}

SIGNS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip


def in_python(printed: str) -> str:
    """Rewrite a printed expression of numbers in Python's signs."""
    text = re.sub(r"·10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda found: f"e{found[1].translate(SUPERSCRIPTS)}", printed)
    text = text.replace("⌊", "floor(").replace("⌈", "ceil(").replace("⌋", ")").replace("⌉", ")")
    text = re.sub(r"√([\d,.]+)", r"sqrt(\1)", re.sub(r"(?<=\d),(?=\d{3})", "", text))
    return text.replace("·", "*").replace("−", "-").replace("^", "**").replace("\u2009", " ")


def computed(equation: Equation) -> tuple[float, float, float]:
    """Return what the numbers of an equation amount to, its printed result, and half of the result's last digit."""
    *_, numbers, result = equation.text().split(" = ")
    shown = re.match(rf"[−-]?{NUMBER}", result)[0]
    mantissa, _, power = in_python(shown).partition("e")
    decimals = len(mantissa.partition(".")[2])
    half = 0.5 * 10.0 ** (int(power or 0) - decimals)
    return eval(in_python(numbers), {"__builtins__": {}}, NAMES), float(in_python(shown)), half


def rounded_on_the_way(equation: Equation, counts: bool = True) -> list[float]:
    """Return the result of who rounds what one sign or function gives to three digits, for each of them.

    counts: whole numbers below a million are rounded too.
    """
    *_, numbers, _ = equation.text().split(" = ")
    tree = ast.parse(in_python(numbers), mode="eval").body
    steps = [step for step in ast.walk(tree) if isinstance(step, ast.Call | ast.BinOp)]
    found = {step: _value(step) for step in steps}
    return [_value(tree, each) for each, n in found.items() if counts or n >= 1e6 or n != int(n)]


def _value(node: ast.expr, rounded: ast.AST | None = None) -> float:
    """Compute a printed expression; of the node `rounded`, three digits."""
    match node:
        case ast.Constant(value=number):
            found = number
        case ast.UnaryOp(operand=inside):
            found = -_value(inside, rounded)
        case ast.Call(func=ast.Name(id=name), args=inside):
            found = NAMES[name](*(_value(each, rounded) for each in inside))
        case ast.BinOp(left=left, op=op, right=right):
            found = SIGNS[type(op)](_value(left, rounded), _value(right, rounded))
        case _:
            raise ValueError(ast.dump(node))
    return float(f"{found:.3g}") if node is rounded else found


def bars(tex: str) -> int:
    """Return how many fractions, at most, stand in one another in a LaTeX formula, the outer one included."""
    most, closed, groups = 0, "", []  # the open groups: above or below a bar, or another
    for i, sign in enumerate(tex):
        if sign == "{":
            below = "below" if closed == "above" and tex[i - 1] == "}" else ""
            groups.append("above" if tex.endswith("frac", 0, i) else below)
            most = max(most, sum(map(bool, groups)))
        elif sign == "}":
            closed = groups.pop()
    return most
