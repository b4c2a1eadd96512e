"""Read the source of a function that is recorded: its statements, the names they read, comments and docstring."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType

from torch import nn


@cache
def source_of(code: CodeType) -> tuple[int, str]:
    """Return the function's first line number and its source."""
    lines, first = inspect.getsourcelines(code)
    return first, "".join(lines)


@cache
def _tree(code: CodeType) -> ast.FunctionDef:
    """Return the function's syntax tree, with the file's line numbers."""
    first, source = source_of(code)
    tree = ast.parse(inspect.cleandoc(f"\n{source}") if source[:1].isspace() else source)
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    ast.increment_lineno(function, first - 1)
    return function


@cache
def statements(code: CodeType) -> dict[int, tuple[int, int]]:
    """Map each line to the first and last line of its statement; for an `if` or `for`, of its header."""
    lines_of: dict[int, tuple[int, int]] = {}
    for node in ast.walk(_tree(code)):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            lines_of.update({n: (node.lineno, max(last, node.lineno)) for n in range(node.lineno, last + 1)})
    return lines_of


@cache
def names_read(code: CodeType, number: int) -> tuple[str, ...]:
    """Return the names read by the statement that begins on this line: variables, attributes such as "self.q_proj"."""
    for node in ast.walk(_tree(code)):
        if isinstance(node, ast.stmt) and node.lineno == number and not isinstance(node, ast.FunctionDef):
            parts = [node.test] if isinstance(node, (ast.If, ast.While)) else [node]
            parts = [node.iter] if isinstance(node, ast.For) else parts
            return tuple(dict.fromkeys(name for part in parts for name in _loads(part)))
    return ()


def _loads(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
        yield from _loads(node.value)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
        yield ast.unparse(node)
        yield from _loads(node.value)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _loads(child)


def look_up(name: str, frame: FrameType) -> object:
    """Look up a local variable or a chain of module attributes. None if that would call code."""
    first, *rest = name.split(".")
    held = frame.f_locals.get(first)
    for attribute in rest:
        if not isinstance(held, nn.Module):
            return None
        held = getattr(held, attribute, None)
    return held


@cache
def docstring_of(code: CodeType) -> tuple[int, int] | None:
    """Return the first and last line number of the function's docstring, if it has one."""
    first, *_ = _tree(code).body
    text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value
    return (first.lineno, first.end_lineno or first.lineno) if isinstance(text, str) else None


def comment_at(source: str, first: int, last: int) -> str:
    """Return the comment at the end of the statement in these rows of the source, counted from 0."""
    rows = source.splitlines()[first : last + 1]
    return next((row.partition("  # ")[2] for row in reversed(rows) if "  # " in row), "")
