"""Each sentence on what a line is for belongs to one line of the shipped source."""

import ast
from pathlib import Path

import attnviz
from attnviz.figures.step_purposes import PURPOSES, purpose_of
from attnviz.steps import Call, Line, Run

PACKAGE = Path(attnviz.__file__).parent


def statements(file: str, function: str) -> list[str]:
    """Return the first lines of all statements of a function, "Class.method"."""
    (path,) = [path for folder in ("modules", "decode") for path in PACKAGE.glob(f"{folder}/{file}")]
    source = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for name in function.split("."):
        (node,) = [each for each in ast.iter_child_nodes(node) if getattr(each, "name", "") == name]
    return [source.splitlines()[each.lineno - 1].strip() for each in ast.walk(node) if isinstance(each, ast.stmt)]


def test_each_purpose_is_that_of_one_line():
    assert len(PURPOSES) > 20
    for (file, function), lines in PURPOSES.items():
        written = statements(file, function)
        for start, purpose in lines.items():
            assert sum(line.startswith(start) for line in written) == 1, (function, start)
            assert purpose[0].isupper() and purpose.endswith(".")


def run_with(file: str, text: str, own: bool = False) -> Run:
    call = Call(0, "attend", "attend", "modules", file, 31, f"def attend():\n    {text}", None)
    return Run(None, 0, (), [call], [], [], None, 0, own)


def test_a_changed_file_and_ones_own_have_no_purposes():
    line = Line(0, 0, 32, 32)
    assert purpose_of(run_with("attention.py", "output = torch.einsum(x)"), line).startswith(
        "Computes for each query the weighted sum"
    )
    assert purpose_of(run_with("attention (flipped_mask).py", "output = torch.einsum(x)"), line) == ""
    assert purpose_of(run_with("attention.py", "output = torch.einsum(x)", own=True), line) == ""
    assert purpose_of(run_with("attention.py", "print()"), line) == ""
