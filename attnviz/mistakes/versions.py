"""The project's own files with some lines changed, run as modules of their own beside the right ones.

A mistaken version is no copy: it is the right file as it is now, with the lines of the mistake put in. A file that
imports a changed one is run anew too, so that the whole model can be run in the mistaken version.
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
    """Whole lines of one file, and the lines in their place in the mistaken version; without outer indentation."""

    file: str  # below attnviz/: "modules/attention.py"
    right: str
    wrong: str  # "" where the lines are left out

    def apply(self, source: str) -> str:
        """Put the wrong lines in place of the right ones. ValueError unless these stand in the source exactly once."""
        lines, right = source.splitlines(), cleandoc(self.right)
        n = right.count("\n") + 1
        found = [i for i in range(len(lines) - n + 1) if dedent("\n".join(lines[i : i + n])) == right]
        if len(found) != 1:
            raise ValueError(f"{self.file} must have these lines once, and has them {len(found)} times:\n{right}")
        indent = lines[found[0]][: -len(lines[found[0]].lstrip())]
        wrong = [indent + line if line else "" for line in cleandoc(self.wrong).splitlines()]
        return "\n".join([*lines[: found[0]], *wrong, *lines[found[0] + n :]]) + "\n"


class Version:
    """The project with some lines changed; without changes it is the project itself."""

    def __init__(self, name: str, changes: Sequence[Change] = ()) -> None:
        self.name = name
        self.files = tuple(dict.fromkeys(change.file for change in changes))
        self._changes = changes
        self._modules: dict[str, ModuleType] = {}
        self._differs: dict[str, bool] = {}
        self._lock = RLock()

    def source(self, file: str) -> str:
        """Give the text of a file below attnviz/ in this version."""
        source = right_source(file)
        for change in self._changes:
            source = change.apply(source) if change.file == file else source
        return source

    def diff(self) -> dict[str, str]:
        """Give each changed file's diff from the right one, in unified format without the two lines of names."""
        return {file: "\n".join(_diff(right_source(file), self.source(file))) for file in self.files}

    def changed_lines(self, file: str) -> tuple[set[int], set[int]]:
        """Give the numbers of a file's lines that stand in the right version alone, and in this one alone."""
        before, after = right_source(file).splitlines(), self.source(file).splitlines()
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        different = [block for block in matcher.get_opcodes() if block[0] != "equal"]
        right = {n + 1 for _, first, stop, _, _ in different for n in range(first, stop)}
        return right, {n + 1 for _, _, _, first, stop in different for n in range(first, stop)}

    def module(self, name: str) -> ModuleType:
        """Give a module of this version by its name below attnviz: "modules.attention". Any error of its own passes."""
        with self._lock:
            if not self._is_other(name):
                return importlib.import_module(f"attnviz.{name}")
            if name not in self._modules:
                self._modules[name] = self._run(name)
            return self._modules[name]

    def like(self, module: M) -> M:
        """Copy a module with its parts as those of this version. Parameters are shared; nothing is initialised."""
        kind = type(module)
        if kind.__module__.startswith("attnviz."):
            kind = getattr(self.module(kind.__module__.removeprefix("attnviz.")), kind.__qualname__)
        other = object.__new__(kind)
        parts = {name: part and self.like(part) for name, part in module._modules.items()}
        vars(other).update(vars(module), _modules=parts)
        return other

    def _is_other(self, name: str) -> bool:
        """Whether a module is a changed one or imports one, directly or not."""
        if name not in self._differs:
            self._differs[name] = False  # while its imports are asked
            changed = _file(name) in self.files
            self._differs[name] = changed or any([self._is_other(each) for each in _imports(name)])
        return self._differs[name]

    def _run(self, name: str) -> ModuleType:
        """Run a file's source under a name and file name of this version, which tracebacks and `inspect` can read."""
        path = ROOT / _file(name)
        shown = str(path.with_name(f"{path.stem} ({self.name}).py"))
        return self._run_text(self.source(_file(name)), f"attnviz.{name} ({self.name})", shown)

    def run_test(self, test: str) -> None:
        """Run a mistake's test on this version; what it raises passes."""
        path = str(ROOT / "mistakes" / f"test ({self.name}).py")
        module = self._run_text(test, f"attnviz.mistakes.test ({self.name})", path)
        for name, function in vars(module).items():
            if name.startswith("test_"):
                function()

    def _run_text(self, source: str, name: str, path: str) -> ModuleType:
        """Run a text of the project's own as a module that imports this version where it imports the project."""
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
        """What `from … import …` calls in a file of this version."""
        if fromlist and name.split(".")[0] == "attnviz":
            return self.module(name.partition(".")[2])
        return builtins.__import__(name, globals, locals, fromlist or (), level)


class _Text(SourceLoader):
    """A module's source from a text instead of a file."""

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
    """Give the text of a file below attnviz/."""
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def version(name: str, changes: tuple[Change, ...]) -> Version:
    """Make the version of these changes once."""
    return Version(name, changes)


def _file(name: str) -> str:
    """The file of a module, both below attnviz."""
    path = name.replace(".", "/")
    if (ROOT / path).is_dir():
        return f"{path}/__init__.py"
    return f"{path}.py"


@cache
def _imports(name: str) -> tuple[str, ...]:
    """The project's modules that a module imports from, by their names below attnviz."""
    return tuple(_imported(ast.parse(right_source(_file(name)))))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnviz."):
            yield (node.module or "").removeprefix("attnviz.")


def _diff(right: str, wrong: str) -> list[str]:
    lines = difflib.unified_diff(right.splitlines(), wrong.splitlines(), n=CONTEXT, lineterm="")
    return list(lines)[2:]
