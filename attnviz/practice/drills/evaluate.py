"""Evaluate a short typed expression: + − · / // ^ ², brackets, the functions below, pi, e, variables."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping

from attnviz.practice.drills.reading import Unreadable, plain, readings

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "ln": math.log, "log2": math.log2, "cos": math.cos,
    "sin": math.sin, "tanh": math.tanh, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
_CONSTANTS = {"pi": math.pi, "e": math.e}
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_NAMED = re.compile(r"(?i)^(kv|query|key|head|line|token|position)( head)?( no\.?)?[ :#]+(?=\d+$)")
_FACTOR = r"((?:^|\(|(?<![/^*])[-+*]) ?[\d.]+) *"  # a number that nothing before it divides or is raised to


def evaluate(written: str, letters: Mapping[str, float] | None = None) -> float:
    """Evaluate an expression. Raises Unreadable if it is invalid or has no finite value."""
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
    text = readings(_NAMED.sub("", plain(written)))[0]
    text = re.sub(r"(?:√ ?|\bsqrt(?=\d))(\d[\d.]*|[A-Za-z]\w*)", r"sqrt(\1)", text).replace("√", "sqrt")
    text = re.sub(rf"{_FACTOR}(?=pi\b|sqrt\()", r"\1*", text)  # not 1/2π, which has two meanings
    text = _multiplied(text, letters) if letters else text
    text = re.sub("⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda raised: f"**{raised[0].translate(_RAISED)}", text).replace("^", "**")
    if "x" not in letters:
        text = re.sub(r"^([\d.]+) ?[*xX]$", r"\1", text)
        text = re.sub(r"(?<=[\w)]) [xX] (?=[\w(])|(?<=\d\d)[xX](?=[\d(])|(?<=[1-9)])[xX](?=[\d(])", "*", text)
    text = re.sub(r"\b(sqrt|exp|log2?|ln|cos|sin|tanh|floor|ceil) +([\w.]+)$", r"\1(\2)", text)
    return re.sub(r"^([\d.]+) ?(?:%|per ?cent)$", r"\1 / 100", text)


def _multiplied(text: str, letters: Mapping[str, float]) -> str:
    """Write the signs between the factors of 2LK(D + H); 1/2L keeps none, as it has two meanings."""
    one = "".join(letters)

    def spread(found: re.Match[str]) -> str:
        return "*".join(re.findall(r"[\d.]+|[A-Za-z]", found[0]))

    if re.search(rf"[/^] ?[\d.]*[{one}\d)] ?(?:[{one}]|\()", text):
        return text
    text = re.sub(rf"(?<![A-Za-z\d.])(?:\d[\d.]*)?[{one}]+(?![A-Za-z\d])", spread, text)
    return re.sub(rf"(?<=[{one}\d)])(?<!log2) ?(?=\()|(?<=\)) ?(?=[{one}])|(?<=[{one}\d]) (?=[{one}])", "*", text)


def _hint(text: str, letters: Mapping[str, float]) -> str:
    """Say what to change in what people type most: factors without a sign, a unit or a suffix after a number."""
    if re.search(r"(?:/|\*\*) ?-?[\d.]+ *pi\b", text):
        return " It has two meanings: write brackets, as in 1/(2π) or (1/2)·π."
    if letters and re.search(r"(?:/|\*\*) ?-?[\d.]+ *[A-Za-z(]", text):
        return " It has two meanings: write brackets around what is below the line, or in the exponent."
    if letters or re.fullmatch(r"\d+[A-Za-z]{2,}", text):
        return " Write · or * between the factors."
    if re.search(r"[\d)] ?\(|, ", text):
        return " Type one number, with · or * between factors."
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
        case ast.Call(func=ast.Constant() | ast.BinOp()):
            raise Unreadable("Type · or * between factors.")
        case ast.Tuple():
            raise Unreadable("Type one number.")
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
            power = a**b
            if isinstance(power, complex):
                raise Unreadable("The expression has no real value.")
            return power
    raise Unreadable("The only operators are + − * / // ^.")
