"""Lesson files: the shipped ones and a user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnviz.compute.placeholders import FUNCTIONS
from attnviz.session.lessons import Lesson, LessonError, parse

SHIPPED = Path(__file__).parents[1] / "lessons"
FOLDER = "ATTNVIZ_LESSONS"  # environment variable: a folder with the user's own lessons
MAX_BYTES = 200_000  # of one file


@dataclass(frozen=True)
class Unread:
    """A lesson file that could not be parsed, and the reason."""

    file: str
    reason: str


def lessons() -> tuple[dict[str, Lesson], list[Unread]]:
    """Return all lessons by name, shipped ones first, and the files that could not be parsed.

    A user's lesson replaces the shipped one of the same name.
    """
    found: dict[str, Lesson] = {}
    unread: list[Unread] = []
    for path in _files():
        read = _read(path, path.stat().st_mtime_ns)
        if isinstance(read, Lesson):
            found[read.name] = read
        else:
            unread.append(read)
    return found, unread


def lesson(name: str) -> Lesson | None:
    """Return the lesson of this name, or None."""
    return lessons()[0].get(name)


def _files() -> Iterator[Path]:
    yield from sorted(SHIPPED.glob("*.md"), key=_order)
    if own := os.environ.get(FOLDER):
        yield from sorted(Path(own).glob("*.md"))


def _order(path: Path) -> tuple[int, str]:
    """Return the sort key of a shipped lesson: its line in order.txt, where lessons build on earlier ones."""
    order = (SHIPPED / "order.txt").read_text(encoding="utf-8").split()
    return (order.index(path.stem) if path.stem in order else len(order)), path.stem


@lru_cache(maxsize=256)
def _read(path: Path, changed: int) -> Lesson | Unread:
    """Parse a lesson file. changed: its modification time, part of the cache key so that edits are read again."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return Unread(path.name, f"the file is larger than {MAX_BYTES:,} B")
        return parse(path.stem, path.read_text(encoding="utf-8"), FUNCTIONS)
    except LessonError as error:
        return Unread(path.name, str(error))
    except (OSError, UnicodeDecodeError) as error:
        return Unread(path.name, f"the file cannot be read as UTF-8: {error}")
