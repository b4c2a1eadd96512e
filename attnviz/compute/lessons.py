"""Lesson files: the shipped ones and a user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnviz.compute.placeholders import FUNCTIONS
from attnviz.session.lessons import FOLDER, Lesson, LessonError, parse

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
    found: dict[str, Lesson] = {}
    unread: list[Unread] = []
    for path in _files():
        if not path.is_file():
            unread.append(Unread(path.stem, f"{PLAN} names it, and there is no lesson of this name"))
            continue
        read = _read(path, path.stat().st_mtime_ns)
        if isinstance(read, Lesson):
            found[read.name] = read
        else:
            unread.append(read)
    return found, unread


def own(found: Mapping[str, Lesson]) -> list[Lesson]:
    """Return those of the user's own folder."""
    folder = _folder()
    return [found[path.stem] for path in sorted(folder.glob("*.md")) if path.stem in found] if folder else []


def planned() -> bool:
    """Check whether the user's folder has a plan, such as that of a lecture."""
    folder = _folder()
    return bool(folder and (folder / PLAN).is_file())


def _folder() -> Path | None:
    name = os.environ.get(FOLDER)
    return Path(name) if name else None


def lesson(name: str) -> Lesson | None:
    """Return the lesson of this name, or None."""
    return lessons()[0].get(name)


def _files() -> Iterator[Path]:
    folder = _folder()
    if folder and planned():
        for name in (folder / PLAN).read_text(encoding="utf-8", errors="replace").split():
            own, shipped = (each / f"{Path(name).name}.md" for each in (folder, SHIPPED))
            yield own if own.is_file() else shipped
        return
    yield from sorted(SHIPPED.glob("*.md"), key=_order)
    if folder:
        yield from sorted(folder.glob("*.md"))


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
        return parse(path.stem, path.read_text(encoding="utf-8"), FUNCTIONS)
    except LessonError as error:
        return Unread(path.name, str(error))
    except (OSError, UnicodeDecodeError) as error:
        return Unread(path.name, f"the file cannot be read as UTF-8: {error}")
