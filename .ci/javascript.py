"""Lints the scripts as a browser gets them: .venv/bin/python .ci/javascript.py

A component's own script uses functions of others, which are put in front of it, and the scripts of attnviz/server are
blocks of one component's. So what is linted is each component's whole script, by Biome, which finds names that are not
declared besides errors of syntax. Biome is a program inside a package of PyPI: no Node and no node_modules are needed.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMPONENTS = HERE.parent / "attnviz" / "ui" / "components"
SERVER = HERE.parent / "attnviz" / "server"
BIOME = Path(sysconfig.get_path("scripts")) / "biome"


def sent() -> dict[str, str]:
    """Each component's whole script by its name, put together as `declared` and attnviz/server/browser.py do."""
    scripts = {"workarounds": workarounds()}
    for path in COMPONENTS.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "declared":
                name, *before = (ast.literal_eval(each) for each in (call.args[0], *call.args[2:]))
                files = [COMPONENTS / f"{each}.js" for each in ("call", *before, name)]
                scripts[name] = "".join(file.read_text(encoding="utf-8") for file in files)
    return scripts


def workarounds() -> str:
    """The scripts of attnviz/server, inside a function as in its browser.py."""
    blocks = [f"{{\n{path.read_text(encoding='utf-8')}}}\n" for path in sorted(SERVER.glob("*.js"))]
    return f"export default function ({{ data }}) {{\n{''.join(blocks)}}}\n"


def lint(scripts: Mapping[str, str]) -> tuple[int, str]:
    """Biome's exit status for these scripts, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        for name, script in scripts.items():
            Path(folder, f"{name}.mjs").write_text(script, encoding="utf-8")
        shutil.copy(HERE / "biome.json", folder)
        command = [BIOME, "lint", "--colors=off", "--error-on-warnings", "."]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    status, said = lint(sent())
    print(said.strip())
    sys.exit(status)
