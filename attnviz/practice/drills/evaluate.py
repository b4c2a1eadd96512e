"""Evaluate a short typed expression: + − · / // ^ ², brackets, the functions below, pi, e, variables."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping

MAX_CHARS = 200
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "ln": math.log, "log2": math.log2, "cos": math.cos,
    "sin": math.sin, "tanh": math.tanh, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
_CONSTANTS = {"pi": math.pi, "e": math.e}
_SIGNS = str.maketrans(
    {"·": "*", "×": "*", "⋅": "*", "−": "-", "–": "-", "π": " pi ", "\u202f": " ", "\xa0": " ", "√": "sqrt",
     "⌊": "floor(", "⌋": ")", "⌈": "ceil(", "⌉": ")"}
)  # fmt: skip
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_NAMED = re.compile(r"(?i)^(kv|query|key|head|line|token|position)( head)? (?=\d+$)")


class Unreadable(ValueError):
    """The text is not a valid expression. The message says why."""


def evaluate(written: str, letters: Mapping[str, float] | None = None) -> float:
    """Evaluate an expression. Raises Unreadable if it is invalid or has no finite value."""
    if len(written) > MAX_CHARS:
        raise Unreadable(f"An answer can have at most {MAX_CHARS} characters; this one has {len(written):,}.")
    text = _in_python(written, letters or {})
    try:
        value = _value(ast.parse(text, mode="eval").body, letters or {})
    except Unreadable:
        raise
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise Unreadable(
            f"“{written[:40]}” is not a number or an expression such as 2·32·8.{_hint(text, letters or {})}"
        ) from error
    if not math.isfinite(value):
        raise Unreadable("The expression has no finite value.")
    return value


def _in_python(written: str, letters: Mapping[str, float]) -> str:
    """Rewrite an expression in Python's signs, as far as it has one meaning."""
    text = _NAMED.sub("", written.strip()).translate(_SIGNS).strip()
    text = re.sub(r"(?<=\d)[, ](?=\d{3}(?!\d))", "", text)
    text = re.sub(r"((?:^|\(|(?<![/^*])[-+*]) ?[\d.]+) *pi\b", r"\1*pi", text)  # not 1/2π, which has two meanings
    text = re.sub("⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda raised: f"**{raised[0].translate(_RAISED)}", text).replace("^", "**")
    if "x" not in letters:
        text = re.sub(r"^([\d.]+) ?[*xX]$", r"\1", text)
        text = re.sub(r"(?<=[\w)]) [xX] (?=[\w(√])|(?<=\d\d)[xX](?=[\d(])|(?<=[1-9)])[xX](?=[\d(])", "*", text)
    text = re.sub(r"\b(sqrt|exp|log2?|ln|cos|sin|tanh|floor|ceil) +([\w.]+)$", r"\1(\2)", text)
    return re.sub(r"^([\d.]+) ?%$", r"\1 / 100", text)


def _hint(text: str, letters: Mapping[str, float]) -> str:
    """Say what to change in what people type most: factors without a sign, a unit or a suffix after a number."""
    if letters or re.fullmatch(r"\d+[A-Za-z]{2,}", text):
        return " Write · or * between the factors."
    if re.fullmatch(r"[-\d.,]+ ?[kKMGBT]", text):
        return " Write 151M as 151e6."
    return " Leave out the unit." if re.fullmatch(r"[-\d.,]+ [a-zA-Z/ ]+", text) else ""


def _value(node: ast.expr, letters: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name) if name in letters:
            return float(letters[name])
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Name(id=name):
            raise Unreadable(
                f"“{name[:20]}” is not a variable of this question."
                if letters
                else f"“{name[:20]}” is not read: type a number, or an expression such as 2·32·8."
            )
        case ast.UnaryOp(op=ast.USub(), operand=inside):
            return -_value(inside, letters)
        case ast.UnaryOp(op=ast.UAdd(), operand=inside):
            return _value(inside, letters)
        case ast.Call(func=ast.Name(id=name), args=[inside], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(inside, letters))
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _value(left, letters), _value(right, letters))
    raise Unreadable(f"Use numbers, + − * / ^, brackets, {', '.join(_FUNCTIONS)}, pi, e and the question's variables.")


def _binary(op: ast.operator, a: float, b: float) -> float:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div():
            return a / b
        case ast.FloorDiv():
            return a // b
        case ast.Pow():
            found = a**b
            if isinstance(found, complex):
                raise Unreadable("The expression has no real value.")
            return found
    raise Unreadable("The only operators are + − * / // ^.")
