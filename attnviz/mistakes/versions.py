"""Load the project's own files with some lines changed, as separate modules next to the right ones.

A mistaken version is not a stored copy: it is the current right file with the mistake's lines substituted. A file that
imports a changed one is loaded again too, so that the whole model can run in the mistaken version.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar

from torch import nn

import attnviz

ROOT = Path(attnviz.__file__).parent
CONTEXT = 2  # lines of a diff before and after a change

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Change:
    """Whole lines of one file and their replacement in the mistaken version, both without outer indentation."""

    file: str  # below attnviz/: "modules/attention.py"
    right: str
    wrong: str  # "" if the lines are removed

    def apply(self, source: str) -> str:
        """Replace the right lines by the wrong ones. ValueError unless the right ones occur exactly once."""
        lines, right = source.splitlines(), cleandoc(self.right)
        n = right.count("\n") + 1
        found = [i for i in range(len(lines) - n + 1) if dedent("\n".join(lines[i : i + n])) == right]
        if len(found) != 1:
            times = f"{self.file} must contain these lines once, but has them {len(found)} times"
            raise ValueError(f"{times}:\n{right}{'' if found else _nearest(right, lines)}")
        indent = lines[found[0]][: -len(lines[found[0]].lstrip())]
        wrong = [indent + line if line else "" for line in cleandoc(self.wrong).splitlines()]
        return "\n".join([*lines[: found[0]], *wrong, *lines[found[0] + n :]]) + "\n"


class Version:
    """The project with some lines changed; without changes, the project itself."""

    def __init__(self, name: str, changes: Sequence[Change] = ()) -> None:
        self.name = name
        self.files = tuple(dict.fromkeys(change.file for change in changes))
        self._changes = changes
        self._modules: dict[str, ModuleType] = {}
        self._differs: dict[str, bool] = {}
        self._lock = RLock()

    def source(self, file: str) -> str:
        """Return the source of a file below attnviz/ in this version."""
        source = right_source(file)
        try:
            for change in self._changes:
                source = change.apply(source) if change.file == file else source
        except ValueError as error:
            id, _, latent = self.name.partition(", ")
            field = f"latent ({latent})" if latent else "changes"
            raise ValueError(f"{field} of attnviz/mistakes/catalogue/{id}.py: {error}") from None
        return source

    def diff(self) -> dict[str, str]:
        """Return the unified diff that repairs each changed file, without the two header lines: − is this version."""
        return {file: "\n".join(_diff(self.source(file), right_source(file))) for file in self.files}

    def changed_lines(self, file: str) -> tuple[set[int], set[int]]:
        """Return the line numbers that occur only in the right version, and those that occur only in this one."""
        before, after = right_source(file).splitlines(), self.source(file).splitlines()
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        different = [block for block in matcher.get_opcodes() if block[0] != "equal"]
        right = {n + 1 for _, first, stop, _, _ in different for n in range(first, stop)}
        return right, {n + 1 for _, _, _, first, stop in different for n in range(first, stop)}

    def path(self, file: str) -> str:
        """Return the path of a file below attnviz/ as this version's code objects name it."""
        path = ROOT / file
        return str(path.with_name(f"{path.stem} ({self.name}).py") if self.files else path)

    def module(self, name: str) -> ModuleType:
        """Return a module of this version by its name below attnviz: "modules.attention". Its errors propagate."""
        with self._lock:
            if not self._is_changed(name):
                return importlib.import_module(f"attnviz.{name}")
            if name not in self._modules:
                self._modules[name] = self._run(name)
            return self._modules[name]

    def like(self, module: M) -> M:
        """Copy a module and its submodules with this version's classes. Parameters are shared, not initialised."""
        kind = type(module)
        if kind.__module__.startswith("attnviz."):
            kind = getattr(self.module(kind.__module__.removeprefix("attnviz.")), kind.__qualname__)
        other = object.__new__(kind)
        parts = {name: part and self.like(part) for name, part in module._modules.items()}
        vars(other).update(vars(module), _modules=parts)
        return other

    def _is_changed(self, name: str) -> bool:
        """Check whether a module is changed or imports a changed one, directly or indirectly."""
        if name not in self._differs:
            self._differs[name] = False  # ends the recursion on circular imports
            changed = _file(name) in self.files
            self._differs[name] = changed or any([self._is_changed(each) for each in _imports(name)])  # noqa: C419 (all are noted)
        return self._differs[name]

    def _run(self, name: str) -> ModuleType:
        """Execute a file's source under this version's module and file name, for tracebacks and `inspect`."""
        file = _file(name)
        return self.run_text(self.source(file), f"attnviz.{name} ({self.name})", self.path(file))

    def run_text(self, source: str, name: str, path: str) -> ModuleType:
        """Execute source text as a module whose imports of the project resolve to this version."""
        spec = ModuleSpec(name, _Text(source, path), origin=path)
        spec.has_location = True
        module = module_from_spec(spec)
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        sys.modules[name] = module  # where `dataclass` and `inspect` look for it
        assert spec.loader is not None
        spec.loader.exec_module(module)
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Implement `from … import …` in the files of this version."""
        if fromlist and name.split(".")[0] == "attnviz":
            return self.module(name.partition(".")[2])
        return builtins.__import__(name, globals, locals, fromlist or (), level)


class _Text(SourceLoader):
    """A loader that reads a module's source from a string instead of a file."""

    def __init__(self, source: str, path: str) -> None:
        self.text, self.path = source, path

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str) -> bytes:
        if path != self.path:
            raise FileNotFoundError(path)
        return self.text.encode()


RIGHT = Version("right")


@cache
def right_source(file: str) -> str:
    """Return the source of a file below attnviz/."""
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def version(name: str, changes: tuple[Change, ...]) -> Version:
    """Return the version with these changes, cached."""
    return Version(name, changes)


def _file(name: str) -> str:
    """Return the file of a module, both relative to attnviz."""
    path = name.replace(".", "/")
    if (ROOT / path).is_dir():
        return f"{path}/__init__.py"
    return f"{path}.py"


@cache
def _imports(name: str) -> tuple[str, ...]:
    """Return the project's modules that a module imports from, by their names below attnviz."""
    return tuple(_imported(ast.parse(right_source(_file(name)))))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnviz."):
            yield (node.module or "").removeprefix("attnviz.")


def _nearest(right: str, lines: Sequence[str]) -> str:
    """Describe the line that is most similar to the first one that is missing; "" if none is similar."""
    stripped = [line.strip() for line in lines]
    missing = next((line.strip() for line in right.splitlines() if line.strip() not in stripped), "")
    similar = difflib.get_close_matches(missing, stripped, n=1)
    return f"\nMost similar is line {stripped.index(similar[0]) + 1}:\n{similar[0]}" if similar else ""


def _diff(wrong: str, right: str) -> list[str]:
    lines = difflib.unified_diff(wrong.splitlines(), right.splitlines(), n=CONTEXT, lineterm="")
    return list(lines)[2:]
