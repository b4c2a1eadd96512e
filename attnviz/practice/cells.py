"""Judge code of a notebook cell: a function or class with what it uses, or its source."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from attnviz.practice.judge import TASK_LINE, Verdict, judge
from attnviz.practice.task import Task
from attnviz.practice.tasks import TASKS
from attnviz.practice.verdict_text import verdict_text


@dataclass(frozen=True)
class Checked:
    """A verdict that a notebook prints."""

    verdict: Verdict
    task: Task
    source: str  # what was judged

    def __repr__(self) -> str:
        return verdict_text("notebook", self.task, self.verdict)


def check(*code: Callable | str, task: str | None = None, seed: int | None = None) -> Checked:
    """Judge functions and classes defined in a notebook, or source code, as `attnviz practice check` judges a file.

    task: one of `TASKS`, if neither the names of the functions and classes nor a line TASK = "…" tell it. Runs the
    source in a separate process: of functions and classes together with all that they use from the notebook.
    ValueError if the task is not known or a source cannot be found.
    """
    source = source_of(*code)
    asked = {each.__name__ for each in code if not isinstance(each, str)} or _defined(source)
    name = task or _named_in(source) or _of(asked)
    if name not in TASKS:
        problem = "The code does not name a task" if name is None else f"There is no task {name!r}"
        raise ValueError(f"{problem}. Pass task= with one of: {', '.join(TASKS)}.")
    with tempfile.TemporaryDirectory(prefix="attnviz-") as folder:
        file = Path(folder) / "notebook.py"
        file.write_text(source, encoding="utf-8")
        return Checked(judge(file, TASKS[name], seed), TASKS[name], source)


def _named_in(source: str) -> str | None:
    match = TASK_LINE.search(source)
    return match[1] if match else None


def _of(names: set[str]) -> str | None:
    """Return the only task whose functions and classes all have these names; None if there is not one."""
    found = [task.name for task in TASKS.values() if _defined(task.skeleton) <= names]
    return found[0] if len(found) == 1 else None


def _defined(source: str) -> set[str]:
    """Return the names of the functions and classes that the source defines."""
    return {node.name for node in _parsed(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"The code cannot be read: {error.msg} in line {error.lineno}.") from None


# ---- what a function uses


def source_of(*code: Callable | str) -> str:
    """Return the source of functions and classes after the imports, definitions and constants that they use."""
    parts: dict[str, str] = {}
    for n, each in enumerate(code):
        if isinstance(each, str):
            parts[f"text {n}"] = each
        elif each.__name__ not in parts:
            module = sys.modules.get(each.__module__)
            _collect(each, vars(module) if module else {}, parts, set())
    return "\n\n".join(parts.values()) + "\n"


def _collect(code: Any, names: Mapping[str, Any], parts: dict[str, str], seen: set[str]) -> None:
    """Add the source of what this function or class uses to parts, then its own."""
    source = _source(code)
    seen.add(code.__name__)
    for name in _used(source):
        if name in seen or name not in names or hasattr(builtins, name):
            continue
        seen.add(name)
        value = names[name]
        if isinstance(value, ModuleType):
            parts[name] = f"import {value.__name__} as {name}"
        elif getattr(value, "__module__", None) == code.__module__ and callable(value):
            _collect(value, names, parts, seen)
        elif (home := getattr(value, "__module__", None)) and hasattr(value, "__name__"):
            parts[name] = f"from {home} import {value.__name__} as {name}"
        elif isinstance(value, int | float | str | tuple | list | dict | bool | None):
            parts[name] = f"{name} = {value!r}"
    parts[code.__name__] = source


def _source(code: Callable) -> str:
    """Return the source of one function or class."""
    try:
        return inspect.cleandoc("\n" + inspect.getsource(code))
    except (OSError, TypeError):
        if found := _class_source(code):
            return found
        raise ValueError(f"The source of {code.__name__} cannot be found: pass it as text.") from None


def _class_source(code: Callable) -> str | None:
    """Return the source of a class of a notebook, which `inspect` finds only in files: the cell of its methods."""
    files = [each.__code__.co_filename for each in vars(code).values() if inspect.isfunction(each)]
    text = "".join(linecache.getlines(files[0])) if files else ""
    for node in _parsed(text).body:
        if isinstance(node, ast.ClassDef) and node.name == code.__name__:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return None


def _used(source: str) -> Iterator[str]:
    """Iterate over the names that the source reads, each once, in their order."""
    return iter(dict.fromkeys(node.id for node in ast.walk(_parsed(source)) if isinstance(node, ast.Name)))
