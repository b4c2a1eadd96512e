r"""Expressions and equations that format themselves: symbols, inserted numbers and result come from one object.

    L, S = Value(4, "L", "layers"), Value(128, "S", "tokens")
    Equation(2 * L * S, unit="B").text()  # "2 · L · S = 2 · 4 · 128 = 1,024 B", with thin spaces

No printed equation is typed by hand: an expression is built with + - * / from its values, and each form (TeX or plain
text, symbols or numbers) is rendered from the same tree. Standard library only.
"""

from attnviz.equations.expressions import Expression, Labelled, Value, function, replaced, total
from attnviz.equations.numbers import number_text
from attnviz.equations.printed import Equation, MatrixProduct, Steps, tex_lines, tex_text

__all__ = [
    "Equation",
    "Expression",
    "Labelled",
    "MatrixProduct",
    "Steps",
    "Value",
    "function",
    "number_text",
    "replaced",
    "tex_lines",
    "tex_text",
    "total",
]
