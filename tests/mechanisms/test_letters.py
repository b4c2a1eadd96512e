"""One table of letters: whatever prints one takes it from there, and no legend gives it two values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import attnviz
from attnviz.equations import Equation, Value
from attnviz.mechanisms import LETTERS, letter
from attnviz.practice.drills.question import KINDS, make
from tests.legends import ambiguous

TABLE = "attnviz.mechanisms.letters"
SOURCES = sorted(Path(attnviz.__file__).parent.rglob("*.py"))


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Iterate over the nodes of these kinds in all sources but the table's, each with its place."""
    for path in SOURCES:
        module = ".".join(path.relative_to(SOURCES[0].parents[1]).with_suffix("").parts)
        if module != TABLE:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, kinds):
                    yield f"{module}:{node.lineno}", node


def constants(*found: ast.expr | None) -> list[object]:
    return [each.value if isinstance(each, ast.Constant) else None for each in found]


def test_a_letter_of_the_table_is_made_nowhere_else():
    typed = []
    for place, node in nodes(ast.Call):
        if getattr(node.func, "id", "") == "Value":
            given = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "symbol")]
            typed += [(place, symbol) for symbol in constants(*given) if symbol in LETTERS]
    assert typed == [], "take it with `letter` from attnviz/mechanisms/letters.py"


def test_there_is_no_second_table_of_letters():
    seconds = []
    for place, node in nodes(ast.Dict):
        pairs = zip(constants(*node.keys), constants(*node.values), strict=True)
        if sum(symbol in LETTERS and LETTERS[symbol][0] == meaning for symbol, meaning in pairs) > 1:
            seconds.append(place)
    assert seconds == []


def test_letters_mean_one_thing_each():
    assert LETTERS["C"] == ("d_model", "") and len({meaning for meaning, _ in LETTERS.values()}) == len(LETTERS)
    with pytest.raises(KeyError):
        letter("Ω", 3)


def test_two_values_of_a_letter_are_noticed():
    C, D = letter("C", 7), letter("D", 5)
    assert ambiguous(Equation(C * D), Equation(C + D)) == []
    assert ambiguous(Equation(C * D), Equation(letter("C", 11) + D)) == ["C is 7 and 11"]
    assert ambiguous(Equation(C * D, "f", meaning="FLOPs"), Equation(letter("f", 35.001) / D)) == []
    assert ambiguous(Equation(C * D, "f", meaning="FLOPs"), Equation(Value(36, "f") / D)) == ["f is 35 and 36"]


@pytest.mark.parametrize("name", KINDS)
def test_no_drill_gives_a_letter_two_values(name):
    for seed in range(20):
        assert ambiguous(*make(name, seed).solution) == [], seed
