"""pytest tests/test_printed_equations.py: what a page prints is true, on every view of every page.

Some hundreds of invented settings (tests/walk.py) are opened. Every equation on the page is evaluated by an evaluator of
its own (tests/arithmetic.py), and every number in the title of a drawing is looked for in what stands beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from attnviz.equations import Equation
from attnviz.figures.drawing import Drawing, Words
from attnviz.ui.settings import MODELS
from tests.arithmetic import NOTHING, check, numbers_in
from tests.walk import COST, GROUPS, HEADS, OPTIONS, ROPE, VIEWS, Page, Visit, visits, walking

TRACED = (HEADS, GROUPS, ROPE, COST)
VISITS = visits()


@dataclass
class Found:
    """What a walk has found: problems with the visit they were seen on, and how many equations were evaluated where."""

    wrong: dict[str, str] = field(default_factory=dict)
    unequal: dict[str, str] = field(default_factory=dict)
    evaluated: Counter = field(default_factory=Counter)
    compared: Counter = field(default_factory=Counter)


@pytest.fixture(scope="module")
def found() -> Found:
    """Every visit, each equation evaluated and each title compared."""
    found = Found()
    with walking() as opened:
        for visit in VISITS:
            look_at(visit, opened(visit), found)
    return found


def look_at(visit: Visit, page: Page, found: Found) -> None:
    view = visit.page, getattr(visit.settings, VIEWS.get(visit.page, "model"))
    for said in page.said:
        if not {"=", "≈"} & set(said.text):
            continue
        problems = check(said.text, said.tex or None)
        if problems != [NOTHING]:
            found.evaluated[view] += 1
            found.wrong |= {problem: str(visit) for problem in problems}
    for words in page.words:
        numbers = list(shown_numbers(words.title))
        found.compared[view] += len(numbers)
        found.unequal |= {f"{n} in “{words.title}”": str(visit) for n in unsupported(words, numbers)}


def report(problems: dict[str, str]) -> str:
    return "\n".join(f"{visit}\n    {problem}" for problem, visit in problems.items())


def test_every_view_is_visited_with_every_model():
    assert len(VISITS) > 300
    for page, name in VIEWS.items():
        seen = {(getattr(v.settings, name), v.settings.model) for v in VISITS if v.page == page}
        assert seen >= {(view, model) for view in OPTIONS[name] for model in MODELS}


def test_every_printed_equation_is_right(found):
    assert found.wrong == {}, report(found.wrong)


def test_equations_were_evaluated_in_every_view(found):
    missing = {(page, view) for page, name in VIEWS.items() for view in OPTIONS[name]} - set(found.evaluated)
    assert missing == set() and found.evaluated.total() > 2 * len(VISITS)


@pytest.mark.parametrize("page", TRACED)
def test_a_wrong_equation_is_noticed(monkeypatch, page):
    right, value = look_at_one(page), Equation.value.fget
    monkeypatch.setattr(Equation, "value", property(lambda self: value(self) * 1.01 + 1))
    wrong = look_at_one(page)
    assert right.wrong == {} and len(wrong.wrong) >= 1 and right.evaluated == wrong.evaluated


def look_at_one(page: str) -> Found:
    """The first plain view of a page."""
    visit, found = Visit(page, Visit(page, VISITS[0].settings).settings), Found()
    with walking() as opened:
        look_at(visit, opened(visit), found)
    return found


# ---- one quantity shown twice

NAMED = re.compile(  # numbers that are names: of a head, a layer, a model, a position
    r"\b(?:layers?|heads?|KV heads?|query|key|pairs?|token|position|dimensions?|after|What follows|[LHQKV])\s+"
    r"(?:\d+(?:,| and | to )?\s*)+\b|“[^”]*”|[A-Za-z]+-?\d[\w.-]*|\b\d+/\d+\b"
)


def shown_numbers(title: str) -> Iterator[str]:
    """The numbers in a title that are quantities, each with its unit."""
    plain = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", title)
    yield from (number.text for number in numbers_in(NAMED.sub(" ", plain)))
