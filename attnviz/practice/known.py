"""The known mistaken versions of a task: its own, and its right version with each mistake of attnviz/mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from attnviz.mistakes import Version, all_mistakes
from attnviz.practice.task import Mistaken, Task


def known_mistakes(task: Task) -> Iterator[Mistaken]:
    """Yield the task's own mistaken versions, then its right version with each mistake of attnviz/mistakes."""
    yield from task.mistaken
    module = task.cases.__module__.removeprefix("attnviz.")
    for mistake in all_mistakes().values():
        version = mistake.version(task.model)
        if found := _in_version(task.name, module, version):
            yield Mistaken(f"with this mistake: {mistake.title}", found.right, mistake.id)


def _in_version(name: str, module: str, version: Version) -> Task | None:
    """Return the task as defined in a version; None if the version's files do not affect the task."""
    if all(file.startswith("mechanisms/") for file in version.files):
        return None  # a mistaken count changes no output
    changed = version.module(module)
    if changed.__name__ == f"attnviz.{module}":
        return None
    return next(each for each in vars(changed).values() if isinstance(each, Task) and each.name == name)
