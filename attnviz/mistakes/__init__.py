"""Common mistakes in attention code, each run and compared with the right version.

Each is a file of `catalogue/` with a `MISTAKE`: the changed lines, a question about them, their effect on a text, and a
test. A mistaken version is the project itself with those lines changed (`versions.py`), so both versions can be run on
the same inputs:

    for mistake in all_mistakes().values():  # by id, sorted
        version = mistake.version()  # of MLA: version(config)
        version.files                                          # ("modules/attention.py",)
        version.module("modules.attention").attend(q, k, v)    # as attnviz.modules.attention.attend
        mistake.model(model)                                   # a model whose code has the mistake; weights are shared
        mistake.symptom(model, ids)                            # what the right and the mistaken model compute
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cache

from attnviz.mistakes import catalogue
from attnviz.mistakes.mistake import SUBJECTS, CannotOccur, Mistake, Source, Symptom, Words
from attnviz.mistakes.versions import RIGHT, Change, Version

__all__ = [
    "RIGHT", "SUBJECTS", "CannotOccur", "Change", "Mistake", "Source", "Symptom", "Version", "Words", "all_mistakes",
    "load_mistake",
]  # fmt: skip


@cache
def all_mistakes() -> dict[str, Mistake]:
    """Return the mistakes by id, in the order of their subjects, and of their titles within a subject."""
    names = [each.name for each in pkgutil.iter_modules(catalogue.__path__)]
    by_name = {name: importlib.import_module(f"{catalogue.__name__}.{name}").MISTAKE for name in names}
    by_subject = sorted(by_name, key=lambda name: (list(SUBJECTS).index(by_name[name].subject), by_name[name].title))
    return {name: replace(by_name[name], id=name) for name in by_subject}


def load_mistake(name: str) -> Mistake:
    """Return a mistake by its id. ValueError for an unknown id."""
    if name not in all_mistakes():
        raise ValueError(f"There is no mistake {name!r}; choose one of {', '.join(all_mistakes())}.")
    return all_mistakes()[name]
