"""Lesson files: the shipped ones and a user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnviz.compute.placeholders import PLACEHOLDERS
from attnviz.session.lesson import FOLDER, Lesson, LessonError, parse

SHIPPED = Path(__file__).parents[1] / "lessons"
PLAN = "order.txt"  # in that folder: the names of the lessons to show, one per line
MAX_BYTES = 200_000  # of one file


@dataclass(frozen=True)
class Unread:
    """A lesson file that could not be parsed, and the reason."""

    file: str
    reason: str


def lessons() -> tuple[dict[str, Lesson], list[Unread]]:
    """Return all lessons by name, shipped ones first, and the files that could not be parsed.

    A user's lesson replaces the shipped one of the same name. With a plan, those in it alone, in its order.
    """
    parsed: dict[str, Lesson] = {}
    unread: list[Unread] = []
    for name in _names():
        paths = _paths(name)
        if not paths:
            unread.append(Unread(name, f"{PLAN} names it, and there is no lesson of this name"))
        for read in map(_parsed, paths):
            if isinstance(read, Lesson):
                parsed[read.name] = read
            else:
                unread.append(read)
    return parsed, unread


def own(found: Mapping[str, Lesson]) -> list[Lesson]:
    """Return those of the user's own folder."""
    folder = _folder()
    read = map(_parsed, sorted(_files(folder))) if folder else ()
    return [lesson for lesson in read if isinstance(lesson, Lesson) and found.get(lesson.name) is lesson]


def lesson(name: str) -> Lesson | None:
    """Return the lesson of this name, also one that is not in the plan, or None."""
    readable = [read for read in map(_parsed, _paths(name)) if isinstance(read, Lesson)]
    return readable[-1] if readable else None


def planned() -> bool:
    """Check whether the user's folder has a plan, such as that of a lecture."""
    folder = _folder()
    return bool(folder and (folder / PLAN).is_file())


def _folder() -> Path | None:
    name = os.environ.get(FOLDER)
    return Path(name) if name else None


def _names() -> list[str]:
    """Return the names of all lessons, or of those in the plan."""
    folder = _folder()
    if folder and planned():
        written = (folder / PLAN).read_text(encoding="utf-8", errors="replace").split()
        return [Path(name).name.removesuffix(".md") for name in written]
    files = [*sorted(SHIPPED.glob("*.md"), key=_order), *(sorted(_files(folder)) if folder else ())]
    return list(dict.fromkeys(path.stem for path in files))


def _paths(name: str) -> list[Path]:
    """Return the files of a lesson: the shipped one, then the user's own. The name may be any text of a link."""
    files = (path for folder in (SHIPPED, _folder()) if folder for path in _files(folder))
    return [path for path in files if path.stem == name]


def _files(folder: Path) -> list[Path]:
    """Return a folder's lessons, without hidden files: an editor's may be links to nothing."""
    return [path for path in folder.glob("*.md") if path.is_file() and not path.name.startswith(".")]


def _parsed(path: Path) -> Lesson | Unread:
    return _read(path, path.stat().st_mtime_ns)


def _order(path: Path) -> tuple[int, str]:
    """Return the sort key of a shipped lesson: its line in order.txt, where lessons build on earlier ones."""
    order = (SHIPPED / PLAN).read_text(encoding="utf-8").split()
    return (order.index(path.stem) if path.stem in order else len(order)), path.stem


@lru_cache(maxsize=256)
def _read(path: Path, changed: int) -> Lesson | Unread:
    """Parse a lesson file. changed: its modification time, part of the cache key so that edits are read again."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return Unread(path.name, f"the file is larger than {MAX_BYTES:,} B")
        return parse(path.stem, path.read_text(encoding="utf-8"), PLACEHOLDERS)
    except LessonError as error:
        return Unread(path.name, str(error))
    except (OSError, UnicodeDecodeError) as error:
        return Unread(path.name, f"the file cannot be read as UTF-8: {error}")
