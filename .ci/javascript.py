"""Lints the components' scripts as a browser gets them: .venv/bin/python .ci/javascript.py

A component's own script uses functions of others, which are put in front of it. So what is linted is each component's
whole script, by Biome, which finds names that are not declared besides errors of syntax. Biome is a program inside a
package of PyPI: no Node and no node_modules are needed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
BIOME = Path(sysconfig.get_path("scripts")) / "biome"


def sent() -> dict[str, str]:
    """Each component's whole script by its name, as `declared` hands it to Streamlit."""
    sys.path.insert(0, str(HERE.parent))
    scripts = {}
    with patch("streamlit.components.v2.component", lambda name, *, js, **_: scripts.setdefault(name, js)):
        components = import_module("attnviz.ui.components")
        for module in iter_modules(components.__path__):
            import_module(f"{components.__name__}.{module.name}")
    return scripts


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
