"""Mistakes as questions: which line of an excerpt is mistaken."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from textwrap import dedent

from attnviz.compute import mistakes
from attnviz.compute.asked import kind_of_mistake
from attnviz.compute.view import View
from attnviz.practice.drills import Question
from attnviz.practice.drills.answers import ChoiceAnswer
from attnviz.session.pages.mistakes import MISTAKES
from attnviz.session.settings import Settings

N_LINES = 4  # to choose from
N_SHOWN = 9  # of the excerpt that has them, where it is not longer by itself
NEVER_WRONG = ("#", '"""', "def ", "class ", "else:", "raise ")


def of_mistake(name: str, seed: int) -> Question | None:
    """Return a mistake as a question for its line; None if its code has too few other lines.

    Its code has no comments: they say what the lines should do, and so answer this question and others.
    """
    of, mistake = _code_of(name), mistakes.load_mistake(name)
    lines, wrong = of.lines, of.wrong
    code = [i for i, each in enumerate(lines) if i == wrong or (i not in of.mistaken and _is_code(each))]
    at, longest = code.index(wrong), len(code) - N_LINES
    starts = range(max(0, at - N_LINES + 1), max(0, min(at, longest)) + 1)  # so that the place of the line differs
    among = [[lines[i] for i in code[start : start + N_LINES]] for start in starts]
    among = [each for each in among if len({*each}) == len(each) > 2]
    if not among:
        return None
    seed %= len(among) * N_SHOWN  # from which the same question is made
    asked = among[seed % len(among)]
    explained = tuple("" if each == lines[wrong] else "This line is right." for each in asked)
    return Question(
        f"Which line of this code, from attnviz/{of.file}, has the mistake?",
        ChoiceAnswer(tuple(asked), asked.index(lines[wrong]), explained, code=True), mistake.what,
        link=("mistakes", {"mistake": name, "hunt": "0"}), code=_around(of.whole, asked, seed // len(among)),
        whole="\n".join(of.whole), kind=kind_of_mistake(name), subject="mistakes", level=2, seed=seed,
    )  # fmt: skip


@dataclass(frozen=True)
class _Code:
    """The mistaken code without comments: the lines of its excerpt, and those of its whole functions."""

    file: str
    lines: tuple[str, ...]
    mistaken: frozenset[int]  # indices of lines
    whole: tuple[str, ...]

    @property
    def wrong(self) -> int:
        """Index of the line to find."""
        return min(self.mistaken)


@lru_cache(maxsize=len(MISTAKES))
def _code_of(name: str) -> _Code:
    excerpt = mistakes.excerpt(View(Settings(mistake=name)))
    whole = without_comments(excerpt.functions)
    bare = {line.strip(): each.strip() for line, each in zip(excerpt.functions.splitlines(), whole, strict=True)}
    lines = tuple(bare.get(line.strip(), "") for line in excerpt.lines)
    return _Code(excerpt.files[0], lines, excerpt.mistaken, tuple(line for line in whole if line))


def _is_code(line: str) -> bool:
    """Check whether one can doubt a line: it is no part of a docstring, no head of a function."""
    line = line.strip()
    return len(line) > 3 and not line.startswith(NEVER_WRONG) and not line.endswith((".", '"""'))


def without_comments(source: str) -> list[str]:
    """Return the lines of Python code without comments; a line that is nothing else is "" then."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return lines


def _around(lines: Sequence[str], asked: list[str], offset: int) -> str:
    """Return the lines that are asked with lines around them, N_SHOWN in all where the function has so many.

    offset: how many of the others come before, as far as there are.
    """
    first, last = _span(lines, asked)
    start, end = _body(lines, first)
    others = max(0, N_SHOWN - (last - first + 1))
    before = min(first - start, max(offset % (others + 1), others - (end - last)))
    shown = lines[first - before : min(end, last + others - before) + 1]
    return dedent("\n".join(shown))


def _span(lines: Sequence[str], asked: list[str]) -> tuple[int, int]:
    """Return the indices of the first and the last of these lines where they are nearest to each other."""

    def last_from(first: int) -> int | None:
        at = first
        for line in asked[1:]:
            at = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == line), -1)
            if at < 0:
                return None
        return at

    firsts = [i for i, line in enumerate(lines) if line.strip() == asked[0]]
    return min(((i, end) for i in firsts if (end := last_from(i)) is not None), key=lambda each: each[1] - each[0])


def _body(lines: Sequence[str], at: int) -> tuple[int, int]:
    """Return the indices of the first and the last line of the function that has this line, without its docstring."""
    functions = [node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.FunctionDef)]
    of = next(node for node in functions if node.lineno <= at + 1 <= (node.end_lineno or 0))
    head = of.body[1] if ast.get_docstring(of) and len(of.body) > 1 else of.body[0]
    return head.lineno - 1, (of.end_lineno or head.lineno) - 1
