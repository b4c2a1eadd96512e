"""The wheel: what it carries, what it requires, and its small form in an environment of its own.

The app form is opened in tests/browser/test_installed.py.
"""

import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
import streamlit as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import attnviz
from tests.packaged import ROOT, Environment, build

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def by_name(lines: list[str]) -> dict[str, Requirement]:
    return {canonicalize_name(found.name): found for found in map(Requirement, lines)}


def of_the_demo() -> tuple[dict[str, Requirement], list[str]]:
    """Return the packages of requirements.txt, and its options."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines()]
    return by_name([line for line in lines if line and line[0] != "-"]), [line for line in lines if line[:1] == "-"]


def test_the_package_and_the_demo_need_the_same() -> None:
    base, app = by_name(PROJECT["dependencies"]), by_name(PROJECT["optional-dependencies"]["app"])
    demo, options = of_the_demo()
    assert set(base) == {"numpy", "safetensors"} and not set(base) & set(app)
    assert {**base, **app}.keys() == demo.keys() and options == [f"--extra-index-url {CPU_INDEX}"]
    for name, ours in {**base, **app}.items():
        assert ours.extras == demo[name].extras
        pinned = [each.version for each in demo[name].specifier if each.operator == "=="]
        assert all(map(ours.specifier.contains, pinned)) if pinned else ours.specifier == demo[name].specifier
    assert app["streamlit"] == demo["streamlit"]  # attnviz/server relies on its internals


@pytest.mark.slow
def test_the_small_form_is_installed_alone(tmp_path: Path) -> None:
    """Its files, its requirements, its imports, and what it says of the app."""
    wheel, empty = build(tmp_path / "wheel"), tmp_path / "empty"
    empty.mkdir()
    assert wheel.name == f"attnviz-{attnviz.__version__}-py3-none-any.whl"
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "attnviz", "pages", "app.py"]
    there = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    ours = {
        path if path.startswith("attnviz/") else f"attnviz/_app/{path}" for path in there if (ROOT / path).is_file()
    }
    carried = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("attnviz-")}
    assert carried == ours | {"attnviz/_app/.streamlit/config.toml"}

    environment = Environment.create(tmp_path / "environment")
    environment.link(["numpy", "safetensors"])
    before = {path.name for path in environment.packages.iterdir()}
    environment.install(wheel)
    added = {path.name for path in environment.packages.iterdir()} - before
    assert added == {"attnviz", f"attnviz-{attnviz.__version__}.dist-info"}
    assert "No broken requirements found" in environment.pip("check")
    assert environment.run("attnviz", "--version", cwd=empty).stdout == f"attnviz {attnviz.__version__}\n"
    heavy = "import sys, attnviz; print(sorted({'numpy', 'torch', 'streamlit', 'plotly'} & set(sys.modules)))"
    assert environment.run("python", "-c", heavy, cwd=empty).stdout == "[]\n"
    for arguments in ([], ["practice", "tasks"]):
        refused = environment.run("attnviz", *arguments, cwd=empty)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert (
            f"segno, streamlit {st.__version__}, tokenizers, torch:" in refused.stderr and CPU_INDEX in refused.stderr
        )
        assert 'pip install "attnviz[app]"' in refused.stderr and "Traceback" not in refused.stderr
