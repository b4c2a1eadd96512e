"""Windows and macOS, as far as Linux can tell: nothing needs what they lack, text is UTF-8, paths may have drives."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath

import pytest

from attnviz.compute.counting import CHILD
from attnviz.practice import child
from attnviz.session import openable

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "attnviz").rglob("*.py")]
LACKING = ("fcntl", "grp", "pwd", "resource", "termios", "uvloop")  # modules that Windows does not have
OPENING = {"open", "read_text", "write_text", "Popen", "run", "check_output", "TemporaryFile", "NamedTemporaryFile"}


def without_encoding(source: str) -> Iterator[str]:
    """Return the calls that read or write text in the encoding of the machine, which is not UTF-8 on Windows."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
        given = {keyword.arg for keyword in node.keywords}
        if name not in OPENING or "encoding" in given or ast.unparse(node.func) == "Image.open":  # no text
            continue
        method = isinstance(node.func, ast.Attribute) and name in ("read_text", "write_text")
        modes = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if method or "text" in given or (name == "open" and not any("b" in mode for mode in modes)):
            yield ast.unparse(node)


def test_text_is_read_and_written_as_utf_8() -> None:
    found = {str(path.relative_to(ROOT)): list(without_encoding(path.read_text(encoding="utf-8"))) for path in SOURCES}
    assert len(found) > 300 and {path: calls for path, calls in found.items() if calls} == {}


def test_text_without_an_encoding_is_noticed() -> None:
    broken = ["p.read_text()", "p.write_text(x)", "p.open()", "open(p, 'a')", "subprocess.run(c, text=True)"]
    assert [source for source in broken if len(list(without_encoding(source))) != 1] == []
    assert list(without_encoding("p.open('rb'); p.read_text(encoding='utf-8'); subprocess.run(c)")) == []


EVERYTHING = f"""
import importlib, os, pkgutil, signal, sys, sysconfig
sysconfig.get_config_vars()  # read once, from a file that is named by sys.platform
import numpy, plotly, psutil, safetensors.torch, streamlit, tokenizers, torch
from streamlit.proto import BackMsg_pb2
import streamlit.web.server.starlette
for name in {LACKING}:
    sys.modules[name] = None
for module, names in ((os, "fork killpg setsid getuid geteuid sched_getaffinity"), (signal, "SIGKILL SIGHUP SIGALRM")):
    for name in names.split():
        delattr(module, name)
sys.platform = "win32"
import attnviz
failed = []
names = [each.name for each in pkgutil.walk_packages(attnviz.__path__, "attnviz.", failed.append)]
for name in names:
    importlib.import_module(name)
print(len(names), failed)
"""


@pytest.mark.slow
def test_every_module_is_imported_without_what_windows_lacks() -> None:
    """The libraries are imported before: they have their own ways."""
    run = subprocess.run([sys.executable, "-c", EVERYTHING], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    n, failed = run.stdout.split(maxsplit=1)
    assert int(n) > 300 and failed == "[]\n"


def test_limits_that_a_system_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    child.limit()
    start = f"import runpy, sys; sys.modules['resource'] = None; runpy.run_path({str(CHILD)!r}, run_name='__main__')"
    counted = subprocess.run([sys.executable, "-c", start], input="[]", capture_output=True, text=True, check=True)
    assert json.loads(counted.stdout) == {"problem": "it does not name its model_type"}


@pytest.mark.parametrize(
    ("path", "is_absolute"),
    [
        (r"C:\models\smol", True),
        ("d:/models/smol", True),
        (r"models\smol", False),
        (r"C:smol", False),
        (r"\\stranger\share\smol", False),  # Windows would send the person's credentials there
        ("//stranger/share/smol", False),
        (r"\\?\UNC\stranger\share\smol", False),
    ],
)
def test_a_windows_path_is_absolute_with_a_drive(path: str, is_absolute: bool) -> None:
    assert openable.is_absolute(PureWindowsPath(path)) == is_absolute


def test_a_windows_path_is_named_by_its_last_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openable, "Path", PureWindowsPath)
    names = ["C:\\models\\smol", "C:\\models\\smol\\", "Qwen/Qwen3-0.6B", "gqa-4", "C:\\"]
    assert list(map(openable.short_name, names)) == ["smol", "smol", "Qwen3-0.6B", "gqa-4", "C:\\"]
