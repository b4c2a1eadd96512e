"""Check whether the code that a mistake changes runs, by Python's trace function.

A line can run without its changed part: of `scale or (H * D) ** -0.5` only `scale` is evaluated where a scale is given.
So what is followed is the bytecode of the changed tokens, at their columns, in both versions: the tokens that only the
mistaken version has, and those that only the right one has, as where an argument is left out.
"""

from __future__ import annotations

import difflib
import inspect
import io
import sys
import tokenize
from collections.abc import Iterator, Set
from functools import cache, lru_cache
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

from attnviz.mistakes.versions import RIGHT, Version

EVALUATED = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)  # tokens with bytecode of their own


class Span(NamedTuple):
    """The place of a token or of an instruction: its lines, and its columns in bytes."""

    first: int
    begin: int
    last: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """Check whether the two have a column in common."""
        return (self.first, self.begin) < (other.last, other.end) and (other.first, other.begin) < (self.last, self.end)

    @property
    def size(self) -> tuple[int, int]:
        """Lines and columns, to compare spans that overlap."""
        return self.last - self.first, self.end - self.begin


class ChangedCode:
    """Context manager: `ran` tells whether changed code of the version has run inside of it, in this thread."""

    def __init__(self, version: Version) -> None:
        self.ran = False
        self._spans = _spans_by_path(version)
        self._before: Any = None

    def __enter__(self) -> ChangedCode:
        self._before = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        spans = self._spans.get(frame.f_code.co_filename)
        if self.ran or spans is None or not _offsets(frame.f_code, spans):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._on_opcode

    def _on_opcode(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and frame.f_lasti in _offsets(frame.f_code, self._spans[frame.f_code.co_filename]):
            self.ran = True
            sys.settrace(None)  # nothing else is asked
            return None
        return self._on_opcode


@cache
def changed_functions(version: Version) -> tuple[str, ...]:
    """Return the names of the functions whose code the version changes: "SwiGLU.forward", in the order of the files."""
    names, spans = [], _spans_by_path(version)
    for file in version.files:
        for each in (RIGHT, version):
            codes = _functions(compile(each.source(file), each.path(file), "exec"))
            names += [code.co_qualname for code in codes if _offsets(code, spans[each.path(file)])]
    return tuple(dict.fromkeys(names))


@cache
def _spans_by_path(version: Version) -> dict[str, frozenset[Span]]:
    """Return the spans of the tokens that only one version has, by the path of its code objects.

    Brackets and operators, which have no bytecode of their own, count only where nothing else is changed; of lines that
    were only moved, all tokens count.
    """
    found = dict[str, list[tokenize.TokenInfo]]()
    for file in version.files:
        right, wrong = version.changed_lines(file)
        before, after = _tokens(RIGHT.source(file), right), _tokens(version.source(file), wrong)
        a, b = ([token.string for token in each] for each in (before, after))
        blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        changed = [block for block in blocks if block[0] != "equal"] or blocks  # lines that were only moved
        found[RIGHT.path(file)] = [before[i] for _, i, stop, _, _ in changed for i in range(i, stop)]
        found[version.path(file)] = [after[i] for _, _, _, i, stop in changed for i in range(i, stop)]
    named = any(token.type in EVALUATED for tokens in found.values() for token in tokens)
    return {
        path: frozenset(_span(token) for token in tokens if token.type in EVALUATED or not named)
        for path, tokens in found.items()
    }


def _tokens(source: str, lines: Set[int]) -> list[tokenize.TokenInfo]:
    """Return the names, numbers, strings and operators on these lines."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [each for each in tokens if each.start[0] in lines and each.type in (*EVALUATED, tokenize.OP)]


def _span(token: tokenize.TokenInfo) -> Span:
    """Return the place of a token, with columns in bytes as in bytecode."""
    begin, end = (len(token.line[:column].encode()) for column in (token.start[1], token.end[1]))
    return Span(token.start[0], begin, token.end[0], end)


@lru_cache(512)
def _offsets(code: CodeType, spans: frozenset[Span]) -> frozenset[int]:
    """Return the offsets of the innermost instructions of a function that evaluate these tokens."""
    if not code.co_flags & inspect.CO_OPTIMIZED:  # a module or class, whose definitions span the functions
        return frozenset()
    places = [(2 * i, Span(a, c, b, d)) for i, (a, b, c, d) in enumerate(code.co_positions())
              if a is not None and b is not None and c is not None and d is not None]  # fmt: skip
    offsets = set[int]()
    for token in spans:
        over = [(place, offset) for offset, place in places if place.overlaps(token)]
        least = min((place.size for place, _ in over), default=None)
        offsets |= {offset for place, offset in over if place.size == least}
    return frozenset(offsets)


def _functions(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _functions(constant)
