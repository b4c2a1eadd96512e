"""The known mistaken versions of a task: its own, those with a mistake of attnviz/mistakes, and pairs of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from attnviz.mistakes import Version, all_mistakes
from attnviz.practice.task import Mistaken, Names, Task

Known = tuple[Mistaken, Names]
Possible = Callable[[Mistaken, Mistaken], bool]


def known_mistakes(task: Task) -> Iterator[Known]:
    """Yield the task's own mistaken versions, then its right version with each mistake of attnviz/mistakes."""
    for mistaken in task.mistaken:
        yield mistaken, task.build(**mistaken.options)
    for mistaken, changed in _of_the_page(task):
        yield mistaken, changed.right


def known_pairs(task: Task, possible: Possible) -> Iterator[tuple[tuple[Mistaken, Mistaken], Names]]:
    """Yield versions with two of the task's own mistakes, of the possible pairs."""
    for one, other in combinations(task.mistaken, 2):
        apart = one.explanation != other.explanation and not one.options.keys() & other.options.keys()
        if apart and "shared" not in {*one.options, *other.options} and possible(one, other):  # shared: by all cases
            yield (one, other), task.build(**one.options, **other.options)


def known_pairs_with_the_page(task: Task) -> Iterator[tuple[tuple[Mistaken, Mistaken], Names]]:
    """Yield versions with one of the task's own mistakes and one of attnviz/mistakes that the task does not have."""
    own_ids = {own.mistake for own in task.mistaken}
    for mistaken, changed in _of_the_page(task):
        if mistaken.mistake in own_ids:
            continue
        for own in changed.mistaken:
            yield (own, mistaken), changed.build(**own.options)


def _of_the_page(task: Task) -> Iterator[tuple[Mistaken, Task]]:
    """Yield the mistakes of attnviz/mistakes that affect the task, each with the task as defined in its version."""
    module = task.cases.__module__.removeprefix("attnviz.")
    for mistake in all_mistakes().values():
        if found := _in_version(task.name, module, mistake.version(task.model)):
            yield Mistaken(f"with this mistake: {mistake.title}", mistake=mistake.id), found


def _in_version(name: str, module: str, version: Version) -> Task | None:
    """Return the task as defined in a version; None if the version's files do not affect the task."""
    if all(file.startswith("mechanisms/") for file in version.files):
        return None  # a mistaken count changes no output
    changed = version.module(module)
    if changed.__name__ == f"attnviz.{module}":
        return None
    return next(each for each in vars(changed).values() if isinstance(each, Task) and each.name == name)
